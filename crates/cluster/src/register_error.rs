//! Errors of registers as errors of a log.

use jeton_register::Error as RegisterError;
use jeton_wal::Error as LogError;

use crate::chain::ChainError;

pub(crate) fn log_error(error: RegisterError) -> LogError {
    match error {
        RegisterError::Full(why) => LogError::Full(why),
        RegisterError::Busy(why) => LogError::Busy(why),
        RegisterError::TooLarge(why) => LogError::TooLarge(why),
        RegisterError::Invalid(why) => LogError::Invalid(why),
        RegisterError::Damaged(why) => LogError::Damaged(why),
        RegisterError::Unknown(why) => LogError::Unknown(why),
        other => LogError::Unavailable(other.to_string()),
    }
}

impl From<ChainError> for LogError {
    fn from(error: ChainError) -> Self {
        match error {
            ChainError::Registers(error) => log_error(error),
            damaged => Self::Damaged(damaged.to_string()),
        }
    }
}
