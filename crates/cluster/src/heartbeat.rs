//! The heartbeat of a node: a blob in the registers that the node replaces.

use jeton_core::codec::{DecodeError, Reader, Write};
use jeton_wal::Slot;

use crate::frame::NodeId;
use crate::wire::number;

const FORMAT: u8 = 1;

/// The start of the names of the blobs.
pub(crate) const PREFIX: &str = "node-";

/// Heartbeats this much older than the clock are ignored: their nodes were removed.
pub(crate) const AGE_MAX_MILLIS: u64 = 24 * 3_600_000;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Heartbeat {
    pub node: NodeId,
    /// Random, at each start.
    pub incarnation: u128,
    /// Higher than in every heartbeat before.
    pub beat: u64,
    /// The wall clock of the node.
    pub millis: u64,
    /// At which other nodes reach it.
    pub address: String,
    pub client_addresses: Vec<String>,
    /// Whether stripes may be moved to it.
    pub ready: bool,
    /// It yields its stripes and takes no others.
    pub leaving: bool,
    /// The stripes that it owns, with their terms.
    pub owned: Vec<(u16, Slot)>,
    /// The stripes that it follows and could take at once.
    pub followed: Vec<u16>,
}

impl Heartbeat {
    pub fn blob_name(node: NodeId) -> String {
        format!("{PREFIX}{:032x}", node.0)
    }

    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![FORMAT];
        out.put_u128(self.node.0);
        out.put_u128(self.incarnation);
        out.put_varint(self.beat);
        out.put_varint(self.millis);
        out.put_bytes(self.address.as_bytes());
        out.put_varint(self.client_addresses.len() as u64);
        self.client_addresses.iter().for_each(|address| out.put_bytes(address.as_bytes()));
        out.put_u8(u8::from(self.ready));
        out.put_u8(u8::from(self.leaving));
        out.put_varint(self.owned.len() as u64);
        for (stripe, term) in &self.owned {
            out.put_varint((*stripe).into());
            out.put_varint(term.0);
        }
        out.put_varint(self.followed.len() as u64);
        self.followed.iter().for_each(|stripe| out.put_varint((*stripe).into()));
        out
    }

    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut input = Reader::new(bytes);
        if input.u8()? != FORMAT {
            return Err(DecodeError("a heartbeat of an unknown format"));
        }
        let (node, incarnation) = (NodeId(input.u128()?), input.u128()?);
        let (beat, millis) = (input.varint()?, input.varint()?);
        let address = input.text()?.to_owned();
        let client_addresses = (0..input.count()?).map(|_| Ok(input.text()?.to_owned()));
        let client_addresses = client_addresses.collect::<Result<_, DecodeError>>()?;
        let (ready, leaving) = (input.flag()?, input.flag()?);
        let owned = (0..input.count()?).map(|_| Ok((number(&mut input)?, Slot(input.varint()?))));
        let owned = owned.collect::<Result<_, DecodeError>>()?;
        let followed = (0..input.count()?).map(|_| number(&mut input)).collect::<Result<_, _>>()?;
        input.finish()?;
        Ok(Self {
            node,
            incarnation,
            beat,
            millis,
            address,
            client_addresses,
            ready,
            leaving,
            owned,
            followed,
        })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;

    #[test]
    fn heartbeats_round_trip() {
        let heartbeat = Heartbeat {
            node: NodeId(7),
            incarnation: u128::MAX,
            beat: 300,
            millis: 1_700_000_000_000,
            address: "10.0.0.1:7400".into(),
            client_addresses: vec!["10.0.0.1:6379".into(), "http://a:8080".into()],
            ready: true,
            leaving: false,
            owned: vec![(0, Slot(1)), (31, Slot(u64::MAX))],
            followed: vec![1, 2],
        };
        let bytes = heartbeat.encode();
        assert_eq!(Heartbeat::decode(&bytes), Ok(heartbeat));
        for len in 0..bytes.len() {
            Heartbeat::decode(&bytes[..len]).unwrap_err();
        }
    }
}
