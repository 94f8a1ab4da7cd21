//! Refusals of the store, as problems.

use std::time::Duration;

use jeton_core::units;
use jeton_core::{AddressError, BranchError, IdError, OperationError, Rejection, SettingsError, Timestamp};
use jeton_engine::{EngineError, PrepareError, TableError};

use super::date;
use super::problem::{Kind, Problem};

/// When to try again if the store is busy.
pub const SOON: Duration = Duration::from_secs(1);

/// When to try again if the store is full: somebody must make room first.
pub const LATER: Duration = Duration::from_secs(10);

fn time(moment: Timestamp) -> String {
    date::format(moment.as_nanos() / 1_000_000)
}

impl From<Rejection> for Problem {
    fn from(rejection: Rejection) -> Self {
        let detail = rejection.to_string();
        let of = |kind| Self::new(kind, detail.clone());
        match rejection {
            Rejection::IdRequired => Self::new(
                Kind::IdRequired,
                "the table wants an id on every write: give it as \"id\" in the body, or in the header Idempotency-Key",
            ),
            Rejection::FormatNotTaken { taken, .. } => of(Kind::IdInvalid).with("formats", taken.to_string()),
            Rejection::Mismatch => of(Kind::IdMismatch),
            Rejection::Expired { window, now } => of(Kind::IdExpired)
                .with("window", units::format_duration(window))
                .with("server_time", time(now)),
            Rejection::Superseded { low_water } => of(Kind::IdExpired).with("low_water", low_water),
            Rejection::FromFuture { ahead, skew, now } => of(Kind::IdFromFuture)
                .with("ahead", units::format_duration(ahead))
                .with("skew", units::format_duration(skew))
                .with("server_time", time(now)),
            Rejection::Fenced { epoch } => of(Kind::Fenced).with("epoch", epoch),
            Rejection::EpochAhead { latest } => of(Kind::EpochAhead).with("latest", latest),
            Rejection::UnknownSession { floor } => of(Kind::UnknownSession).with("floor", floor),
            Rejection::CellTooLarge => of(Kind::CellTooLarge),
            Rejection::Overflow => of(Kind::Overflow),
            Rejection::NotACounter => of(Kind::NotACounter),
            Rejection::Capacity { .. } => of(Kind::Busy).again_after(LATER),
            Rejection::Reserved => of(Kind::Held).again_after(SOON),
            Rejection::Bound { value } => of(Kind::BeyondBound).with("value", value),
            // A reason that came later than this file: it is the operation's own, whatever it is.
            _ => of(Kind::BadOperation),
        }
    }
}

impl From<EngineError> for Problem {
    fn from(refusal: EngineError) -> Self {
        let detail = refusal.to_string();
        match refusal {
            EngineError::Rejected(rejection) => rejection.into(),
            EngineError::NoSuchTable(table) => Self::unknown_table(&table),
            EngineError::Busy(_) => Self::new(Kind::Busy, detail).again_after(SOON),
            EngineError::Full(_) => Self::new(Kind::Full, detail).again_after(LATER),
            EngineError::Withheld(_) => Self::new(Kind::Quota, detail),
            EngineError::Closed => Self::new(Kind::Closing, detail).again_after(SOON),
            _ => Self::new(Kind::Storage, detail),
        }
    }
}

impl From<BranchError> for Problem {
    fn from(error: BranchError) -> Self {
        Self::new(Kind::BadOperation, error.to_string())
    }
}

impl From<PrepareError> for Problem {
    fn from(error: PrepareError) -> Self {
        match error {
            PrepareError::Branch(error) => error.into(),
            PrepareError::Refused(refusal) => refusal.into(),
            other => Self::new(Kind::BadOperation, other.to_string()),
        }
    }
}

impl From<IdError> for Problem {
    fn from(error: IdError) -> Self {
        Self::new(Kind::IdInvalid, error.to_string())
    }
}

impl From<AddressError> for Problem {
    fn from(error: AddressError) -> Self {
        Self::new(Kind::BadOperation, error.to_string())
    }
}

impl From<OperationError> for Problem {
    fn from(error: OperationError) -> Self {
        let kind = match error {
            OperationError::SeveralPartitions => Kind::SeveralPartitions,
            OperationError::Id(_) => Kind::IdInvalid,
            _ => Kind::BadOperation,
        };
        Self::new(kind, error.to_string())
    }
}

impl From<SettingsError> for Problem {
    fn from(error: SettingsError) -> Self {
        Self::new(Kind::BadSettings, error.to_string()).with("setting", error.setting)
    }
}

impl From<TableError> for Problem {
    fn from(error: TableError) -> Self {
        match error {
            TableError::Settings(error) => error.into(),
            TableError::Refused(refusal) => refusal.into(),
            other => Self::new(Kind::Storage, other.to_string()),
        }
    }
}

impl Problem {
    /// There is no table of this name.
    pub fn unknown_table(table: &str) -> Self {
        let detail = format!(
            "there is no table {table:?}; make it with PUT /v1/tables/{table}, or see GET /v1/tables"
        );
        Self::new(Kind::UnknownTable, detail)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_passes_says_when_to_ask_again_and_what_does_not_does_not() {
        for (refusal, kind, seconds) in [
            (EngineError::Busy("too many requests are waiting"), Kind::Busy, Some(1)),
            (EngineError::Full("no room".into()), Kind::Full, Some(10)),
            (EngineError::Closed, Kind::Closing, Some(1)),
            (EngineError::Rejected(Rejection::Capacity { what: "ids" }), Kind::Busy, Some(10)),
            (EngineError::Storage("damaged".into()), Kind::Storage, None),
            (EngineError::Rejected(Rejection::Mismatch), Kind::IdMismatch, None),
            (EngineError::Withheld("no more".into()), Kind::Quota, None),
            (EngineError::NoSuchTable("t".into()), Kind::UnknownTable, None),
        ] {
            let problem = Problem::from(refusal);
            assert_eq!((problem.kind, problem.retry_after.map(|time| time.as_secs())), (kind, seconds));
        }
    }

    #[test]
    fn what_a_program_may_want_to_know_is_in_members() {
        let now = Timestamp::from_secs(1_800_000_000);
        let problem = Problem::from(Rejection::Expired { window: Duration::from_secs(3600), now });
        assert_eq!(
            (&problem.extra["window"], &problem.extra["server_time"]),
            (&"1h".into(), &"2027-01-15T08:00:00.000Z".into())
        );
        let problem = Problem::from(Rejection::UnknownSession { floor: 7 });
        assert_eq!(problem.extra["floor"], 7);
    }
}
