//! A seeded simulation: nodes follow, claim, write, yield, pause, crash and resume on registers with faults.
//!
//! A node is the code of the crate with a minimal state: the operations of the log. Clients send every
//! operation until it is acknowledged, to any node that believes to be the owner.

mod checker;
pub mod eras;
mod node;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_executor::block_on;
use jeton_cluster::Deployment;
use jeton_core::Timestamp;
use jeton_engine::Clock;
use jeton_register::memory::{Faults, MemoryRegisters};
use jeton_register::{Batch, LogId, Registers, WritePermit};
use jeton_testkit::Rng;
use jeton_wal::Slot;

pub use self::checker::Violation;
use self::checker::{check_accepted, check_log};
use self::node::{Node, Role};

const NODES: usize = 3;
const STEPS: usize = 400;
const STRIPE: u16 = 1;

/// Rounds in which everything must be done once no request fails any more.
const HEALED_ROUNDS: usize = 200;

/// How far a clock may be ahead of the log, when nothing has measured the time since the last entry.
const CLOCK_AHEAD_MAX: Duration = Duration::from_secs(90 * 24 * 3600);

/// The clocks of a node: the wall clock is wrong by a fixed amount.
#[derive(Clone)]
pub struct SimClock {
    millis: Arc<AtomicU64>,
    ahead: Duration,
}

impl Clock for SimClock {
    fn wall(&self) -> Timestamp {
        Timestamp::from_secs(1_700_000_000).after(self.elapsed() + self.ahead)
    }

    fn elapsed(&self) -> Duration {
        Duration::from_millis(self.millis.load(Ordering::Relaxed))
    }
}

pub struct World {
    registers: MemoryRegisters,
    deployment: Deployment,
    /// Operations are numbered from 0; these have been sent.
    sent: u64,
    acknowledged: BTreeSet<u64>,
    /// The registers have lost frames: a database was replaced by an older copy.
    lost: bool,
    millis: Arc<AtomicU64>,
    clocks: Vec<SimClock>,
    /// Frames that owners have pushed, on their way to the other nodes.
    pushed: Vec<(usize, (Slot, bytes::Bytes))>,
    outcome: Outcome,
}

#[derive(Debug, Default)]
pub struct Outcome {
    pub violation: Option<Violation>,
    pub acknowledged: u64,
    pub claims: u64,
    pub deposed: u64,
    pub proved_reads: u64,
}

impl World {
    fn violate(&mut self, rule: &'static str, what: String) {
        self.outcome.violation.get_or_insert(Violation { rule, what });
    }

    /// The frames in the registers.
    fn frames(&self) -> Vec<(Slot, bytes::Bytes)> {
        // A read may fail; it also lets late writes happen.
        loop {
            if let Ok(frames) = block_on(self.registers.read(LogId::stripe(STRIPE), Slot(1), usize::MAX)) {
                return frames;
            }
        }
    }

    fn millis(&self) -> u64 {
        self.millis.load(Ordering::Relaxed)
    }

    /// Delivers one of the pushed frames to the other nodes. Some are lost.
    fn deliver_push(&mut self, nodes: &mut [Node], random: &mut Rng) {
        if self.pushed.is_empty() {
            return;
        }
        // Mostly in order.
        let at = if random.percent(80) { 0 } else { random.index(self.pushed.len()) };
        let (from, (slot, frame)) = self.pushed.remove(at);
        for (_, node) in nodes.iter_mut().enumerate().filter(|(number, _)| *number != from) {
            if !random.percent(10) {
                node.push(slot, frame.clone());
            }
        }
    }

    /// Replaces the registers by a copy without the last frames.
    fn lose(&mut self, count: usize) {
        let frames = self.frames();
        let kept = frames.len().saturating_sub(count);
        let mut batch = Batch::new();
        frames[..kept].iter().for_each(|(slot, value)| batch.push(LogId::stripe(STRIPE), *slot, value));
        self.registers = MemoryRegisters::new();
        block_on(self.registers.write(batch, WritePermit::unlimited())).unwrap();
        self.lost = true;
    }
}

/// Runs a seed until the first violation. In a `lossy` run the registers lose frames.
pub fn run(seed: u64, lossy: bool) -> Outcome {
    let mut random = Rng::named(seed, if lossy { "lossy" } else { "takeovers" });
    let mut share = |max| random.below(max) as u16;
    let faults = Faults { refused: share(150), lost: share(150), late: share(150), delayed: share(400) };
    let millis = Arc::<AtomicU64>::default();
    let mut world = World {
        registers: MemoryRegisters::with_faults(seed, faults),
        deployment: Deployment::new(4, [1; 16], [2; 16]).unwrap(),
        sent: 0,
        acknowledged: BTreeSet::new(),
        lost: false,
        clocks: (0..NODES)
            .map(|_| SimClock { millis: millis.clone(), ahead: Duration::from_secs(random.below(7_200)) })
            .collect(),
        millis,
        pushed: Vec::new(),
        outcome: Outcome::default(),
    };
    let mut nodes: Vec<Node> = (0..NODES).map(|number| Node::new(number, &world)).collect();
    let mut paused = [0; NODES];
    let lose_at = if lossy { random.index(STEPS) } else { STEPS };
    for step in 0..STEPS {
        world.millis.fetch_add(1 + random.below(200), Ordering::Relaxed);
        if random.percent(60) {
            world.deliver_push(&mut nodes, &mut random);
        }
        if step == lose_at {
            world.lose(1 + random.index(3));
        }
        let number = random.index(NODES);
        if paused[number] > step {
            continue;
        }
        let node = &mut nodes[number];
        match random.below(100) {
            0..2 => *node = node.crashed(&world),
            2..5 => paused[number] = step + random.index(120),
            5..12 => node.suspect(),
            12..14 => node.yield_to((number + 1) % NODES),
            14..45 => {
                let retried = random.percent(40) && world.sent > 0;
                let operation = if retried { random.below(world.sent) } else { world.sent };
                if node.take(operation, &mut world) {
                    world.sent = world.sent.max(operation + 1);
                }
            }
            45..55 => node.read(&mut world),
            _ => node.step(&mut world),
        }
        if world.outcome.violation.is_some() {
            return world.outcome;
        }
    }
    check_accepted(&mut world, &nodes);
    if !world.lost {
        heal(&mut world, &mut nodes);
        check_log(&mut world);
    }
    world.outcome.acknowledged = world.acknowledged.len() as u64;
    world.outcome
}

/// All nodes continue without faults, and clients retry until everything is acknowledged.
fn heal(world: &mut World, nodes: &mut [Node]) {
    world.registers.set_faults(Faults::default());
    world.registers.deliver_late();
    for round in 0..HEALED_ROUNDS {
        for node in nodes.iter_mut() {
            for operation in 0..world.sent {
                if !world.acknowledged.contains(&operation) {
                    node.take(operation, world);
                }
            }
            node.step(world);
        }
        let has_owner = nodes.iter().any(|node| matches!(node.role, Role::Owning(_)));
        if !has_owner && round % 20 == 0 {
            nodes[round / 20 % NODES].suspect();
        }
        if world.outcome.violation.is_some() || has_owner && world.acknowledged.len() as u64 == world.sent {
            return;
        }
    }
    world.violate("progress", format!("{} of {} operations", world.acknowledged.len(), world.sent));
}
