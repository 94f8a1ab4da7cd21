//! The checkers: one guarantee each.
//!
//! | checker | guarantee |
//! |---|---|
//! | [`counting`] | acknowledged unique deltas ≤ value ≤ those plus unacknowledged ones |
//! | [`answers`] | acknowledged operations are durable; every retry of an id gets the first result; another payload is rejected |
//! | [`recount`] | an id is applied once, ever or within its window; an expired id never |
//! | [`branches`] | a prepared branch can commit, and counts once if it does |
//! | [`reads`] | a read returns a durable value of its time, and reads never go back |
//! | [`refusals`] | a refusal changes nothing, and has a reason |
//! | [`time`] | the store's time gains at most an eighth on real time |
//!
//! Besides: [`history`](crate::model::history) checks appends to the log, and a failed assertion of the
//! engine is a violation of the rule `panic`.

pub mod answers;
pub mod branches;
pub mod counting;
pub mod reads;
pub mod recount;
pub mod refusals;
pub mod time;
