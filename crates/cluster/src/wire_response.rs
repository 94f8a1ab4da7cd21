//! Responses of the owner in messages between nodes.

use jeton_core::codec::{DecodeError, Reader, Write};
use jeton_core::{
    Branch, BranchOutcome, Cell, Format, Formats, IdStatus, OperationResult, PartitionId, PreparedBranch,
    Rejection, Timestamp, Value,
};
use jeton_engine::{BranchResponse, CommittedCount, EngineError, OperationOutcome, Response};

use crate::wire::{Outcome, number};

pub(crate) fn encode_response(response: &Response, out: &mut Vec<u8>) {
    match response {
        Response::Applied(Ok(OperationOutcome::Fresh(result))) => {
            out.put_u8(1);
            encode_result(result, out);
        }
        Response::Applied(Ok(OperationOutcome::Replayed(result))) => {
            out.put_u8(2);
            encode_result(result, out);
        }
        Response::Applied(Ok(OperationOutcome::ProbablySeen)) => out.put_u8(3),
        Response::Applied(Err(error)) => {
            out.put_u8(4);
            encode_error(error, out);
        }
        Response::Read(read) => encode_outcome(5, read, out, |value, out| match value {
            None => out.put_u8(0),
            Some(value) => {
                out.put_u8(1);
                value.encode(out);
            }
        }),
        Response::Recalled(recalled) => encode_outcome(6, recalled, out, |status, out| match status {
            IdStatus::No => out.put_u8(0),
            IdStatus::Yes(result) => {
                out.put_u8(1);
                encode_result(result, out);
            }
            IdStatus::Probably => out.put_u8(2),
            IdStatus::Forgotten => out.put_u8(3),
        }),
        Response::Branch(branch) => encode_outcome(7, branch, out, encode_branch_response),
        Response::PreparedBranches(branches) => {
            out.put_u8(8);
            out.put_varint(branches.len() as u64);
            for PreparedBranch { branch, since } in branches {
                out.put_varint(*since);
                branch.encode(out);
            }
        }
    }
}

pub(crate) fn decode_response(input: &mut Reader<'_>) -> Result<Response, DecodeError> {
    Ok(match input.u8()? {
        1 => Response::Applied(Ok(OperationOutcome::Fresh(decode_result(input)?))),
        2 => Response::Applied(Ok(OperationOutcome::Replayed(decode_result(input)?))),
        3 => Response::Applied(Ok(OperationOutcome::ProbablySeen)),
        4 => Response::Applied(Err(decode_error(input)?)),
        5 => Response::Read(decode_outcome(input, |input| {
            Ok(if input.flag()? { Some(Value::decode(input)?) } else { None })
        })?),
        6 => Response::Recalled(decode_outcome(input, |input| {
            Ok(match input.u8()? {
                0 => IdStatus::No,
                1 => IdStatus::Yes(decode_result(input)?),
                2 => IdStatus::Probably,
                3 => IdStatus::Forgotten,
                _ => return Err(DecodeError("an unknown status of an id")),
            })
        })?),
        7 => Response::Branch(decode_outcome(input, decode_branch_response)?),
        8 => {
            let mut branches = Vec::new();
            for _ in 0..input.count()? {
                let since = input.varint()?;
                branches.push(PreparedBranch { branch: Branch::decode(input)?, since });
            }
            Response::PreparedBranches(branches)
        }
        _ => return Err(DecodeError("an unknown response")),
    })
}

fn encode_outcome<T>(
    kind: u8,
    outcome: &Outcome<T>,
    out: &mut Vec<u8>,
    encode: impl FnOnce(&T, &mut Vec<u8>),
) {
    out.put_u8(kind);
    out.put_u8(u8::from(outcome.is_ok()));
    match outcome {
        Ok(value) => encode(value, out),
        Err(error) => encode_error(error, out),
    }
}

fn decode_outcome<T>(
    input: &mut Reader<'_>,
    decode: impl FnOnce(&mut Reader<'_>) -> Result<T, DecodeError>,
) -> Result<Outcome<T>, DecodeError> {
    Ok(if input.flag()? { Ok(decode(input)?) } else { Err(decode_error(input)?) })
}

fn encode_result(result: &OperationResult, out: &mut Vec<u8>) {
    out.put_varint(result.slot);
    out.put_varint(result.millis);
    result.encode(out);
}

fn decode_result(input: &mut Reader<'_>) -> Result<OperationResult, DecodeError> {
    OperationResult::decode(input.varint()?, input.varint()?, input)
}

fn encode_branch_response(response: &BranchResponse, out: &mut Vec<u8>) {
    match response {
        BranchResponse::Prepared { fresh } => {
            out.put_u8(1);
            out.put_u8(u8::from(*fresh));
        }
        BranchResponse::Finished { outcome, fresh, counted } => {
            out.put_u8(2);
            out.put_u8(u8::from(*outcome == BranchOutcome::Commit));
            out.put_u8(u8::from(*fresh));
            out.put_varint(counted.len() as u64);
            for CommittedCount { cell, value, slot, millis } in counted {
                out.put_bytes(cell.as_bytes());
                out.put_u8(u8::from(value.is_some()));
                out.put_signed(value.unwrap_or(0));
                out.put_varint(*slot);
                out.put_varint(*millis);
            }
        }
        BranchResponse::Unknown => out.put_u8(3),
        BranchResponse::Elsewhere(partitions) => {
            out.put_u8(4);
            out.put_varint(partitions.len() as u64);
            partitions.iter().for_each(|partition| out.put_varint(partition.0.into()));
        }
    }
}

fn decode_branch_response(input: &mut Reader<'_>) -> Result<BranchResponse, DecodeError> {
    Ok(match input.u8()? {
        1 => BranchResponse::Prepared { fresh: input.flag()? },
        2 => {
            let outcome = if input.flag()? { BranchOutcome::Commit } else { BranchOutcome::Abort };
            let fresh = input.flag()?;
            let mut counted = Vec::new();
            for _ in 0..input.count()? {
                let cell = Cell::from_bytes(input.bytes()?)?;
                let (is_some, value) = (input.flag()?, input.signed()?);
                let value = is_some.then_some(value);
                counted.push(CommittedCount { cell, value, slot: input.varint()?, millis: input.varint()? });
            }
            BranchResponse::Finished { outcome, fresh, counted }
        }
        3 => BranchResponse::Unknown,
        4 => {
            let partitions = (0..input.count()?).map(|_| Ok(PartitionId(number(input)?)));
            BranchResponse::Elsewhere(partitions.collect::<Result<_, DecodeError>>()?)
        }
        _ => return Err(DecodeError("an unknown response about a branch")),
    })
}

const BUSY: &str = "the owner of the partition has too many requests";

pub(crate) fn encode_error(error: &EngineError, out: &mut Vec<u8>) {
    let mut text = |kind: u8, text: &str| {
        out.put_u8(kind);
        out.put_bytes(text.as_bytes());
    };
    match error {
        EngineError::Rejected(rejection) => {
            out.put_u8(1);
            encode_rejection(rejection, out);
        }
        EngineError::NoSuchTable(name) => text(2, name),
        EngineError::Busy(_) => out.put_u8(3),
        EngineError::Full(why) => text(4, why),
        EngineError::Storage(why) => text(5, why),
        EngineError::Withheld(why) => text(6, why),
        EngineError::Closed => out.put_u8(7),
        EngineError::Moved => out.put_u8(8),
        other => text(5, &other.to_string()),
    }
}

pub(crate) fn decode_error(input: &mut Reader<'_>) -> Result<EngineError, DecodeError> {
    Ok(match input.u8()? {
        1 => EngineError::Rejected(decode_rejection(input)?),
        2 => EngineError::NoSuchTable(input.text()?.into()),
        3 => EngineError::Busy(BUSY),
        4 => EngineError::Full(input.text()?.into()),
        5 => EngineError::Storage(input.text()?.into()),
        6 => EngineError::Withheld(input.text()?.into()),
        7 => EngineError::Closed,
        8 => EngineError::Moved,
        _ => return Err(DecodeError("an unknown error")),
    })
}

/// What [`Rejection::Capacity`] names; others are sent as the first one.
const CAPACITIES: [&str; 4] = ["records", "ids", "branches of transactions", "sessions"];

fn encode_rejection(rejection: &Rejection, out: &mut Vec<u8>) {
    let mut numbers = |kind: u8, numbers: &[u64]| {
        out.put_u8(kind);
        numbers.iter().for_each(|number| out.put_varint(*number));
    };
    let nanos = |time: &Timestamp| time.as_nanos();
    match rejection {
        Rejection::IdRequired => numbers(1, &[]),
        Rejection::FormatNotTaken { found, taken } => {
            let taken = taken.iter().fold(0, |bits, format| bits | 1 << format as u8);
            numbers(2, &[*found as u64, taken]);
        }
        Rejection::Mismatch => numbers(3, &[]),
        Rejection::Expired { window, now } => {
            numbers(4, &[nanos(now)]);
            out.put_duration(*window);
        }
        Rejection::Superseded { low_water } => numbers(5, &[*low_water]),
        Rejection::FromFuture { ahead, skew, now } => {
            numbers(6, &[nanos(now)]);
            out.put_duration(*ahead);
            out.put_duration(*skew);
        }
        Rejection::Fenced { epoch } => numbers(7, &[*epoch]),
        Rejection::EpochAhead { latest } => numbers(8, &[*latest]),
        Rejection::UnknownSession { floor } => numbers(9, &[*floor]),
        Rejection::CellTooLarge => numbers(10, &[]),
        Rejection::Overflow => numbers(11, &[]),
        Rejection::NotACounter => numbers(12, &[]),
        Rejection::Reserved => numbers(13, &[]),
        Rejection::Bound { value } => {
            out.put_u8(14);
            out.put_signed(*value);
        }
        Rejection::Capacity { what } => {
            let known = CAPACITIES.iter().position(|known| known == what);
            numbers(15, &[known.unwrap_or(0) as u64]);
        }
        // Nothing was recorded, and a retry is decided anew.
        _ => numbers(15, &[0]),
    }
}

fn decode_rejection(input: &mut Reader<'_>) -> Result<Rejection, DecodeError> {
    Ok(match input.u8()? {
        1 => Rejection::IdRequired,
        2 => {
            let (found, taken) = (input.varint()?, input.varint()?);
            let found = Format::ALL.into_iter().find(|format| *format as u64 == found);
            let listed = Format::ALL.into_iter().filter(|format| taken >> *format as u8 & 1 != 0);
            Rejection::FormatNotTaken {
                found: found.ok_or(DecodeError("an unknown id format"))?,
                taken: listed.fold(Formats::NONE, Formats::and),
            }
        }
        3 => Rejection::Mismatch,
        4 => {
            let now = Timestamp::from_nanos(input.varint()?);
            Rejection::Expired { window: input.duration()?, now }
        }
        5 => Rejection::Superseded { low_water: input.varint()? },
        6 => {
            let now = Timestamp::from_nanos(input.varint()?);
            Rejection::FromFuture { ahead: input.duration()?, skew: input.duration()?, now }
        }
        7 => Rejection::Fenced { epoch: input.varint()? },
        8 => Rejection::EpochAhead { latest: input.varint()? },
        9 => Rejection::UnknownSession { floor: input.varint()? },
        10 => Rejection::CellTooLarge,
        11 => Rejection::Overflow,
        12 => Rejection::NotACounter,
        13 => Rejection::Reserved,
        14 => Rejection::Bound { value: input.signed()? },
        15 => {
            let what = usize::try_from(input.varint()?).ok().and_then(|at| CAPACITIES.get(at));
            Rejection::Capacity { what: what.ok_or(DecodeError("an unknown resource"))? }
        }
        _ => return Err(DecodeError("an unknown rejection")),
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use std::time::Duration;

    use jeton_core::{Addition, BranchName, Column, Secret, TableId, Values};

    use super::*;

    fn cell() -> Cell {
        Cell::new(&Secret::new([1; 16]), TableId(3), b"row", &Column::unnamed()).unwrap()
    }

    fn branch() -> Branch {
        let addition = Addition { cell: cell(), delta: -4, min: Some(0), max: None };
        Branch::new(BranchName::new(b"b").unwrap(), vec![addition], vec![PartitionId(9)]).unwrap()
    }

    fn errors() -> Vec<EngineError> {
        let (now, day) = (Timestamp::from_secs(1_700_000_000), Duration::from_secs(86_400));
        let taken = Formats::NONE.and(Format::Ulid).and(Format::Opaque);
        let mut all: Vec<EngineError> = [
            Rejection::IdRequired,
            Rejection::FormatNotTaken { found: Format::Uuid7, taken },
            Rejection::Mismatch,
            Rejection::Expired { window: day, now },
            Rejection::Superseded { low_water: 5 },
            Rejection::FromFuture { ahead: day, skew: Duration::from_secs(60), now },
            Rejection::Fenced { epoch: 7 },
            Rejection::EpochAhead { latest: u64::MAX },
            Rejection::UnknownSession { floor: 8 },
            Rejection::CellTooLarge,
            Rejection::Overflow,
            Rejection::NotACounter,
            Rejection::Reserved,
            Rejection::Bound { value: -9 },
            Rejection::Capacity { what: "sessions" },
        ]
        .map(EngineError::Rejected)
        .into();
        all.extend([
            EngineError::NoSuchTable("t".into()),
            EngineError::Busy(BUSY),
            EngineError::Full("no space".into()),
            EngineError::Storage("damaged".into()),
            EngineError::Withheld("quota".into()),
            EngineError::Closed,
            EngineError::Moved,
        ]);
        all
    }

    #[test]
    fn responses_round_trip() {
        let result = |values: Vec<Option<i64>>| {
            let values = Values::from_vec(values);
            OperationResult { applied: true, slot: 300, millis: 1_700_000_000_000, values }
        };
        let counted = CommittedCount { cell: cell(), value: Some(-3), slot: 2, millis: 1 };
        let empty = CommittedCount { value: None, ..counted.clone() };
        let finished = BranchResponse::Finished {
            outcome: BranchOutcome::Commit,
            fresh: true,
            counted: vec![counted, empty],
        };
        let mut responses: Vec<Response> = errors().into_iter().map(|e| Response::Applied(Err(e))).collect();
        responses.extend([
            Response::Applied(Ok(OperationOutcome::Fresh(result(vec![Some(-1)])))),
            Response::Applied(Ok(OperationOutcome::Replayed(result(vec![None, Some(i64::MIN)])))),
            Response::Applied(Ok(OperationOutcome::ProbablySeen)),
            Response::Read(Ok(None)),
            Response::Read(Ok(Some(Value::from_text(b"-7")))),
            Response::Read(Err(EngineError::Moved)),
            Response::Recalled(Ok(IdStatus::No)),
            Response::Recalled(Ok(IdStatus::Yes(result(vec![Some(1)])))),
            Response::Recalled(Ok(IdStatus::Probably)),
            Response::Recalled(Ok(IdStatus::Forgotten)),
            Response::Branch(Ok(BranchResponse::Prepared { fresh: true })),
            Response::Branch(Ok(finished)),
            Response::Branch(Ok(BranchResponse::Unknown)),
            Response::Branch(Ok(BranchResponse::Elsewhere(vec![PartitionId(1), PartitionId(255)]))),
            Response::Branch(Err(EngineError::Withheld("quota".into()))),
            Response::PreparedBranches(vec![PreparedBranch { branch: branch(), since: 5 }]),
        ]);
        for response in responses {
            let mut bytes = Vec::new();
            encode_response(&response, &mut bytes);
            let mut input = Reader::new(&bytes);
            assert_eq!(decode_response(&mut input), Ok(response.clone()));
            assert!(input.finish().is_ok());
            for len in 0..bytes.len() {
                let truncated = decode_response(&mut Reader::new(&bytes[..len]));
                assert!(truncated.is_err(), "{response:?} at {len}");
            }
        }
    }
}
