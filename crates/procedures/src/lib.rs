//! Declared procedures: transactions written in SQL and configuration instead of Rust.
//!
//! A procedure has a name, typed parameters, steps, and a result. A step is a statement in one database with
//! guards: conditions that must hold after it. If a guard does not hold, the request is *refused* with the
//! message of the guard; its changes are rolled back, and every retry gets the same refusal.
//!
//! Invariants:
//! - Names, placeholders and guards of a procedure are checked when it is loaded, so a loaded procedure
//!   cannot fail for these reasons.
//! - A parameter is never part of the text of a statement. It is sent to the database as a value.
//! - The decision location depends on the procedure alone: its database if it uses one, the registers if it
//!   uses several, unless it declares another one.

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
