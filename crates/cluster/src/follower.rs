//! A follower: an engine that replays the frames of a stripe as they become durable and serves no requests,
//! until it becomes the owner without a reload.
//!
//! The owner pushes durable frames. A pushed frame that does not follow the last one is dropped, and the
//! follower reads the registers. They decide alone: a claim reads them to the end, applies everything, and
//! comes last, because a claimed stripe that is not ready serves nobody.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use futures_executor::block_on;
use jeton_core::Timestamp;
use jeton_engine::{ClockAhead, Engine, EngineError, EntryLocation, LogEntry, Options, TableError};
use jeton_register::{Error as RegisterError, Registers};
use jeton_wal::Slot;

use crate::chain::{Chain, ChainError};
use crate::claim::claim;
use crate::deployment::Deployment;
use crate::frame::{Body, Entries, Frame, Owner};
use crate::open_error::OpenError;
use crate::stripe_log::StripeLog;

/// Frames per read.
const READ_FRAMES_MAX: usize = 64;

/// The engine of a stripe on a node that does not own it. All calls block.
pub struct Follower<R: Registers> {
    log: Arc<StripeLog<R>>,
    engine: Engine<StripeLog<R>>,
    /// The frames that the engine has applied.
    chain: Chain,
    me: Owner,
}

/// Why a follower does not continue. After [`FollowError::is_temporary`] the same call may be repeated;
/// otherwise the follower must be [closed](Follower::close), and may be opened again.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FollowError {
    #[error(transparent)]
    Log(#[from] OpenError),
    #[error(transparent)]
    Engine(#[from] jeton_engine::OpenError),
    #[error(transparent)]
    Chain(#[from] ChainError),
    #[error(transparent)]
    Replay(#[from] EngineError),
    #[error("the tables that the log needs: {0}")]
    Tables(#[from] TableError),
    #[error("the log names version {needed} of the catalogue; there is {found}")]
    Catalog { needed: u64, found: u64 },
}

/// Why a follower does not become the owner. It stays a follower.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PromoteError {
    /// The owner is alive, or there is a new one.
    #[error("the stripe has another owner, or its owner is alive")]
    GaveUp(Option<Owner>),
    #[error(transparent)]
    ClockAhead(#[from] ClockAhead),
    #[error(transparent)]
    Follow(#[from] FollowError),
}

/// A follower that has not become the owner.
pub struct NotPromoted<R: Registers> {
    pub follower: Box<Follower<R>>,
    pub why: PromoteError,
}

impl<R: Registers> std::fmt::Debug for NotPromoted<R> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.why.fmt(out)
    }
}

impl FollowError {
    /// Whether the same call may succeed later: the registers are away, or checkpoints lag behind.
    pub fn is_temporary(&self) -> bool {
        match self {
            // The log was trimmed further than this follower has read.
            Self::Chain(ChainError::Registers(RegisterError::Trimmed { .. })) => false,
            Self::Chain(ChainError::Registers(_)) | Self::Tables(_) | Self::Catalog { .. } => true,
            Self::Replay(why) => matches!(why, EngineError::Busy(_) | EngineError::Full(_)),
            _ => false,
        }
    }
}

impl<R: Registers> Follower<R> {
    /// Opens the stripe in its directory, and replays its log.
    pub fn open(
        registers: Arc<R>,
        deployment: Deployment,
        number: u16,
        me: Owner,
        folder: &Path,
        options: Options,
    ) -> Result<Self, FollowError> {
        let stripe = deployment.stripe(number).ok_or(OpenError::NoStripe(number))?;
        let log = Arc::new(StripeLog::follow(registers, deployment, number, folder)?);
        let options = Options { partitions: stripe.partitions, ..options };
        let engine = Engine::follow(log.clone(), folder, options)?;
        let chain = log.opened().clone();
        let mut follower = Self { log, engine, chain, me };
        follower.catch_up()?;
        Ok(follower)
    }

    /// The frames that are applied.
    pub fn chain(&self) -> &Chain {
        &self.chain
    }

    pub fn log(&self) -> &Arc<StripeLog<R>> {
        &self.log
    }

    /// The engine. Requests are refused as [`Moved`](EngineError::Moved).
    pub fn engine(&self) -> &Engine<StripeLog<R>> {
        &self.engine
    }

    /// Applies a durable frame that the owner has pushed. False if it was dropped because it does not follow
    /// the last one: it is known, or the follower must [catch up](Self::catch_up).
    pub fn accept(&mut self, slot: Slot, frame: &Bytes) -> Result<bool, FollowError> {
        let mut next = self.chain.clone();
        let Some(decoded) = next.accept_pushed(slot, frame) else { return Ok(false) };
        self.apply(slot, frame, &decoded)?;
        self.chain = next;
        Ok(true)
    }

    /// Reads the registers to the end of the log, and applies what is new. To be called regularly, also while
    /// frames are pushed: the time between the last call and a takeover bounds how far the store's time may
    /// move with a wrong clock.
    pub fn catch_up(&mut self) -> Result<&Chain, FollowError> {
        loop {
            let began = self.engine.elapsed();
            let read = self.log.registers().read(self.chain.log(), self.chain.next(), READ_FRAMES_MAX);
            let page = block_on(read).map_err(ChainError::from)?;
            if page.is_empty() {
                self.engine.end_seen(began);
                return Ok(&self.chain);
            }
            for (slot, frame) in page {
                let mut next = self.chain.clone();
                let decoded = next.accept(slot, &frame)?;
                self.apply(slot, &frame, &decoded)?;
                self.chain = next;
            }
        }
    }

    fn apply(&self, slot: Slot, bytes: &Bytes, frame: &Frame<'_>) -> Result<(), FollowError> {
        self.adopt_tables(frame.head.catalog)?;
        if let Body::Entries(entries) = frame.body {
            self.engine.replay(log_entries(slot, bytes, entries))?;
        }
        if !matches!(frame.body, Body::Claim(_)) {
            self.engine.observe(Timestamp::from_millis(frame.head.millis));
        }
        Ok(())
    }

    /// The entries of a frame were decided under this version of the catalogue, or an earlier one.
    fn adopt_tables(&self, needed: u64) -> Result<(), FollowError> {
        if self.engine.tables_version() >= needed {
            return Ok(());
        }
        let found = self.engine.refresh_tables()?;
        if found < needed { Err(FollowError::Catalog { needed, found }) } else { Ok(()) }
    }

    /// Claims the stripe, and serves it. `suspected` is the owner that seems to be gone, as in
    /// [`Chain::owner`]; `None` if there is no owner. If that is this node itself, a claim whose outcome was
    /// unknown has succeeded after all: no engine serves the stripe, and it must be promoted again.
    #[allow(clippy::type_complexity, reason = "the log and the engine on it")]
    pub fn promote(
        mut self,
        suspected: Option<Owner>,
    ) -> Result<(Arc<StripeLog<R>>, Engine<StripeLog<R>>), NotPromoted<R>> {
        match self.try_promote(suspected) {
            Ok(()) => Ok((self.log, self.engine)),
            Err(why) => Err(NotPromoted { follower: Box::new(self), why }),
        }
    }

    fn try_promote(&mut self, suspected: Option<Owner>) -> Result<(), PromoteError> {
        self.catch_up()?;
        if self.chain.owner() != suspected {
            return Err(PromoteError::GaveUp(self.chain.owner()));
        }
        self.engine.prepare_to_serve()?;
        let claimed = match claim(self.log.registers(), self.chain.clone(), self.me) {
            Ok(claimed) => claimed,
            Err(OpenError::Owned(_)) => {
                let found = self.catch_up()?.owner();
                return Err(PromoteError::GaveUp(found));
            }
            Err(error) => return Err(FollowError::from(error).into()),
        };
        // What was written before the claim and after the last read has no entries.
        self.adopt_tables(claimed.catalog())?;
        self.log.own(&claimed).map_err(FollowError::from)?;
        self.chain = claimed;
        self.engine.serve().map_err(FollowError::from)?;
        Ok(())
    }

    /// Ends the threads and releases the directory.
    pub fn close(self) {
        self.engine.close();
    }
}

fn log_entries(register: Slot, frame: &Bytes, entries: Entries<'_>) -> Vec<LogEntry> {
    let entry = |(partition, slot, bytes): (_, Slot, &[u8])| LogEntry {
        location: EntryLocation::Register(register),
        partition,
        slot: slot.0,
        bytes: frame.slice_ref(bytes),
    };
    entries.iter().map(entry).collect()
}
