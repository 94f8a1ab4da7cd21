//! e-Transactions beside two-phase commit, measured on real databases in one run.
//!
//! Frølund and Guerraoui, *Implementing e-Transactions with Asynchronous Replication* (HPL-2000-46), Fig. 8,
//! measures what reliability costs a request: one database, registers in the memory of a majority, and a
//! two-phase commit that forces its log twice. This figure adds two databases, durable registers, a two-phase
//! commit that forces its log once, and one database without prepare.
//!
//! Rules for a fair ratio:
//! - All protocols execute the same statements on the same databases through the same drivers, on open
//!   connections. Steps that can run in parallel in both databases do so for every protocol.
//! - The protocols take turns in random order, so that noise affects all of them.
//! - e-Transactions run as users run them: through `Coordinator::issue` over the adapters, with markers,
//!   fencing and recovery.
//! - The two-phase commit takes every shortcut: its log has no end record, and it does not verify votes.

mod client;
mod cpu_usage;
mod databases;
mod etx_client;
mod forced_log;
mod latency;
mod latency_chart;
mod protocol;
mod registers;
mod setup;
mod statistics;
mod targets;
mod throughput;
mod timed_resource;
mod transfer;
mod two_phase_commit;

pub(crate) use latency::{TITLE as FIG8_TITLE, run as run_fig8};
pub(crate) use throughput::{TITLE as THROUGHPUT_TITLE, run as run_throughput};
