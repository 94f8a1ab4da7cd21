//! Named points at which a server can be made to die or to fall asleep, for tests that kill real processes.
//!
//! Only in builds with debug assertions, and only if the environment says so: `JETON_FAULT=point:passes:deed:micros` lets the point be passed so many times, and then
//! does the deed, `kill` or `stop`, as many microseconds later. What is under way by then has been sent and not been answered, which is the harder case.
//! Several, with commas between them, are done one after the other: passes are counted from when the one before has been done.

/// All points, in the order in which a request meets them. Those with a `*` are followed by the number of the database.
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
    "undoing",
    "undone",
    "committing-*",
    "committed-*",
    "answering",
    "answered",
    "sweep-listed",
    "sweep-asked",
    "sweep-proposed",
    "sweep-ending",
    "sweep-ended",
    "acknowledged",
    "retiring",
    "retired",
];

/// A point is passed.
#[cfg(debug_assertions)]
pub(crate) fn pass(point: std::fmt::Arguments<'_>) {
    use std::sync::LazyLock;
    use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
    use std::time::Duration;

    struct Planned {
        point: String,
        left: AtomicI64,
        deed: String,
        micros: u64,
    }
    static DONE: AtomicUsize = AtomicUsize::new(0);
    static PLANNED: LazyLock<Vec<Planned>> = LazyLock::new(|| {
        let text = std::env::var("JETON_FAULT").unwrap_or_default();
        let read = |text: &str| {
            let [point, passes, deed, micros] = text.split(':').collect::<Vec<_>>().try_into().ok()?;
            let left = AtomicI64::new(passes.parse().ok()?);
            Some(Planned { point: point.into(), left, deed: deed.into(), micros: micros.parse().ok()? })
        };
        text.split(',').filter_map(read).collect()
    });

    let Some(planned) = PLANNED.get(DONE.load(Ordering::SeqCst)) else { return };
    if point.to_string() != planned.point || planned.left.fetch_sub(1, Ordering::SeqCst) != 0 {
        return;
    }
    tracing::warn!(point = planned.point, deed = planned.deed, "a planned fault");
    // By another process: no part of this one can hold it up. It ends only when this one stands: nobody goes beyond the point meanwhile. It looks
    // a limited number of times, as whoever lets this one go on may be faster.
    let script = match planned.deed.as_str() {
        "stop" => {
            "kill -STOP $PPID; n=0; until grep -q '^State:.T' /proc/$PPID/status || [ $((n+=1)) -gt 50 ]; do :; done"
        }
        _ => "kill -KILL $PPID",
    };
    let strike = move || {
        let _whatever_it_says = std::process::Command::new("sh").args(["-c", script]).status();
        DONE.fetch_add(1, Ordering::SeqCst);
    };
    if planned.micros == 0 {
        strike();
    } else {
        let delay = Duration::from_micros(planned.micros);
        std::thread::spawn(move || {
            std::thread::sleep(delay);
            strike();
        });
    }
}

/// A point is passed: nothing happens.
#[cfg(not(debug_assertions))]
pub(crate) fn pass(_point: std::fmt::Arguments<'_>) {}
