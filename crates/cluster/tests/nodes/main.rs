//! Clusters of nodes in one process, on registers in memory and on PostgreSQL.

#![allow(clippy::unwrap_used, reason = "a failed helper fails the test")]

mod cluster;
mod features;
mod postgres;
mod requests;
