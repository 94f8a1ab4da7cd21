#![doc = include_str!("../README.md")]
#![warn(missing_docs)]

mod approx_count;
mod budget;
mod cache_line;
mod dated;
mod dated_rotation;
mod filter;
mod generations;
mod key;
mod lock_stripes;
mod lookup;
mod parameters;
mod probe;
mod rotation;
mod same_methods;
mod segment;
mod settings;
mod simd;
mod sizing;
mod slice;
mod snapshot;
mod status;
mod sync;
mod timestamp;

pub use budget::{Budget, OverBudget};
pub use dated::DatedFilter;
pub use dated_rotation::DatedIdError;
pub use filter::{ForgetfulFilter, Membership};
pub use key::{Fingerprint, Key};
pub use settings::{GENERATIONS, Growth, Settings, SettingsError, TARGET_MIN, WINDOW_MAX};
pub use snapshot::SnapshotError;
pub use status::{Pressure, Status};
pub use timestamp::Timestamp;
