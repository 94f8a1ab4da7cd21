//! The id index from the outside: against a model, damaged, crashed, out of room, and read while it changes.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod ids {
    mod common;
    mod crash;
    mod damage;
    mod failure;
    mod format;
    mod fsync_data_loss;
    mod model;
    mod out_of_space;
    mod readers;
}
