//! The moving parts below [`Engine`](crate::Engine), for whoever drives them by hand: the simulator.
//!
//! No promise is made about them from one version to the next.

pub use crate::catalog_store::Tables;
pub use crate::clock::StoreTime;
pub use crate::health::Health;
pub use crate::pending::BURST_MAX;
pub use crate::response_dispatcher::ResponseDispatcher;
pub use crate::worker::{Job, Message, Worker};
