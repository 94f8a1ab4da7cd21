#![doc = include_str!("../README.md")]

mod dated;
mod dated_keeper;
mod filter;
mod generations;
mod hits;
mod keeper;
mod key;
mod line;
mod metal;
mod moment;
mod plan;
mod probe;
mod segment;
mod settings;
mod sizing;
mod slice;
mod snapshot;
mod status;
mod stripes;
mod sync;
mod tally;

pub use dated::DatedFilter;
pub use dated_keeper::Refusal;
pub use filter::{ForgetfulFilter, Sighting};
pub use key::{Fingerprint, Key};
pub use moment::Moment;
pub use settings::{GENERATIONS, Growth, Settings, SettingsError, TARGET_MIN, WINDOW_MAX};
pub use snapshot::SnapshotError;
pub use status::{Pressure, Status};
