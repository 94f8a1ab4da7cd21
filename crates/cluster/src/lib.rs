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
mod claimant;
mod deployment;
mod frame;
mod manifest;
mod objects;
mod open_error;
mod register_error;
mod seed;
mod stripe_log;
mod uploader;
mod writer;

pub use chain::{Chain, ChainError};
pub use checkpoint_error::CheckpointError;
pub use checkpoints::Checkpoints;
pub use claimant::{ClaimProgress, Claimant};
pub use deployment::{Deployment, DeploymentError, Stripe};
pub use frame::{Body, Entries, Frame, Head, NodeId, Owner, encode_entry};
pub use open_error::OpenError;
pub use stripe_log::StripeLog;
pub use uploader::{UploadOptions, Uploader};
pub use writer::{Progress, Writer};
