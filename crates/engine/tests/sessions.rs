//! Sessions across restarts.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use std::time::Duration;

use common::scenario::{Scenario, at, settings};
use jeton_core::{Format, Formats, OpId, TableSettings, Timestamp};
use jeton_engine::{OperationOutcome, Response};

/// The first start has a clock that is a day ahead; no entry has its time.
#[test]
fn a_clock_ahead_expires_no_session_in_a_checkpoint() {
    const DAY: u32 = 24 * 60;
    let scenario = Scenario::new();
    let (tables, mut shard) = scenario.start();
    let lease = Duration::from_secs(3_600);
    let formats = Formats::only(Format::Sequenced);
    tables
        .create("t", TableSettings { formats, session_lease: lease, ..settings(lease) }, Timestamp::ZERO)
        .unwrap();
    let id = || OpId::sequenced("client", 1, 1).unwrap();
    let first = scenario.submit(&mut shard, &tables, id(), at(0));
    assert!(matches!(first, Response::Applied(Ok(OperationOutcome::Fresh(_)))), "{first:?}");
    scenario.store(&mut shard, &tables, at(DAY));

    let (tables, mut shard) = scenario.start();
    let again = scenario.submit(&mut shard, &tables, id(), at(1));
    assert!(matches!(again, Response::Applied(Ok(OperationOutcome::Replayed(_)))), "{again:?}");
}
