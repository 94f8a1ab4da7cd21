//! What must hold for the frames in the registers. The fold is written again here: it shares the decoder
//! with the crate, and no check.

use std::collections::{BTreeMap, BTreeSet};

use jeton_cluster::{Body, Frame};
use jeton_core::Timestamp;
use jeton_wal::Slot;
use xxhash_rust::xxh3::xxh3_128;

use super::World;
use super::node::Node;

#[derive(Debug)]
pub struct Violation {
    pub rule: &'static str,
    pub what: String,
}

/// One term at a time, an unbroken chain, and every acknowledged operation once.
pub fn check_log(world: &mut World) {
    if let Err(what) = fold(world) {
        world.violate("chain", what);
    }
}

fn fold(world: &mut World) -> Result<(), String> {
    let (mut term, mut before, mut counted) = (Slot::ZERO, None, BTreeSet::new());
    let mut last: BTreeMap<u16, u64> = BTreeMap::new();
    let mut latest = Timestamp::ZERO;
    for ((slot, bytes), expected) in world.frames().iter().zip(1..) {
        let frame = Frame::decode(bytes).map_err(|error| error.to_string())?;
        if slot.0 != expected || before.is_some_and(|before| before != frame.head.before) {
            return Err(format!("slot {slot} does not follow slot {}", expected - 1));
        }
        before = Some(xxh3_128(bytes));
        if let Body::Claim(_) = frame.body {
            term = *slot;
        }
        if frame.head.term != term {
            return Err(format!("slot {slot} has term {} in term {term}", frame.head.term));
        }
        let Body::Entries(entries) = frame.body else { continue };
        for (partition, entry, operation) in entries.iter() {
            let last = last.entry(partition.0).or_default();
            *last += 1;
            if entry.0 != *last {
                return Err(format!("slot {slot}: entry {entry} of {} in place of {last}", partition.0));
            }
            let (operation, time) = operation_of(operation);
            if !counted.insert(operation) {
                world.violate("twice", format!("operation {operation} is counted twice"));
            }
            if time < latest {
                world.violate("clock", format!("slot {slot}: {time:?} after {latest:?}"));
            }
            latest = time;
        }
    }
    if let Some(missing) = world.acknowledged.difference(&counted).next() {
        world.violate("acknowledged", format!("operation {missing} is acknowledged and not in the log"));
    }
    Ok(())
}

/// The operation of an entry, and the time at which it was decided.
pub fn operation_of(entry: &[u8]) -> (u64, Timestamp) {
    let number = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().unwrap());
    (number(&entry[..8]), Timestamp::from_nanos(number(&entry[8..])))
}

/// Whether another claim follows the one of this term.
pub fn has_later_claim(world: &World, term: Slot) -> bool {
    let is_claim = |bytes: &[u8]| matches!(Frame::decode(bytes), Ok(Frame { body: Body::Claim(_), .. }));
    world.frames().iter().any(|(slot, bytes)| *slot > term && is_claim(bytes))
}

/// Every frame that a node has accepted has the hash of the one before it. Registers that lose frames break
/// the chain, and a node that has a lost frame stops there.
pub fn check_accepted(world: &mut World, nodes: &[Node]) {
    for pair in nodes.iter().flat_map(|node| node.accepted.windows(2)) {
        let [one, next] = pair else { continue };
        if next.before != one.hash {
            let (slot, after) = (next.slot, one.slot);
            world.violate("stale", format!("slot {slot} was accepted after another frame of slot {after}"));
        }
    }
}
