//! The errors of the engine in the table of errors.

use jeton_core::ErrorCode;
use jeton_engine::EngineError;

/// The row of the table of errors for an error of the engine.
pub fn engine_error_code(error: &EngineError) -> ErrorCode {
    match error {
        EngineError::Rejected(rejection) => rejection.code(),
        EngineError::NoSuchTable(_) => ErrorCode::UnknownTable,
        EngineError::Busy(_) => ErrorCode::Busy,
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

    #[test]
    fn engine_errors_map_to_their_codes() {
        for (error, code) in [
            (EngineError::Busy("too many requests"), ErrorCode::Busy),
            (EngineError::Full("no space".into()), ErrorCode::Full),
            (EngineError::Storage("damaged".into()), ErrorCode::Storage),
            (EngineError::Withheld("quota".into()), ErrorCode::Quota),
            (EngineError::Closed, ErrorCode::Closing),
            (EngineError::NoSuchTable("t".into()), ErrorCode::UnknownTable),
            (EngineError::Rejected(Rejection::Capacity { what: "ids" }), ErrorCode::Busy),
            (EngineError::Rejected(Rejection::Reserved), ErrorCode::Prepared),
            (EngineError::Rejected(Rejection::Mismatch), ErrorCode::IdMismatch),
        ] {
            assert_eq!(engine_error_code(&error), code, "{error}");
        }
    }
}
