//! The parts below [`Engine`](crate::Engine), which the simulator drives step by step. Not stable.

pub use crate::catalog_store::Tables;
pub use crate::clock::StoreTime;
pub use crate::health::Health;
pub use crate::response_dispatcher::ResponseDispatcher;
pub use crate::worker::{Job, Message, Worker};
