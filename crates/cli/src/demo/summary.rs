//! What the demo has shown, for somebody who has never heard of such a filter.

use super::referee::EXACT_BYTES_PER_ID;
use super::script::{Phase, SURGE_FACTOR, TARGET};
use super::show::Show;
use crate::number::{bytes, grouped, percent};

/// The summary of a show that is over, or was left.
pub fn lines(show: &Show, seed: u64) -> Vec<String> {
    let (script, score, status, history) = (show.script(), show.score(), show.status(), show.history());
    let window = script.window().as_secs_f64();
    let memory_at = |phase| history.at(script.end_of(phase)).map_or(0, |sample| sample.status.bytes as u64);
    let peak = history.peak_bytes() as u64;
    let exact = (show.most_ids() * EXACT_BYTES_PER_ID) as u64;
    let played = show.now().as_nanos() as f64 / 1e9;

    let mut lines = vec![
        if show.is_over() {
            format!(
                "What you saw, in {played:.0} s: {} ids sent, new ones and old ones.",
                grouped(score.sent())
            )
        } else {
            format!("What you saw, before you left after {played:.1} s: {} ids sent.", grouped(score.sent()))
        },
        format!(
            "  Remembering  {} retries caught, {} missed. Within its window of {window} s the filter misses none.",
            grouped(score.caught),
            grouped(score.missed),
        ),
        format!(
            "  Forgetting   {} ids came again after the window and were new again. It remembers {} ids now.",
            grouped(score.forgotten),
            grouped(status.ids),
        ),
        format!(
            "  Mistakes     {} of {} new ids were taken for known ones: {}. The target was {}.",
            grouped(score.mistaken),
            grouped(score.accepted + score.mistaken + score.forgotten),
            percent(score.mistaken_share()),
            percent(TARGET),
        ),
    ];
    if show.now() >= script.end_of(Phase::Surge) {
        lines.push(format!(
            "  The surge    {SURGE_FACTOR} times the load: memory went from {} to {}, and is {} now ({} resizes).",
            bytes(memory_at(Phase::Calm)),
            bytes(peak),
            bytes(status.bytes as u64),
            status.resizes,
        ));
    }
    lines.push(format!(
        "  Memory       {} at the peak. An exact table of the {} ids of that window needs {} or more.",
        bytes(peak),
        grouped(show.most_ids() as u64),
        bytes(exact),
    ));
    lines.push(format!(
        "The same once more: jeton demo --seconds {:.0} --seed {seed}",
        script.total().as_secs()
    ));
    lines
}
