//! The errors of the engine in the table of errors.

use jeton_core::ErrorCode;
use jeton_engine::EngineError;

/// The row of the table of errors for an error of the engine.
pub fn engine_error_code(error: &EngineError) -> ErrorCode {
    match error {
        EngineError::Rejected(rejection) => rejection.code(),
        EngineError::NoSuchTable(_) => ErrorCode::UnknownTable,
        // Another node owns the partition, and the request was not passed on: nothing changed.
        EngineError::Busy(_) | EngineError::Moved => ErrorCode::Busy,
        EngineError::Full(_) => ErrorCode::Full,
        EngineError::Withheld(_) => ErrorCode::Quota,
        EngineError::Closed => ErrorCode::Closing,
        // The enum is not exhaustive: an unknown error must not promise that nothing was stored.
        _ => ErrorCode::Storage,
    }
}

#[cfg(test)]
mod tests {
    use jeton_core::Rejection;

    use super::*;
    use crate::http::Problem;
    use crate::resp::reply;

    /// The code of each engine error, its RESP prefix, and the seconds of `Retry-After`.
    #[test]
    fn both_protocols_report_engine_errors_by_their_code() {
        for (error, code, prefix, seconds) in [
            (EngineError::Busy("too many requests"), ErrorCode::Busy, "BUSY", Some(1)),
            (EngineError::Moved, ErrorCode::Busy, "BUSY", Some(1)),
            (EngineError::Full("no space".into()), ErrorCode::Full, "MISCONF", Some(10)),
            (EngineError::Storage("damaged".into()), ErrorCode::Storage, "STORAGE", None),
            (EngineError::Withheld("quota".into()), ErrorCode::Quota, "QUOTA", None),
            (EngineError::Closed, ErrorCode::Closing, "LOADING", Some(1)),
            (EngineError::NoSuchTable("t".into()), ErrorCode::UnknownTable, "NOTABLE", None),
            (Rejection::Capacity { what: "ids" }.into(), ErrorCode::Busy, "BUSY", Some(10)),
            (Rejection::Reserved.into(), ErrorCode::Prepared, "BUSY", Some(1)),
            (Rejection::Mismatch.into(), ErrorCode::IdMismatch, "IDMISMATCH", None),
        ] {
            assert_eq!(engine_error_code(&error), code, "{error}");
            assert_eq!(reply::engine_error(&error).split(' ').next(), Some(prefix), "{error}");
            let problem = Problem::from(error);
            assert_eq!((problem.code, problem.retry_after.map(|time| time.as_secs())), (code, seconds));
            assert_eq!(code.is_retryable(), seconds.is_some(), "{code:?}");
        }
    }
}
