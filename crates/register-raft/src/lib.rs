//! Write-once registers replicated among three or five application servers by Raft.
//!
//! Every server runs a [`RaftRegisters`]; together they are one store. What one of them has answered, a majority holds, on
//! disk unless [`Durability::Memory`] says otherwise. Any of them may be asked: the one that leads decides, the others pass on what they
//! are asked, one hop. As long as a majority is up and can talk, there is an answer.
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
//! What must hold, besides what [`jeton_register`] asks of every engine:
//! - *The same everywhere.* The state is a function of the log of Raft: nothing in applying it depends on a clock, on chance or on who
//!   applies it.
//! - *An empty log is a new voter.* A member that lost what it had voted and stored never votes under the identity it had: it is
//!   let in anew, by those who still hold everything.
//! - *Asked twice, done once.* What is passed on and gets no answer is asked again under the same number, and the state knows what it
//!   did under it. So a change of leader is not seen from outside, except in time.
//! - *A stranger says nothing.* Members prove to each other that they know the secret of the cluster before anything is read that they say.
//!
//! `docs/adr/0009-raft.md` says why it is built so.

mod admission;
mod bootstrap;
mod command;
mod connection;
mod dedup;
mod handshake;
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
mod write_queue;

pub use membership_view::{MemberRole, MemberView};
pub use open_error::OpenError;
pub use registers::RaftRegisters;
pub use settings::{Durability, Member, Secret, Settings, Timing};
