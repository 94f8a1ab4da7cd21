//! The seeded simulator: the code of the server on a machine with torn writes, full disks, clock steps and
//! power failures at any disk operation, and clients that retry, duplicate and time out.
//!
//! The seed decides everything, so a failing seed fails again. Real: log, id index, shards and workers,
//! checkpointer, recovery, filters. Simulated: the disk ([`FaultDisk`]), the value store ([`values`], because
//! the real one needs real files), the threads (steps of a scheduler) and the clocks.
//!
//! ```text
//! jeton-sim                              1,000 seeds
//! jeton-sim --seeds 0..50000             these seeds
//! jeton-sim --seed 17 --verbose          one seed, with its history
//! jeton-sim --mutation list              mutations, with --features mutations
//! ```
//!
//! # How to read a failure
//!
//! The first line names the seed, the rule in brackets ([`checkers`]) and the observation. Then comes the
//! shortest history found that violates the same rule: the number of the step and its event; indented lines
//! are responses. `end` is the part after the last step, without faults, in which every client retries until
//! it has a response. The last line is the command that repeats the run. First make sure that the [`model`]
//! is right.
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
