//! Partitions at work on one machine: group commit, id index, checkpoints, recovery.

pub mod ids;
