//! Write-once registers replicated among three or five servers by Raft.
//!
//! Every server runs a [`RaftRegisters`]; together they are one store. A response means that a majority
//! stores the result, on disk unless [`Durability::Memory`] is configured. A client may send a request to any
//! member: the leader executes it, the other members forward it to the leader. Requests succeed while a
//! majority is running and connected.
//!
//! ```no_run
//! use jeton_register_raft::{Durability, Member, RaftRegisters, Secret, Settings};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let members = ["10.0.0.1:7401", "10.0.0.2:7401", "10.0.0.3:7401"];
//! let members = (1..).zip(members).map(|(id, address)| Ok(Member { id, address: address.parse()? }));
//! let members = members.collect::<Result<_, std::net::AddrParseError>>()?;
//! let secret = Secret::new(std::fs::read("secret")?);
//! let settings = Settings::new(1, members, secret, Durability::Disk("registers".into()));
//! let registers = RaftRegisters::open(settings)?;
//! # Ok(())
//! # }
//! ```
//!
//! Invariants, besides those that [`jeton_register`] requires of every engine:
//! - *Deterministic.* The state is a function of the Raft log. Applying an entry depends on no clock, no
//!   randomness and no member.
//! - *An empty log is a new voter.* A member that lost its vote and its log never votes under its previous
//!   identity. The members that still have the log admit it under a new one.
//! - *A retried proposal is applied once.* A forwarded request without a response is sent again under the
//!   same number, and the state stores the results of applied numbers. So callers observe a change of leader
//!   only as latency.
//! - *Authenticated.* Members prove to each other that they know the secret before any request is read.
//!
//! `docs/adr/0009-raft.md` has the reasons for this design.

mod bootstrap;
mod command;
mod dedup;
mod journal;
mod log_storage;
mod membership_view;
mod message;
mod network;
mod node;
mod node_identity;
mod open_error;
mod peer;
mod read_queue;
mod registers;
mod rpc_server;
mod settings;
mod state;
mod state_machine;
mod storage;
mod types;
mod write_task;

pub use jeton_peer::Secret;
pub use membership_view::{MemberRole, MemberView};
pub use open_error::OpenError;
pub use registers::RaftRegisters;
pub use settings::{Durability, Member, Settings, Timing};
