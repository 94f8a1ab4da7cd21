//! Tests of the state machine.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod addresses;
mod batches;
mod branches;
mod changes;
mod common;
mod corpus;
mod deleted_tables;
mod entries;
mod eras;
mod ids;
mod operation_outcomes;
mod range_limits;
mod replay;
mod scopes;
mod sessions;
mod store_clock;
