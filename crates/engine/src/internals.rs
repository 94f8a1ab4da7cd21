//! The parts below [`Engine`](crate::Engine), for the simulator, which drives them step by step.
//!
//! Not stable: they may change in any version.

pub use crate::catalog_store::Tables;
pub use crate::clock::StoreTime;
pub use crate::health::Health;
pub use crate::pending::BURST_MAX;
pub use crate::response_dispatcher::ResponseDispatcher;
pub use crate::worker::{Job, Message, Worker};
