//! The tests of the register crate: the journal on a disk that breaks, the engines, and the suite that judges them.

#![allow(clippy::unwrap_used, reason = "what a test's helper cannot do fails the test")]

mod broken;
mod closing;
mod crashes;
mod damage;
mod engines;
mod hooked;
mod journal;
mod lock;
mod session_crashes;
mod sessions;
mod support;
mod threads;
mod trouble;
