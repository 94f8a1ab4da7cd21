//! Messages between nodes.
//!
//! Numbers are varints, and lists begin with their length. Decoding allocates no more than the message is
//! long. The hashes of a request are not sent: the owner computes them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use jeton_core::codec::{DecodeError, Reader, Write};
use jeton_core::{Branch, BranchName, BranchOutcome, OpId, Operation};
use jeton_core::{Cell, PartitionId, Secret, TableId, limits};
use jeton_engine::{BranchRequest, CreationQuota, Request, Response};
use jeton_wal::Slot;

use crate::frame::NodeId;
use crate::node::Freshness;
use crate::wire_response::{decode_error, decode_response, encode_error, encode_response};

/// The version of the protocol.
pub(crate) const VERSION: u16 = 1;

pub(crate) type Outcome<T> = Result<T, jeton_engine::EngineError>;

/// A message to a node.
#[derive(Debug)]
pub(crate) enum Message {
    Submit(Submit),
    /// Store what the owner of the stripe has decided.
    Flush {
        stripe: u16,
    },
    List {
        stripe: u16,
        table: TableId,
        prefix: Vec<u8>,
        after: Option<Cell>,
        limit: usize,
    },
    /// The owner has yielded a stripe to the receiver.
    Take {
        stripe: u16,
    },
    /// There is a new owner.
    Owner(OwnerHint),
    Ping,
}

/// Requests to the owner of their stripes.
#[derive(Debug)]
pub(crate) struct Submit {
    /// The version of the catalogue that the sender knows.
    pub catalog: u64,
    pub freshness: Freshness,
    pub requests: Vec<Request>,
    /// For each request that is charged to a quota.
    pub allowances: Vec<Option<Arc<Allowance>>>,
}

/// The owner of a stripe, as far as a node knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OwnerHint {
    pub stripe: u16,
    pub node: NodeId,
    pub term: Slot,
}

/// The cells that a request may create at the owner. The node of the client has taken them from the quota.
#[derive(Debug, Default)]
pub(crate) struct Allowance {
    pub left: AtomicU64,
    /// Cells that the commit of a branch has created.
    pub created: AtomicU64,
}

impl CreationQuota for Allowance {
    fn take(&self, cells: u64) -> Result<(), String> {
        let take = |left: u64| left.checked_sub(cells);
        let taken = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take);
        taken.map(drop).map_err(|_| "the quota of counters is exhausted".to_owned())
    }

    fn created(&self, cells: u64) {
        self.created.fetch_add(cells, Ordering::Relaxed);
    }
}

/// The responses to [`Submit`].
#[derive(Debug)]
pub(crate) struct Submitted {
    pub responses: Vec<Response>,
    /// For each response: what is left of the allowance, and the cells that a commit has created.
    pub charges: Vec<(u64, u64)>,
    /// Owners of stripes that the node does not own.
    pub hints: Vec<OwnerHint>,
}

pub(crate) fn encode_submit(
    catalog: u64,
    freshness: Freshness,
    requests: &[&Request],
    allowances: &[Option<u64>],
) -> Vec<u8> {
    let mut out = vec![1];
    out.put_varint(catalog);
    match freshness {
        Freshness::Linearizable => out.put_varint(0),
        Freshness::MaxStaleness(time) => out.put_varint(1 + u64::try_from(time.as_millis()).unwrap_or(0)),
    }
    out.put_varint(requests.len() as u64);
    for (request, allowance) in requests.iter().zip(allowances) {
        out.put_varint(allowance.map_or(0, |allowance| allowance + 1));
        encode_request(request, &mut out);
    }
    out
}

impl Message {
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        match self {
            Self::Submit(Submit { catalog, freshness, requests, .. }) => {
                return encode_submit(
                    *catalog,
                    *freshness,
                    &requests.iter().collect::<Vec<_>>(),
                    &vec![None; requests.len()],
                );
            }
            Self::Flush { stripe } => {
                out.put_u8(2);
                out.put_varint((*stripe).into());
            }
            Self::List { stripe, table, prefix, after, limit } => {
                out.put_u8(3);
                out.put_varint((*stripe).into());
                out.put_varint(table.0.into());
                out.put_bytes(prefix);
                out.put_bytes(after.as_ref().map_or(&[], |after| after.as_bytes()));
                out.put_varint(*limit as u64);
            }
            Self::Take { stripe } => {
                out.put_u8(4);
                out.put_varint((*stripe).into());
            }
            Self::Owner(hint) => {
                out.put_u8(5);
                hint.encode(&mut out);
            }
            Self::Ping => out.put_u8(6),
        }
        out
    }

    pub fn decode(bytes: &[u8], secret: &Secret) -> Result<Self, DecodeError> {
        let mut input = Reader::new(bytes);
        let message = match input.u8()? {
            1 => Self::Submit(Submit::decode(&mut input, secret)?),
            2 => Self::Flush { stripe: number(&mut input)? },
            3 => Self::List {
                stripe: number(&mut input)?,
                table: TableId(input.varint32()?),
                prefix: input.bytes()?.to_vec(),
                after: match input.bytes()? {
                    [] => None,
                    after => Some(Cell::from_bytes(after)?),
                },
                limit: usize::try_from(input.varint()?).unwrap_or(usize::MAX),
            },
            4 => Self::Take { stripe: number(&mut input)? },
            5 => Self::Owner(OwnerHint::decode(&mut input)?),
            6 => Self::Ping,
            _ => return Err(DecodeError("an unknown message")),
        };
        input.finish()?;
        Ok(message)
    }
}

impl Submit {
    fn decode(input: &mut Reader<'_>, secret: &Secret) -> Result<Self, DecodeError> {
        let catalog = input.varint()?;
        let freshness = match input.varint()? {
            0 => Freshness::Linearizable,
            millis => Freshness::MaxStaleness(Duration::from_millis(millis - 1)),
        };
        let count = input.count()?;
        let (mut requests, mut allowances, mut scratch) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..count {
            let allowance = input.varint()?.checked_sub(1);
            let allowance =
                allowance.map(|left| Arc::new(Allowance { left: left.into(), ..Default::default() }));
            let mut request = decode_request(input, secret, &mut scratch)?;
            if let Some(allowance) = &allowance {
                request = request.with_quota(&(Arc::clone(allowance) as Arc<dyn CreationQuota>));
            }
            requests.push(request);
            allowances.push(allowance);
        }
        Ok(Self { catalog, freshness, requests, allowances })
    }
}

impl OwnerHint {
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.put_varint(self.stripe.into());
        out.put_u128(self.node.0);
        out.put_varint(self.term.0);
    }

    pub fn decode(input: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self { stripe: number(input)?, node: NodeId(input.u128()?), term: Slot(input.varint()?) })
    }
}

impl Submitted {
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        out.put_varint(self.hints.len() as u64);
        self.hints.iter().for_each(|hint| hint.encode(&mut out));
        out.put_varint(self.responses.len() as u64);
        for (response, (left, created)) in self.responses.iter().zip(&self.charges) {
            out.put_varint(*left);
            out.put_varint(*created);
            encode_response(response, &mut out);
        }
        out
    }

    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut input = Reader::new(bytes);
        let hints = (0..input.count()?).map(|_| OwnerHint::decode(&mut input));
        let hints = hints.collect::<Result<_, _>>()?;
        let (mut responses, mut charges) = (Vec::new(), Vec::new());
        for _ in 0..input.count()? {
            charges.push((input.varint()?, input.varint()?));
            responses.push(decode_response(&mut input)?);
        }
        input.finish()?;
        Ok(Self { responses, charges, hints })
    }
}

/// The response to [`Message::Flush`] and [`Message::List`].
pub(crate) fn encode_cells(result: &Outcome<Vec<Cell>>) -> Vec<u8> {
    let mut out = Vec::new();
    match result {
        Ok(cells) => {
            out.put_u8(1);
            out.put_varint(cells.len() as u64);
            cells.iter().for_each(|cell| out.put_bytes(cell.as_bytes()));
        }
        Err(error) => {
            out.put_u8(0);
            encode_error(error, &mut out);
        }
    }
    out
}

pub(crate) fn decode_cells(bytes: &[u8]) -> Result<Outcome<Vec<Cell>>, DecodeError> {
    let mut input = Reader::new(bytes);
    let result = if input.flag()? {
        let cells = (0..input.count()?).map(|_| Cell::from_bytes(input.bytes()?));
        Ok(cells.collect::<Result<_, _>>()?)
    } else {
        Err(decode_error(&mut input)?)
    };
    input.finish()?;
    Ok(result)
}

pub(crate) fn number(input: &mut Reader<'_>) -> Result<u16, DecodeError> {
    u16::try_from(input.varint()?).map_err(|_| DecodeError("a number above 16 bits"))
}

fn partition(input: &mut Reader<'_>) -> Result<PartitionId, DecodeError> {
    let number = number(input)?;
    if number < limits::PARTITIONS {
        Ok(PartitionId(number))
    } else {
        Err(DecodeError("an unknown partition"))
    }
}

fn encode_request(request: &Request, out: &mut Vec<u8>) {
    match request {
        Request::Apply { operation, hashes, .. } => {
            out.put_u8(if operation.id().is_some() { 2 } else { 1 });
            if let Some(id) = operation.id() {
                id.encode(out);
            }
            out.put_u64(hashes.principal);
            operation.encode_changes(out);
        }
        Request::Read { cell } => {
            out.put_u8(3);
            out.put_bytes(cell.as_bytes());
        }
        Request::Recall { cell, id, .. } => {
            out.put_u8(4);
            out.put_bytes(cell.as_bytes());
            id.encode(out);
        }
        Request::Branch { what, partition, .. } => {
            out.put_u8(5);
            out.put_varint(partition.0.into());
            match what {
                BranchRequest::Prepare(branch) => {
                    out.put_u8(1);
                    branch.encode(out);
                }
                BranchRequest::Finish { name, outcome, others_finished } => {
                    out.put_u8(2);
                    out.put_bytes(name.as_bytes());
                    out.put_u8(u8::from(*outcome == BranchOutcome::Commit));
                    out.put_u8(u8::from(*others_finished));
                }
                BranchRequest::Lookup(name) => {
                    out.put_u8(3);
                    out.put_bytes(name.as_bytes());
                }
            }
        }
        Request::PreparedBranches { partition } => {
            out.put_u8(6);
            out.put_varint(partition.0.into());
        }
    }
}

fn decode_request(
    input: &mut Reader<'_>,
    secret: &Secret,
    scratch: &mut Vec<u8>,
) -> Result<Request, DecodeError> {
    Ok(match input.u8()? {
        kind @ (1 | 2) => {
            let id = if kind == 2 { Some(OpId::decode(input)?) } else { None };
            let principal = input.u64()?;
            let operation = Operation::decode(id, input)?;
            let mut request = Request::apply(operation, secret, scratch);
            request.set_principal(principal);
            request
        }
        3 => Request::Read { cell: Cell::from_bytes(input.bytes()?)? },
        4 => {
            let (cell, id) = (Cell::from_bytes(input.bytes()?)?, OpId::decode(input)?);
            id.check().map_err(|_| DecodeError("an invalid id"))?;
            let key = secret.id_key(&cell, &id, scratch);
            Request::Recall { cell, id, key }
        }
        5 => {
            let partition = partition(input)?;
            let kind = input.u8()?;
            let name = |input: &mut Reader<'_>| {
                BranchName::new(input.bytes()?).map_err(|_| DecodeError("an invalid name of a branch"))
            };
            let what = match kind {
                1 => BranchRequest::Prepare(Branch::decode(input)?),
                2 => BranchRequest::Finish {
                    name: name(input)?,
                    outcome: if input.flag()? { BranchOutcome::Commit } else { BranchOutcome::Abort },
                    others_finished: input.flag()?,
                },
                3 => BranchRequest::Lookup(name(input)?),
                _ => return Err(DecodeError("an unknown request about a branch")),
            };
            Request::branch(what, partition, secret)
        }
        6 => Request::PreparedBranches { partition: partition(input)? },
        _ => return Err(DecodeError("an unknown request")),
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use jeton_core::{Addition, Change, Column};

    use super::*;

    fn requests(secret: &Secret) -> Vec<Request> {
        let cell = Cell::new(secret, TableId(3), b"row", &Column::unnamed()).unwrap();
        let id = OpId::uuid7_from(1_700_000_000_000, 5);
        let with_id = Operation::single(Some(id.clone()), cell.clone(), Change::Add(-3)).unwrap();
        let changes = vec![(cell.clone(), Change::Put((*b"x").into())), (cell.clone(), Change::Reset)];
        let without_id = Operation::batch(None, changes).unwrap();
        let name = BranchName::new(b"b").unwrap();
        let addition = Addition { cell: cell.clone(), delta: -4, min: Some(0), max: None };
        let branch = Branch::new(name.clone(), vec![addition], Vec::new()).unwrap();
        let finish = BranchRequest::Finish {
            name: name.clone(),
            outcome: BranchOutcome::Commit,
            others_finished: true,
        };
        let key = secret.id_key(&cell, &id, &mut Vec::new());
        let mut principal = Request::apply(with_id, secret, &mut Vec::new());
        principal.set_principal(77);
        vec![
            principal,
            Request::apply(without_id, secret, &mut Vec::new()),
            Request::Read { cell: cell.clone() },
            Request::branch(BranchRequest::Prepare(branch), cell.partition(), secret),
            Request::branch(finish, PartitionId(8), secret),
            Request::branch(BranchRequest::Lookup(name), PartitionId(9), secret),
            Request::Recall { cell, id, key },
            Request::PreparedBranches { partition: PartitionId(255) },
        ]
    }

    #[test]
    fn requests_round_trip_with_their_hashes() {
        let secret = Secret::new([7; 16]);
        let all = requests(&secret);
        let allowances = [Some(4), None, None, Some(0), None, None, None, None];
        let freshness = Freshness::MaxStaleness(Duration::from_millis(70));
        let bytes = encode_submit(12, freshness, &all.iter().collect::<Vec<_>>(), &allowances);
        let Message::Submit(submit) = Message::decode(&bytes, &secret).unwrap() else {
            panic!("no requests")
        };
        assert_eq!((submit.catalog, submit.freshness), (12, freshness));
        let without_quota = |mut request: Request| {
            if let Request::Apply { quota, .. } | Request::Branch { quota, .. } = &mut request {
                *quota = None;
            }
            format!("{request:?}")
        };
        let decoded: Vec<String> = submit.requests.into_iter().map(without_quota).collect();
        assert_eq!(decoded, all.iter().map(|request| format!("{request:?}")).collect::<Vec<_>>());
        let left = submit.allowances.iter().map(|one| Some(one.as_ref()?.left.load(Ordering::Relaxed)));
        assert_eq!(left.collect::<Vec<_>>(), allowances);
        for len in 0..bytes.len() {
            assert!(Message::decode(&bytes[..len], &secret).is_err(), "at {len}");
        }
    }

    #[test]
    fn an_allowance_is_not_exceeded() {
        let allowance = Allowance { left: 3.into(), ..Default::default() };
        assert!(allowance.take(2).is_ok());
        assert!(allowance.take(2).is_err());
        assert!(allowance.take(1).is_ok());
    }
}
