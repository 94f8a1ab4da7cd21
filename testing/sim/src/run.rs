//! A run: a seed, from its first step to the accounts at its end.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

use crate::rng::Rng;
use crate::simulation::{RunLog, Simulation};
use crate::violation::{Checked, Violation};

/// Steps of a run, if nobody says otherwise.
pub const STEPS: u64 = 300;

/// What to run.
#[derive(Debug, Clone, Default)]
pub struct RunSpec {
    /// The seed.
    pub seed: u64,
    /// How many steps.
    pub steps: u64,
    /// The steps that are left out.
    pub skip: BTreeSet<u64>,
    /// Whether only that counts which a client can see.
    pub outside: bool,
}

impl RunSpec {
    /// All steps of a seed.
    pub fn of(seed: u64) -> Self {
        Self { seed, steps: STEPS, ..Self::default() }
    }
}

/// The result of a run.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// The promise that was not kept, if one was not.
    pub violation: Option<Violation>,
    /// What happened.
    pub log: RunLog,
}

thread_local! {
    /// The message of the last panic of this thread during a run.
    static PANIC: RefCell<Option<Option<String>>> = const { RefCell::new(None) };
}

/// Panics of runs are results, not noise.
fn hush_panics() {
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

/// Runs a script.
pub fn run(script: &RunSpec) -> Outcome {
    hush_panics();
    let mut world = Simulation::new(script.seed);
    if script.outside {
        world.judge_from_outside();
    }
    PANIC.set(Some(None));
    let result = catch_unwind(AssertUnwindSafe(|| play(&mut world, script)));
    let said = PANIC.take().flatten();
    let violation = match result {
        Ok(checked) => checked.err(),
        Err(_) => Some(Violation::new("panic", said.unwrap_or_else(|| "without a word".into()))),
    };
    if violation.is_some() {
        // Whatever a panic left behind is not taken apart in good order.
        std::mem::forget(world.life.take());
    }
    Outcome { violation, log: world.tell() }
}

fn play(world: &mut Simulation, script: &RunSpec) -> Checked {
    for step in (0..script.steps).filter(|step| !script.skip.contains(step)) {
        world.step(step, &mut Rng::of_step(script.seed, step))?;
        if world.has_ended() {
            return Ok(());
        }
    }
    world.finish(&mut Rng::of_step(script.seed, u64::MAX - 1))
}
