//! Errors of the core and the engine as problems.

use std::time::Duration;

use jeton_auth::Exhausted;
use jeton_core::rfc3339;
use jeton_core::units;
use jeton_core::{AddressError, BranchError, IdError, OperationError, Rejection, SettingsError, Timestamp};
use jeton_engine::{EngineError, PrepareError, TableError};

use super::problem::{ErrorCode, Problem};
use crate::error_code::engine_error_code;

/// `Retry-After` of conditions that pass by themselves.
pub const SOON: Duration = Duration::from_secs(1);

/// `Retry-After` of conditions that end only when memory or disk space is freed.
pub const LATER: Duration = Duration::from_secs(10);

fn time(moment: Timestamp) -> String {
    rfc3339::format(moment.as_nanos() / 1_000_000)
}

impl From<Rejection> for Problem {
    fn from(rejection: Rejection) -> Self {
        let problem = Self::new(rejection.code(), rejection.to_string());
        match rejection {
            Rejection::IdRequired => Self::new(
                ErrorCode::IdRequired,
                "the table requires an id on every write: send it as \"id\" in the body, or in the header \
                 Idempotency-Key",
            ),
            Rejection::FormatNotTaken { taken, .. } => problem.with("formats", taken.to_string()),
            Rejection::Expired { window, now } => {
                problem.with("window", units::format_duration(window)).with("server_time", time(now))
            }
            Rejection::Superseded { low_water } => problem.with("low_water", low_water),
            Rejection::FromFuture { ahead, skew, now } => problem
                .with("ahead", units::format_duration(ahead))
                .with("skew", units::format_duration(skew))
                .with("server_time", time(now)),
            Rejection::Fenced { epoch } => problem.with("epoch", epoch),
            Rejection::EpochAhead { latest } => problem.with("latest", latest),
            Rejection::UnknownSession { floor } => problem.with("floor", floor),
            Rejection::Capacity { .. } => problem.retry_in(LATER),
            Rejection::Reserved => problem.retry_in(SOON),
            Rejection::Bound { value } => problem.with("value", value),
            _ => problem,
        }
    }
}

impl From<EngineError> for Problem {
    fn from(error: EngineError) -> Self {
        let problem = Self::new(engine_error_code(&error), error.to_string());
        match error {
            EngineError::Rejected(rejection) => rejection.into(),
            EngineError::NoSuchTable(table) => Self::unknown_table(&table),
            EngineError::Full(_) => problem.retry_in(LATER),
            EngineError::Busy(_) | EngineError::Moved | EngineError::Closed => problem.retry_in(SOON),
            _ => problem,
        }
    }
}

/// Errors that all have one code.
macro_rules! map_errors {
    ($($error:ty => $code:ident,)*) => {$(
        impl From<$error> for Problem {
            fn from(error: $error) -> Self {
                Self::new(ErrorCode::$code, error.to_string())
            }
        }
    )*};
}

map_errors! {
    AddressError => BadOperation,
    BranchError => BadOperation,
    Exhausted => Quota,
    IdError => IdInvalid,
}

impl From<PrepareError> for Problem {
    fn from(error: PrepareError) -> Self {
        match error {
            PrepareError::Branch(error) => error.into(),
            PrepareError::Refused(error) => error.into(),
            other => Self::new(ErrorCode::BadOperation, other.to_string()),
        }
    }
}

impl From<OperationError> for Problem {
    fn from(error: OperationError) -> Self {
        let code = match error {
            OperationError::SeveralRoutingKeys => ErrorCode::SeveralRoutingKeys,
            OperationError::Id(_) => ErrorCode::IdInvalid,
            _ => ErrorCode::BadOperation,
        };
        Self::new(code, error.to_string())
    }
}

impl From<SettingsError> for Problem {
    fn from(error: SettingsError) -> Self {
        Self::new(ErrorCode::BadSettings, error.to_string()).with("setting", error.setting)
    }
}

impl From<TableError> for Problem {
    fn from(error: TableError) -> Self {
        match error {
            TableError::Settings(error) => error.into(),
            TableError::Refused(error) => error.into(),
            TableError::Prepared(_) => {
                let detail = format!("{error}; GET /v1/branches lists the prepared branches");
                Self::new(ErrorCode::Prepared, detail).retry_in(SOON)
            }
            TableError::NameReserved { until, now, .. } => {
                Self::new(ErrorCode::NameReserved, error.to_string())
                    .with("reserved_until", time(until))
                    .retry_in(until.since(now))
            }
            other => Self::new(ErrorCode::Storage, other.to_string()),
        }
    }
}

impl Problem {
    /// A request that a node of a cluster does not support.
    pub fn not_in_cluster(detail: &str) -> Self {
        Self::new(ErrorCode::NotInCluster, detail)
    }

    pub fn unknown_table(table: &str) -> Self {
        let detail = format!(
            "table {table:?} does not exist; PUT /v1/tables/{table} creates it, GET /v1/tables lists the tables"
        );
        Self::new(ErrorCode::UnknownTable, detail)
    }
}
