//! The writer of an owner: which frame is written next, and what its result means.
//!
//! One write is in flight. The next frame takes all batches that came meanwhile, up to the size of a value.
//! A frame whose outcome is unknown is written again, the same bytes to the same slot, until the outcome is
//! known.

use std::collections::VecDeque;

use bytes::Bytes;
use jeton_core::mutated;
use jeton_register::{Error, WriteResult};
use jeton_wal::Slot;

use crate::chain::Chain;
use crate::frame::{Body, Entries, Frame, HEAD_BYTES, Head, MILLIS_AT, NodeId, hash};

/// The writer of one term. `T` identifies a batch or another request.
#[derive(Debug)]
pub struct Writer<T> {
    term: Slot,
    next: Slot,
    before: u128,
    value_bytes_max: usize,
    /// Encoded entries.
    waiting: VecDeque<(Vec<u8>, T)>,
    proofs: Vec<T>,
    yielding: Option<(NodeId, T)>,
    in_flight: Option<InFlight<T>>,
    ended: bool,
}

#[derive(Debug)]
struct InFlight<T> {
    slot: Slot,
    bytes: Bytes,
    requests: Vec<T>,
    is_last: bool,
}

/// What follows from the result of a write.
#[derive(Debug, PartialEq, Eq)]
pub enum Progress<T> {
    /// These requests are done, and their batches are durable.
    Durable(Vec<T>),
    /// Write the same frame again.
    Again,
    /// There is another owner, or the registers accept nothing more from this one. These requests are not
    /// done, though their batches may be in the log, and the writer writes nothing more.
    Deposed(Vec<T>),
}

impl<T> Writer<T> {
    /// The writer of the owner that wrote the last claim of the chain.
    pub fn new(chain: &Chain, value_bytes_max: usize) -> Self {
        Self {
            term: chain.term(),
            next: chain.next(),
            before: chain.before(),
            value_bytes_max,
            waiting: VecDeque::new(),
            proofs: Vec::new(),
            yielding: None,
            in_flight: None,
            ended: false,
        }
    }

    /// Appends encoded entries, which must fit into a frame.
    pub fn append(&mut self, entries: Vec<u8>, request: T) {
        self.waiting.push_back((entries, request));
    }

    /// Asks for a proof that the node is still the owner. Only a frame that is written after this proves it.
    /// Returns the request if nothing is to be awaited.
    #[must_use]
    pub fn prove(&mut self, request: T) -> Option<T> {
        if mutated!(ReadWithoutProof) {
            return Some(request);
        }
        self.proofs.push(request);
        None
    }

    /// Gives up the ownership after what was appended before.
    pub fn yield_to(&mut self, node: NodeId, request: T) {
        self.yielding = Some((node, request));
    }

    /// Whether nothing is to be written.
    pub fn is_idle(&self) -> bool {
        self.ended
            || self.in_flight.is_none()
                && self.waiting.is_empty()
                && self.proofs.is_empty()
                && self.yielding.is_none()
    }

    /// Whether the writer writes nothing more.
    pub fn has_ended(&self) -> bool {
        self.ended
    }

    /// The register to be written, and its value.
    pub fn write(&mut self, catalog: u64, millis: u64) -> Option<(Slot, Bytes)> {
        if self.is_idle() {
            return None;
        }
        if let Some(flight) = &mut self.in_flight {
            if mutated!(RetryWithOtherBytes) {
                let mut bytes = flight.bytes.to_vec();
                bytes[MILLIS_AT..MILLIS_AT + 8].copy_from_slice(&millis.to_le_bytes());
                flight.bytes = bytes.into();
            }
            return Some((flight.slot, flight.bytes.clone()));
        }
        let mut requests = std::mem::take(&mut self.proofs);
        let mut entries = Vec::new();
        let room = self.value_bytes_max.saturating_sub(HEAD_BYTES);
        while let Some((more, _)) = self.waiting.front()
            && (entries.is_empty() || entries.len() + more.len() <= room)
        {
            let Some((more, request)) = self.waiting.pop_front() else { break };
            entries.extend_from_slice(&more);
            requests.push(request);
        }
        let mut is_last = false;
        let body = if !entries.is_empty() {
            Body::Entries(Entries::encoded(&entries))
        } else if let Some((to, request)) = self.yielding.take() {
            requests.push(request);
            is_last = true;
            Body::Yield { to }
        } else {
            Body::Proof
        };
        let head = Head { term: self.term, catalog, millis, before: self.before };
        let (slot, bytes) = (self.next, Bytes::from(Frame { head, body }.encode()));
        self.in_flight = Some(InFlight { slot, bytes: bytes.clone(), requests, is_last });
        Some((slot, bytes))
    }

    /// Handles the result of the last write.
    pub fn written(&mut self, result: Result<WriteResult, Error>) -> Progress<T> {
        let Some(flight) = &mut self.in_flight else { return Progress::Again };
        match result {
            Ok(WriteResult::Fresh) => self.durable(),
            Ok(WriteResult::Taken(value)) if value == flight.bytes => self.durable(),
            Ok(WriteResult::Taken(_)) if mutated!(OwnerIgnoresTaken) => self.durable(),
            // After a gap the registers have lost the frame before.
            Ok(WriteResult::Taken(_) | WriteResult::Trimmed | WriteResult::Gap) => self.depose(),
            Err(Error::Unknown(_)) if mutated!(UnknownIsSuccess) => self.durable(),
            Err(Error::Unknown(_)) if mutated!(UnknownIsFailure) => self.depose(),
            Err(Error::Unknown(_)) if mutated!(RetryAtNextSlot) => {
                flight.slot = flight.slot.next();
                self.next = flight.slot;
                Progress::Again
            }
            Err(Error::Unknown(_) | Error::Unavailable(_) | Error::Busy(_) | Error::Full(_)) => {
                Progress::Again
            }
            // The registers accept nothing more from this node.
            Err(_) => self.depose(),
        }
    }

    fn durable(&mut self) -> Progress<T> {
        let Some(flight) = self.in_flight.take() else { return Progress::Again };
        self.before = hash(&flight.bytes);
        self.next = flight.slot.next();
        self.ended |= flight.is_last;
        Progress::Durable(flight.requests)
    }

    fn depose(&mut self) -> Progress<T> {
        self.ended = true;
        let mut requests = self.in_flight.take().map(|flight| flight.requests).unwrap_or_default();
        requests.extend(self.waiting.drain(..).map(|(_, request)| request));
        requests.append(&mut self.proofs);
        requests.extend(self.yielding.take().map(|(_, request)| request));
        Progress::Deposed(requests)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;
    use crate::{Deployment, encode_entry};

    fn writer(value_bytes_max: usize) -> Writer<u32> {
        let deployment = Deployment::new(1, [0; 16], [0; 16]).unwrap();
        Writer::new(&deployment.chain(deployment.stripe(0).unwrap()), value_bytes_max)
    }

    fn entry() -> Vec<u8> {
        let mut entry = Vec::new();
        encode_entry(jeton_core::PartitionId(0), Slot(1), &[0; 40], &mut entry);
        entry
    }

    fn kind(written: Option<(Slot, Bytes)>) -> &'static str {
        let (_, bytes) = written.unwrap();
        match Frame::decode(&bytes).unwrap().body {
            Body::Entries(_) => "entries",
            Body::Proof => "proof",
            Body::Yield { .. } => "yield",
            Body::Claim(_) => "claim",
        }
    }

    #[test]
    fn a_frame_takes_the_batches_that_fit() {
        let mut writer = writer(HEAD_BYTES + 2 * entry().len());
        (1..=5).for_each(|request| writer.append(entry(), request));
        writer.append([entry(), entry(), entry()].concat(), 6);
        let mut groups = Vec::new();
        while let Some((slot, _)) = writer.write(0, 0) {
            let Progress::Durable(group) = writer.written(Ok(WriteResult::Fresh)) else { panic!("{slot}") };
            groups.push(group);
        }
        // The last one is larger than a frame of several batches.
        assert_eq!(groups, [vec![1, 2], vec![3, 4], vec![5], vec![6]]);
    }

    #[test]
    fn only_a_later_frame_proves_ownership() {
        let mut writer = writer(1000);
        writer.append(entry(), 1);
        let first = writer.write(0, 0).unwrap();
        assert_eq!(writer.prove(2), None);
        assert_eq!(writer.written(Err(Error::Unknown(String::new()))), Progress::Again);
        assert_eq!(writer.write(9, 9), Some(first.clone()), "the same bytes");
        assert_eq!(writer.written(Ok(WriteResult::Taken(first.1))), Progress::Durable(vec![1]));
        assert_eq!(kind(writer.write(0, 0)), "proof");
        assert_eq!(writer.prove(3), None);
        writer.append(entry(), 4);
        assert_eq!(writer.written(Ok(WriteResult::Fresh)), Progress::Durable(vec![2]));
        assert_eq!(kind(writer.write(0, 0)), "entries");
        assert_eq!(writer.written(Ok(WriteResult::Fresh)), Progress::Durable(vec![3, 4]));
        assert!(writer.is_idle());
    }

    #[test]
    fn a_yield_is_the_last_frame() {
        let mut writer = writer(1000);
        writer.yield_to(NodeId(2), 1);
        writer.append(entry(), 2);
        assert_eq!(kind(writer.write(0, 0)), "entries");
        assert_eq!(writer.written(Ok(WriteResult::Fresh)), Progress::Durable(vec![2]));
        assert_eq!(kind(writer.write(0, 0)), "yield");
        writer.append(entry(), 3);
        assert_eq!(writer.written(Ok(WriteResult::Fresh)), Progress::Durable(vec![1]));
        assert!(writer.has_ended() && writer.write(0, 0).is_none());
    }

    #[test]
    fn a_taken_slot_ends_everything_that_waits() {
        for result in [WriteResult::Taken(Bytes::from_static(b"other")), WriteResult::Trimmed] {
            let mut writer = writer(HEAD_BYTES);
            writer.append(entry(), 1);
            writer.write(0, 0).unwrap();
            writer.append(entry(), 2);
            assert_eq!(writer.prove(3), None);
            writer.yield_to(NodeId(2), 4);
            assert_eq!(writer.written(Ok(result)), Progress::Deposed(vec![1, 2, 3, 4]));
            assert!(writer.has_ended() && writer.write(0, 0).is_none());
        }
    }
}
