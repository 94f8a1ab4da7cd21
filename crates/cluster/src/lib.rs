//! Stripes: the engine of a fixed group of partitions on a log in write-once registers.
//!
//! A stripe has one log, `stripe/n`, and one owner at a time. The registers hold the truth; the directory of
//! an engine on a [`StripeLog`] is a cache. Invariants:
//! - *One term at a time.* A node becomes the owner by a claim in the next free slot, which is its term. A
//!   write of the owner before finds its slot taken: that owner is deposed. No lease and no clock is needed.
//! - *An unknown outcome is resolved by writing again*, the same bytes to the same slot.
//! - *The chain is unbroken.* Every frame has the hash of the frame before it. A reader stops at the first
//!   frame that does not follow.
//!
//! [`Chain`], [`Claimant`] and [`Writer`] are state machines without I/O, threads and clocks, so that tests
//! interleave several nodes step by step.

mod blobs;
mod chain;
mod checkpoint_error;
mod checkpoints;
mod claim;
mod claimant;
mod deployment;
mod durable_log;
mod follower;
mod frame;
mod heartbeat;
mod log_metrics;
mod manifest;
mod membership;
mod node;
mod node_core;
mod node_followers;
mod node_options;
mod node_tasks;
mod objects;
mod open_error;
mod owned_stripe;
mod owner_calls;
mod placement;
mod register_error;
mod routing;
mod seed;
mod status;
mod stripe_log;
mod takeover;
mod uploader;
mod wire;
mod wire_response;
mod writer;

pub use chain::{Chain, ChainError};
pub use checkpoint_error::CheckpointError;
pub use checkpoints::Checkpoints;
pub use claimant::{ClaimProgress, Claimant};
pub use deployment::{Deployment, DeploymentError, Stripe};
pub use follower::{FollowError, Follower, NotPromoted, PromoteError};
pub use frame::{Body, Entries, Frame, Head, NodeId, Owner, encode_entry};
pub use jeton_peer::{Tls as PeerTls, TlsError as PeerTlsError};
pub use node::{ClusterNode, Freshness, NodeError};
pub use node_options::{NodeOptions, Timing};
pub use open_error::OpenError;
pub use placement::rank;
pub use status::{ClusterStatus, LocalStripeStatus, NodeStatus, StripeStatus};
pub use stripe_log::StripeLog;
pub use uploader::{UploadOptions, Uploader};
pub use writer::{Progress, Writer};
