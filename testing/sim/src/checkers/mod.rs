//! The checkers: one promise each.
//!
//! | checker | promise |
//! |---|---|
//! | [`counting`] | acknowledged unique deltas ≤ value ≤ those plus unacknowledged ones |
//! | [`answers`] | acknowledged operations are durable; every retry of an id gets the first result; another payload is rejected |
//! | [`recount`] | an id is applied once, ever or within its window; a late one never |
//! | [`reads`] | reads are durable, of their time, and never go back |
//! | [`refusals`] | a refusal changes nothing, and has a reason |
//! | [`time`] | the store's time gains at most an eighth on real time |
//!
//! Beside them: what the log is given is checked by [`history`](crate::model::history) as it is staged, and the engine's own
//! assertions count as a violation of the rule `panic`.

pub mod answers;
pub mod branches;
pub mod counting;
pub mod reads;
pub mod recount;
pub mod refusals;
pub mod time;
