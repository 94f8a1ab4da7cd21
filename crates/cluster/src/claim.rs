//! Writes of a register of a stripe, and the claim.

use bytes::Bytes;
use futures_executor::block_on;
use jeton_engine::{Clock, SystemClock};
use jeton_register::{Batch, Error, LogId, Registers, WriteResult};
use jeton_wal::Slot;

use crate::chain::Chain;
use crate::claimant::{ClaimProgress, Claimant};
use crate::frame::Owner;
use crate::open_error::OpenError;
use crate::stripe_log::{PAUSE_MAX, PAUSE_MIN};

/// Writes of a claim without a result, after which it is given up.
const CLAIM_WRITES_MAX: u32 = 10;

/// The wall clock, for display.
pub(crate) fn millis() -> u64 {
    SystemClock::default().wall().as_nanos() / 1_000_000
}

pub(crate) async fn write<R: Registers>(
    registers: &R,
    log: LogId,
    slot: Slot,
    value: &Bytes,
) -> Result<WriteResult, Error> {
    let mut batch = Batch::new();
    batch.push(log, slot, value);
    let permit = registers.admit(1, value.len())?;
    let results = registers.write(batch, permit).await?;
    results.into_iter().next().ok_or_else(|| Error::Unknown("no result".into()))
}

/// Claims the stripe after the frames of the chain. Blocks.
pub(crate) fn claim<R: Registers>(registers: &R, chain: Chain, me: Owner) -> Result<Chain, OpenError> {
    let log = chain.log();
    let mut claimant = Claimant::new(chain, me);
    let mut pause = PAUSE_MIN;
    for _ in 0..CLAIM_WRITES_MAX {
        let (slot, value) = claimant.write(millis());
        let result = block_on(write(registers, log, slot, &value));
        let failed = result.is_err();
        claimant = match claimant.written(result)? {
            ClaimProgress::Claimed(chain) => return Ok(chain),
            ClaimProgress::GaveUp(chain) => {
                return Err(OpenError::Owned(chain.owner().map_or(me.node, |owner| owner.node)));
            }
            ClaimProgress::Again(claimant) => claimant,
        };
        if failed {
            std::thread::sleep(pause);
            pause = PAUSE_MAX.min(2 * pause);
        }
    }
    Err(Error::Unavailable("no result of the claim".into()).into())
}
