//! The tests of the register crate: the journal on a disk that breaks, the engines, and the suite that judges them.

mod broken;
mod crashes;
mod damage;
mod engines;
mod journal;
mod lock;
mod support;
mod trouble;
