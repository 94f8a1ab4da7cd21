//! A run of one seed, from its first step to the final check.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

use crate::rng::Rng;
use crate::simulation::{RunLog, Simulation};
use crate::violation::{Checked, Violation};

/// Default number of steps of a run.
pub const STEPS: u64 = 300;

#[derive(Debug, Clone, Default)]
pub struct RunSpec {
    pub seed: u64,
    pub steps: u64,
    pub skip: BTreeSet<u64>,
    /// Whether only the observations of clients are checked.
    pub outside: bool,
}

impl RunSpec {
    pub fn of(seed: u64) -> Self {
        Self { seed, steps: STEPS, ..Self::default() }
    }
}

#[derive(Debug, Clone)]
pub struct Outcome {
    pub violation: Option<Violation>,
    pub log: RunLog,
}

thread_local! {
    /// The message of the last panic of this thread during a run.
    static PANIC: RefCell<Option<Option<String>>> = const { RefCell::new(None) };
}

/// Captures the messages of panics in runs, which are violations.
fn capture_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let ours = PANIC.with_borrow_mut(|panic| match panic {
                Some(said) => {
                    *said = Some(info.to_string());
                    true
                }
                None => false,
            });
            if !ours {
                before(info);
            }
        }));
    });
}

pub fn run(spec: &RunSpec) -> Outcome {
    capture_panics();
    let mut simulation = Simulation::new(spec.seed);
    simulation.outside = spec.outside;
    PANIC.set(Some(None));
    let result = catch_unwind(AssertUnwindSafe(|| play(&mut simulation, spec)));
    let said = PANIC.take().flatten();
    let violation = match result {
        Ok(checked) => checked.err(),
        Err(_) => Some(Violation { rule: "panic", what: said.unwrap_or_else(|| "without a message".into()) }),
    };
    if violation.is_some() {
        // The state after a panic may be inconsistent, so it is not dropped.
        std::mem::forget(simulation.process.take());
    }
    Outcome { violation, log: simulation.into_log() }
}

fn play(simulation: &mut Simulation, spec: &RunSpec) -> Checked {
    for step in (0..spec.steps).filter(|step| !spec.skip.contains(step)) {
        simulation.step(step, &mut Rng::of_step(spec.seed, step))?;
        if simulation.has_ended() {
            return Ok(());
        }
    }
    simulation.finish(&mut Rng::of_step(spec.seed, u64::MAX - 1))
}
