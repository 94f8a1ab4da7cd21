//! Limits of the token store.

pub const TOKENS_MAX: usize = 10_000;

/// Maximum length of the name of a token; the minimum is 1.
pub const NAME_BYTES_MAX: usize = 64;

/// Maximum number of table rules of a token. A check tries each of them.
pub const RULES_MAX: usize = 32;

/// Maximum length of a pattern without its `*`: that of the name of a table.
pub const PATTERN_BYTES_MAX: usize = 64;

/// Maximum number of secrets of a token: the current one, and previous ones that are still valid.
pub const SECRETS_MAX: usize = 4;

/// Maximum rate in operations per second. Above it, rounding to nanoseconds would lose more than 1 % of the
/// rate.
pub const RATE_MAX: u32 = 10_000_000;

pub const BURST_MAX: u32 = 1_000_000_000;

/// Maximum size of a token file: somewhat more than the maximum number of tokens with all their rules.
pub const FILE_BYTES_MAX: u64 = 128 << 20;
