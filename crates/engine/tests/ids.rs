//! The id index: model test, damage, crashes, full disk, and concurrent readers.
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
