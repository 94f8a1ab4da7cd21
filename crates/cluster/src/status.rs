//! The status of a cluster, as one node sees it.

use std::ops::Range;
use std::time::Duration;

use jeton_wal::Slot;

use crate::frame::NodeId;

#[derive(Debug, Clone)]
pub struct ClusterStatus {
    /// The node that reports.
    pub me: NodeId,
    /// In the order of their ids.
    pub nodes: Vec<NodeStatus>,
    /// All stripes, in order.
    pub stripes: Vec<StripeStatus>,
    /// What needs an operator: for example clocks that differ.
    pub alarms: Vec<String>,
}

#[derive(Debug, Clone)]
pub struct NodeStatus {
    pub id: NodeId,
    /// At which other nodes reach it.
    pub address: String,
    pub client_addresses: Vec<String>,
    pub incarnation: u128,
    /// Time since this node saw a new heartbeat of it.
    pub heartbeat_age: Duration,
    pub suspected: bool,
    pub leaving: bool,
}

#[derive(Debug, Clone)]
pub struct StripeStatus {
    pub number: u16,
    pub partitions: Range<u16>,
    /// The owner, as far as this node knows.
    pub owner: Option<NodeId>,
    pub term: Slot,
    pub follower: Option<NodeId>,
    /// Set if this node is the owner.
    pub local: Option<LocalStripeStatus>,
}

/// What only the owner knows, since it became the owner.
#[derive(Debug, Clone)]
pub struct LocalStripeStatus {
    pub next_slot: Slot,
    /// Bytes of the frames in the log.
    pub log_bytes: u64,
    /// Frames written.
    pub writes: u64,
    /// Operations in them.
    pub operations: u64,
    /// Time of a write.
    pub write_p50: Duration,
    pub write_p99: Duration,
}

impl LocalStripeStatus {
    pub fn operations_per_write(&self) -> f64 {
        if self.writes == 0 { 0.0 } else { self.operations as f64 / self.writes as f64 }
    }
}
