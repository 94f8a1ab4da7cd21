//! A limit on everything that somebody chooses here.

/// The most tokens in a book.
pub const TOKENS_MAX: usize = 10_000;

/// The longest name of a token. The shortest has one byte.
pub const NAME_BYTES_MAX: usize = 64;

/// The most table rules of a token. Each is tried on every operation.
pub const RULES_MAX: usize = 32;

/// The longest pattern, without its `*`: as long as the longest name of a table.
pub const PATTERN_BYTES_MAX: usize = 64;

/// The most secrets of a token: the present one, and those before it that are still valid.
pub const SECRETS_MAX: usize = 4;

/// The highest rate that can be asked for, in operations a second. Beyond it the rounding to nanoseconds would cost more
/// than one operation in a hundred, and a token without a rate is what is meant.
pub const RATE_MAX: u32 = 10_000_000;

/// The largest burst, in operations.
pub const BURST_MAX: u32 = 1_000_000_000;

/// The largest file that is read as a book, or written: somewhat more than a full book of tokens with all their rules.
pub const FILE_BYTES_MAX: u64 = 128 << 20;
