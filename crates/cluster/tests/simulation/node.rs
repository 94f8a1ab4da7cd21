//! A node of the simulation.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use jeton_cluster::{
    Body, Chain, ChainError, ClaimProgress, Claimant, Frame, NodeId, Owner, Progress, Writer, encode_entry,
};
use jeton_core::{PartitionId, Timestamp, mutated};
use jeton_engine::Clock;
use jeton_engine::internals::StoreTime;
use jeton_register::{Batch, Error, LogId, Registers, WritePermit, WriteResult};
use jeton_wal::Slot;
use xxhash_rust::xxh3::xxh3_128;

use super::checker::{has_later_claim, operation_of};
use super::{CLOCK_AHEAD_MAX, STRIPE, SimClock, World};

/// Few, so that a frame holds few batches.
const FRAME_BYTES_MAX: usize = 120;

type Response<T> = Pin<Box<dyn Future<Output = T>>>;
type Written = Response<Result<Vec<WriteResult>, Error>>;

pub struct Node {
    number: usize,
    incarnation: u128,
    pub role: Role,
    /// The frames that it has read since it started.
    pub accepted: Vec<Accepted>,
    operations: Operations,
    clock: SimClock,
    /// The clock of the stripe, as this node knows it.
    time: StoreTime<SimClock>,
    /// When the log was last seen to end, and the latest entry since then with that time.
    end_seen: Option<Duration>,
    measured: Option<(Timestamp, Duration)>,
    latest: Timestamp,
    /// Frames that the owner has pushed.
    inbox: VecDeque<(Slot, Bytes)>,
}

/// The state of the only partition: the operations, and whether they are durable.
type Operations = BTreeMap<u64, bool>;

pub enum Role {
    /// Reads; then it claims if it suspects the owner.
    Following {
        chain: Chain,
        /// The read, and when it was sent.
        reading: Option<(Duration, Response<ReadResult>)>,
        suspects: bool,
    },
    Claiming {
        claimant: Claimant,
        writing: Option<Written>,
    },
    Owning(Owning),
    /// The log cannot be read on.
    Stopped,
}

pub struct Owning {
    writer: Writer<Ticket>,
    term: Slot,
    next: Slot,
    writing: Option<Written>,
}

#[derive(Clone, Copy)]
pub struct Accepted {
    pub slot: Slot,
    pub before: u128,
    pub hash: u128,
}

pub struct ReadResult {
    chain: Chain,
    frames: Vec<Accepted>,
    /// With the times at which they were decided.
    operations: Vec<(u64, Timestamp)>,
    /// The time of the stripe in the last frame.
    reached: Timestamp,
    result: Result<(), ChainError>,
}

enum Ticket {
    Operation(u64),
    /// The number of operations that were durable here, and that were acknowledged anywhere, at the call.
    Read {
        durable: usize,
        acknowledged: usize,
    },
    Yield,
}

fn poll<T>(response: &mut Response<T>) -> Option<T> {
    match response.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => Some(result),
        Poll::Pending => None,
    }
}

fn write(world: &World, (slot, value): (Slot, Bytes)) -> Written {
    let mut batch = Batch::new();
    batch.push(LogId::stripe(STRIPE), slot, &value);
    Box::pin(world.registers.write(batch, WritePermit::unlimited()))
}

fn read(world: &World, mut chain: Chain) -> Response<ReadResult> {
    let registers = world.registers.clone();
    Box::pin(async move {
        let (mut frames, mut operations, mut reached) = (Vec::new(), Vec::new(), Timestamp::ZERO);
        let visit = |slot, frame: Frame<'_>| {
            frames.push(Accepted::of(slot, &frame));
            operations.extend(operations_of(&frame));
            reached = time_of(&frame).max(reached);
            Ok::<_, ChainError>(())
        };
        let result = chain.read(&registers, Slot::MAX, visit).await;
        ReadResult { chain, frames, operations, reached, result }
    })
}

impl Accepted {
    fn of(slot: Slot, frame: &Frame<'_>) -> Self {
        Self { slot, before: frame.head.before, hash: xxh3_128(&frame.encode()) }
    }
}

/// The time of the stripe in a frame.
fn time_of(frame: &Frame<'_>) -> Timestamp {
    let is_claim = matches!(frame.body, Body::Claim(_));
    if is_claim { Timestamp::ZERO } else { Timestamp::from_millis(frame.head.millis) }
}

fn operations_of(frame: &Frame<'_>) -> Vec<(u64, Timestamp)> {
    let Body::Entries(entries) = frame.body else { return Vec::new() };
    entries.iter().map(|(_, _, bytes)| operation_of(bytes)).collect()
}

impl Node {
    pub fn new(number: usize, world: &World) -> Self {
        Self::start(number, 1, world)
    }

    fn start(number: usize, incarnation: u128, world: &World) -> Self {
        let chain = world.deployment.chain(world.deployment.stripe(STRIPE).unwrap());
        let role = Role::Following { chain, reading: None, suspects: false };
        let clock = world.clocks[number].clone();
        let time = StoreTime::follow(clock.clone(), Timestamp::ZERO);
        Self {
            number,
            incarnation,
            role,
            accepted: Vec::new(),
            operations: Operations::new(),
            clock,
            time,
            end_seen: None,
            measured: None,
            latest: Timestamp::ZERO,
            inbox: VecDeque::new(),
        }
    }

    /// The node without its memory; its requests may still take effect.
    pub fn crashed(&self, world: &World) -> Self {
        Self::start(self.number, self.incarnation + 1, world)
    }

    /// The node after it was deposed: a follower that has nothing.
    fn deposed(&self, world: &World) -> Self {
        let mut next = Self::start(self.number, self.incarnation, world);
        if mutated!(DeposedKeepsFilter) {
            // A filter does not know which of its ids are durable.
            next.operations = self.operations.keys().map(|operation| (*operation, true)).collect();
        }
        next
    }

    /// Receives a frame that the owner has pushed.
    pub fn push(&mut self, slot: Slot, frame: Bytes) {
        self.inbox.push_back((slot, frame));
    }

    pub fn suspect(&mut self) {
        if let Role::Following { suspects, .. } = &mut self.role {
            *suspects = true;
        }
    }

    pub fn yield_to(&mut self, number: usize) {
        if let Role::Owning(owning) = &mut self.role {
            owning.writer.yield_to(NodeId(number as u128), Ticket::Yield);
        }
    }

    /// Takes an operation of a client. Returns whether this node believes to be the owner.
    pub fn take(&mut self, operation: u64, world: &mut World) -> bool {
        let Role::Owning(owning) = &mut self.role else { return false };
        match self.operations.get(&operation) {
            Some(true) => drop(world.acknowledged.insert(operation)),
            Some(false) => {}
            None => {
                let now = self.time.now();
                if let Some((latest, measured)) = self.measured.take() {
                    let passed = self.clock.elapsed().saturating_sub(measured);
                    let limit = latest.after(passed + passed / 8);
                    if now > limit {
                        world.violate("clock", format!("{now:?} is later than {limit:?}"));
                    }
                }
                let bytes = [operation.to_le_bytes(), now.as_nanos().to_le_bytes()].concat();
                let mut entry = Vec::new();
                let partition = PartitionId(world.deployment.stripe(STRIPE).unwrap().partitions.start);
                encode_entry(partition, owning.next, &bytes, &mut entry);
                owning.next = owning.next.next();
                owning.writer.append(entry, Ticket::Operation(operation));
                self.operations.insert(operation, false);
            }
        }
        true
    }

    /// Begins a linearizable read of the number of operations.
    pub fn read(&mut self, world: &mut World) {
        let Role::Owning(owning) = &mut self.role else { return };
        let durable = self.operations.values().filter(|durable| **durable).count();
        let ticket = Ticket::Read { durable, acknowledged: world.acknowledged.len() };
        if let Some(ticket) = owning.writer.prove(ticket) {
            self.done(vec![ticket], world);
        }
    }

    /// Polls the response that the node waits for, or sends its next request.
    pub fn step(&mut self, world: &mut World) {
        match std::mem::replace(&mut self.role, Role::Stopped) {
            Role::Following { mut chain, mut reading, suspects } => {
                while let Some((slot, bytes)) = self.inbox.pop_front() {
                    let Some(frame) = chain.accept_pushed(slot, &bytes) else { continue };
                    self.apply(&[Accepted::of(slot, &frame)], &operations_of(&frame), time_of(&frame));
                    // The read began before it.
                    reading = None;
                }
                let now = self.clock.elapsed();
                let (sent, response) = reading.get_or_insert_with(|| (now, read(world, chain.clone())));
                let sent = *sent;
                match poll(response) {
                    None => self.role = Role::Following { chain, reading, suspects },
                    Some(read) => self.follow(read, sent, suspects, world),
                }
            }
            Role::Claiming { mut claimant, mut writing } => {
                let response = writing.get_or_insert_with(|| write(world, claimant.write(world.millis())));
                match poll(response) {
                    None => self.role = Role::Claiming { claimant, writing },
                    Some(written) => self.claim(claimant.written(first(written)), world),
                }
            }
            Role::Owning(mut owning) => {
                if owning.writing.is_none() {
                    owning.writing = owning
                        .writer
                        .write(0, self.time.now().as_nanos() / 1_000_000)
                        .map(|one| write(world, one));
                }
                let written = owning.writing.as_mut().and_then(poll);
                let progress = written.map(|written| owning.writer.written(first(written)));
                if progress.is_some() {
                    owning.writing = None;
                    world.pushed.extend(owning.writer.take_durable().map(|frame| (self.number, frame)));
                }
                let (ended, term) = (owning.writer.has_ended(), owning.term);
                world.outcome.deposed += u64::from(matches!(progress, Some(Progress::Deposed(_))));
                self.role = Role::Owning(owning);
                match progress {
                    Some(Progress::Durable(tickets)) => self.done(tickets, world),
                    Some(Progress::Deposed(_)) if !world.lost && !has_later_claim(world, term) => {
                        world.violate("deposed", format!("term {term} ended without another claim"));
                    }
                    _ => {}
                }
                if ended {
                    *self = self.deposed(world);
                }
            }
            Role::Stopped => {}
        }
    }

    fn follow(&mut self, read: ReadResult, sent: Duration, suspects: bool, world: &mut World) {
        let ReadResult { chain, frames, operations, reached, result } = read;
        self.apply(&frames, &operations, reached);
        self.role = match result {
            Ok(()) if suspects => {
                self.time.end_seen(sent);
                self.time.take_over(CLOCK_AHEAD_MAX).unwrap();
                let me = Owner { node: NodeId(self.number as u128), incarnation: self.incarnation };
                Role::Claiming { claimant: Claimant::new(chain, me), writing: None }
            }
            Ok(()) => {
                self.time.end_seen(sent);
                self.end_seen = Some(sent);
                Role::Following { chain, reading: None, suspects }
            }
            Err(ChainError::Registers(_)) => Role::Following { chain, reading: None, suspects },
            Err(error) => return self.stop(&error, world),
        };
    }

    fn apply(&mut self, frames: &[Accepted], operations: &[(u64, Timestamp)], reached: Timestamp) {
        self.accepted.extend(frames);
        self.operations.extend(operations.iter().map(|(operation, _)| (*operation, true)));
        let latest = operations.iter().map(|(_, time)| *time).fold(reached, Timestamp::max);
        if latest > Timestamp::ZERO {
            self.latest = self.latest.max(latest);
            self.time.observe(self.latest);
            self.measured = self.end_seen.map(|seen| (self.latest, seen));
        }
    }

    fn claim(&mut self, claimed: Result<ClaimProgress, ChainError>, world: &mut World) {
        self.role = match claimed {
            Ok(ClaimProgress::Claimed(chain)) => {
                world.outcome.claims += 1;
                let start = world.deployment.stripe(STRIPE).unwrap().partitions.start;
                let next = chain.last_slot(PartitionId(start)).next();
                let writer = Writer::new(&chain, FRAME_BYTES_MAX);
                Role::Owning(Owning { writer, term: chain.term(), next, writing: None })
            }
            Ok(ClaimProgress::Again(claimant)) => Role::Claiming { claimant, writing: None },
            Ok(ClaimProgress::GaveUp(_)) => {
                *self = Self::start(self.number, self.incarnation, world);
                return;
            }
            Err(error) => return self.stop(&error, world),
        };
    }

    /// The log does not follow from what this node has read.
    fn stop(&mut self, error: &ChainError, world: &mut World) {
        self.role = Role::Stopped;
        if !world.lost {
            world.violate("chain", error.to_string());
        }
    }

    fn done(&mut self, tickets: Vec<Ticket>, world: &mut World) {
        let operations: BTreeSet<u64> = tickets
            .iter()
            .filter_map(|ticket| if let Ticket::Operation(one) = ticket { Some(*one) } else { None })
            .collect();
        world.acknowledged.extend(&operations);
        self.operations.extend(operations.iter().map(|operation| (*operation, true)));
        for ticket in tickets {
            let Ticket::Read { durable, acknowledged } = ticket else { continue };
            world.outcome.proved_reads += 1;
            if durable < acknowledged && !world.lost {
                let what = format!("a read of {durable} operations after {acknowledged} were acknowledged");
                world.violate("stale-read", what);
            }
        }
    }
}

fn first(written: Result<Vec<WriteResult>, Error>) -> Result<WriteResult, Error> {
    written.map(|results| results.into_iter().next().unwrap())
}
