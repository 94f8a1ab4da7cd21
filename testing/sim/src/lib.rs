//! The seeded simulator: a machine whose disk tears, fills up and forgets, whose clocks leap, and whose power fails at any
//! operation, running the code that the server runs; and clients that retry, duplicate and time out.
//!
//! One number, the seed, decides everything, so that what failed once fails again. Real are: the log, the rows, the id index, the
//! shards and their workers, the checkpointer, recovery, the filters. Stand-ins are: the disk ([`FaultDisk`]), the value store
//! ([`values`], because the real one knows real files only), the threads (steps of a scheduler) and the clocks.
//!
//! ```text
//! jeton-sim                              a thousand seeds
//! jeton-sim --seeds 0..50000             many more
//! jeton-sim --seed 17 --verbose          one seed, with its whole history
//! jeton-sim --mutation list              bugs that can be planted, with --features mutations
//! ```
//!
//! # How to read a failure
//!
//! The first line names the seed, the rule in brackets ([`checkers`]), and what was seen. Then comes the shortest history found that
//! breaks the same rule: the number of the step, and what happened in it; indented lines are answers. `end` is the part after the
//! last step, in which nothing breaks any more and every client asks until it is answered. The last line is the command that
//! shows it again. First make sure that it is not the [`model`] that is wrong.
//!
//! [`FaultDisk`]: jeton_wal::disk::FaultDisk

pub mod branch_workload;
pub mod checkers;
pub mod cli;
pub mod client;
pub mod clock;
pub mod event;
pub mod filters;
mod final_check;
pub mod log;
mod machine_events;
pub mod model;
pub mod mutation;
pub mod parallel_runner;
pub mod process;
mod restart;
mod rng;
pub mod run;
pub mod scenario;
pub mod shrink;
pub mod simulation;
mod startup;
pub mod stats;
pub mod values;
pub mod violation;
mod workload;
