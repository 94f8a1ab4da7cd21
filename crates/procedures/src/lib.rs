//! Transactions that are declared instead of programmed: for people who write SQL and not Rust.
//!
//! A procedure has a name, parameters with their kinds, steps, and what it returns. A step is a statement in one database, with guards: what must be true after it.
//! If one is not, the request is *refused*, in the words of the guard; nothing it did stays, and every retry gets the same refusal.
//!
//! What must hold:
//! - A procedure that is taken cannot go wrong by its own words later: names, places of parameters and guards are checked when it is read.
//! - A parameter is never part of the text of a statement. It goes to the database as a value.
//! - Where decisions are kept follows from the procedure alone: in its database if it has one, in the registers if it has several, unless it says otherwise.

mod config;
mod decimal;
mod guard;
mod operand;
mod parameter;
mod procedure;
mod registry;
mod statement;
mod value;

pub use config::{DeclaredParameter, GuardConfig, ProcedureConfig, StepConfig};
pub use registry::{Database, DeclarationError, ProcedureRegistry};
