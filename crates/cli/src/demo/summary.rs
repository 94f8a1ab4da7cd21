//! What the demo has shown, for somebody who has never heard of such a filter.

use super::referee::EXACT_BYTES_PER_ID;
use super::script::{Phase, TARGET};
use super::show::Show;
use crate::number_format::{bytes, grouped, percent};

/// The summary of a show that is over, or was left.
pub fn lines(show: &Show, seed: u64) -> Vec<String> {
    let (script, score, status, history) = (show.script(), show.score(), show.status(), show.history());
    let window = script.window().as_secs_f64();
    let memory_at = |phase| history.at(script.end_of(phase)).map_or(0, |sample| sample.status.bytes as u64);
    let peak = history.peak_bytes() as u64;
    let exact = (show.most_ids() * EXACT_BYTES_PER_ID) as u64;
    let played = show.now().as_nanos() as f64 / 1e9;

    let sent = grouped(score.sent());

    let mut lines = vec![
        if show.is_over() {
            format!("What you saw in {played:.0} s: {sent} ids sent, some of them twice.")
        } else {
            format!("What you saw before you left after {played:.1} s: {sent} ids sent.")
        },
        format!(
            "  Remembering  {} retries caught, {} missed within the window of {window} s.",
            grouped(score.caught),
            grouped(score.missed),
        ),
        format!(
            "  Forgetting   {} ids came again after it, and were new; {} known now.",
            grouped(score.forgotten),
            grouped(status.ids),
        ),
        format!(
            "  Mistakes     {} of {} new ids seemed known: {} (target: {}).",
            grouped(score.mistaken),
            grouped(score.accepted + score.mistaken + score.forgotten),
            percent(score.mistaken_share()),
            percent(TARGET),
        ),
    ];
    if show.now() >= script.end_of(Phase::Surge) {
        lines.push(format!(
            "  The surge    took memory from {} to {}; it is {} now ({} resizes).",
            bytes(memory_at(Phase::Calm)),
            bytes(peak),
            bytes(status.bytes as u64),
            status.resizes,
        ));
    }
    lines.push(format!(
        "  Memory       {} at most; an exact table of {} ids needs over {}.",
        bytes(peak),
        grouped(show.most_ids() as u64),
        bytes(exact),
    ));
    lines
        .push(format!("The same once more: jeton demo --seconds {} --seed {seed}", script.total().as_secs()));
    lines
}
