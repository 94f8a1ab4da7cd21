//! e-Transactions measured beside two-phase commit: on real databases, in one run, all protocols in turn.
//!
//! Frølund and Guerraoui, *Implementing e-Transactions with Asynchronous Replication* (HPL-2000-46), Fig. 8: what reliability costs a request. There one
//! database, registers in the memory of a majority, and a two-phase commit that forces its log twice. Here also what a reader of today
//! asks for: two databases, registers that survive a loss of power, a two-phase commit that forces its log once, one database without any prepare.
//!
//! What must hold, so that a ratio means something:
//! - All do the same work by the same statements, on the same databases, by the same drivers, on connections that stay open; what can be done at the same time
//!   in both databases is done so by all.
//! - They take turns, in an order drawn anew each time: what the machine does meanwhile, it does to all.
//! - e-Transactions are what users get: [`Coordinator::issue`](jeton_etx::Server::issue) over the adapters, with marks, fences and a sweeper at work.
//! - Where a rival could be more careful and slower, it is not: its log has no record of the end, and its votes are believed.

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
