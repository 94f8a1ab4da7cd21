//! Failpoints: named points at which tests kill or stop a real server process. Needs the feature
//! `failpoints`.
//!
//! `JETON_FAULT=point:passes:action:micros` passes the point `passes` times and then executes the action,
//! `kill` or `stop`, `micros` microseconds later. With a delay, requests are sent and their responses are
//! outstanding, which is the harder case. Several faults, separated by commas, happen one after the other:
//! the passes of a fault count from the fault before it.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::time::Duration;

/// All failpoints, in the order in which a request passes them. The number of a database replaces `*`.
pub const POINTS: &[&str] = &[
    "taken",
    "looked",
    "asked-others",
    "awaiting",
    "fenced",
    "begun",
    "executed",
    "computed",
    "voting-*",
    "voted-*",
    "proposing",
    "proposed",
    "deciding",
    "decided",
    "rolling-back",
    "rolled-back",
    "committing-*",
    "committed-*",
    "answering",
    "answered",
    "recovery-listed",
    "recovery-asked",
    "recovery-proposed",
    "recovery-ending",
    "recovery-ended",
    "acknowledged",
    "retiring",
    "retired",
];

struct Fault {
    point: String,
    passes_left: AtomicI64,
    action: String,
    delay: Duration,
}

/// The number of faults that have happened.
static DONE: AtomicUsize = AtomicUsize::new(0);

static FAULTS: LazyLock<Vec<Fault>> = LazyLock::new(|| {
    let text = std::env::var("JETON_FAULT").unwrap_or_default();
    text.split(',').filter_map(parse).collect()
});

fn parse(text: &str) -> Option<Fault> {
    let [point, passes, action, micros] = text.split(':').collect::<Vec<_>>().try_into().ok()?;
    let passes_left = AtomicI64::new(passes.parse().ok()?);
    let delay = Duration::from_micros(micros.parse().ok()?);
    Some(Fault { point: point.into(), passes_left, action: action.into(), delay })
}

/// Passes a failpoint.
pub(crate) fn pass(point: std::fmt::Arguments<'_>) {
    let Some(fault) = FAULTS.get(DONE.load(Ordering::SeqCst)) else { return };
    if point.to_string() != fault.point || fault.passes_left.fetch_sub(1, Ordering::SeqCst) != 0 {
        return;
    }
    tracing::warn!(point = fault.point, action = fault.action, "failpoint reached");
    // A child process sends the signal, so that no thread of this process can delay it. It waits until this
    // process has stopped, so that no thread passes the point meanwhile. The wait is bounded, because the
    // test may resume this process earlier.
    let script = match fault.action.as_str() {
        "stop" => {
            "kill -STOP $PPID; n=0; \
             until grep -q '^State:.T' /proc/$PPID/status || [ $((n+=1)) -gt 50 ]; do :; done"
        }
        _ => "kill -KILL $PPID",
    };
    let act = move || {
        let _status = std::process::Command::new("sh").args(["-c", script]).status();
        DONE.fetch_add(1, Ordering::SeqCst);
    };
    if fault.delay.is_zero() {
        act();
    } else {
        std::thread::spawn(move || {
            std::thread::sleep(fault.delay);
            act();
        });
    }
}
