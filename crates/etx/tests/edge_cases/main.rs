//! Edge cases: wrong acknowledgements, full registers, unavailable databases, sessions that expire during
//! execution, oversized errors, panics, and operators that resolve running transactions.
mod fake_participant;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use fake_participant::{Both, BoundedRegisters, CLUSTER, Fake, Shared};
use jeton_etx::{
    AttemptId, AttemptNumber, ClientOutcome, Commit, Coordinator, CoordinatorId, Decision, DecisionLocation,
    DecisionLog, DecisionLookup, NoPeers, Options, Outcome, Participant, ProcedureCall, ProcedureResult,
    RequestId, Resource, SubmitError, TransactionService, Xid,
};

/// The start of the test clock, in milliseconds.
const BEGIN: u64 = 1_000_000_000;

struct Fixture {
    fakes: [Arc<Fake>; 2],
    registers: Arc<BoundedRegisters>,
    server: Arc<Coordinator<BoundedRegisters>>,
}

impl Fixture {
    fn build(now: fn() -> u64) -> Self {
        let fakes = [Fake::new(0), Fake::new(1)];
        let registers = Arc::new(BoundedRegisters::default());
        let resources = fakes.clone().map(|fake| Arc::new(Shared(fake)) as Arc<dyn Resource>);
        let options = Options { now, ..Options::new(CLUSTER, 1, 7) };
        let server = Coordinator::new(
            options,
            registers.clone(),
            Arc::new(resources),
            Arc::new(Both),
            Arc::new(NoPeers),
        );
        Self { fakes, registers, server }
    }

    fn issue(
        &self,
        id: RequestId,
        statement: &str,
    ) -> tokio::task::JoinHandle<Result<ClientOutcome, SubmitError>> {
        let parameters = Bytes::copy_from_slice(statement.as_bytes());
        let (server, request) =
            (Arc::clone(&self.server), ProcedureCall { procedure: "p".to_owned(), parameters });
        let issue = async move { server.issue(id, request, true).await };
        // The paused clock of the test advances without waiting.
        tokio::spawn(async move {
            tokio::time::timeout(Duration::from_secs(600), issue).await.expect("the request is answered")
        })
    }

    /// A branch of a dead coordinator, prepared in one of the databases.
    fn prepared_branch(&self, index: usize, decision_location: DecisionLocation, sequence: u32) -> Xid {
        let attempt = AttemptId {
            request: RequestId { session: session(0), sequence },
            number: AttemptNumber::FIRST,
            coordinator: CoordinatorId { server: 9, incarnation: 9, work: sequence.into() },
            decision_location,
        };
        let name = attempt.branch(CLUSTER.into(), index as u8, 1);
        self.fakes[index].state().prepared.insert(name);
        name
    }

    /// Records a decision in the registers, where there must be none.
    async fn record(&self, request: RequestId, attempt: AttemptNumber, decision: Decision) {
        let decisions = DecisionLog::new(self.registers.clone(), Arc::new([]));
        let recorded = decisions.propose(request, DecisionLocation::Registers, attempt, &decision).await;
        assert_eq!(recorded, Ok(DecisionLookup::Recorded(Some(decision))));
    }

    /// The window of all servers here, in milliseconds.
    fn window(&self) -> u64 {
        Options::new(CLUSTER, 1, 7).window.as_millis() as u64
    }

    async fn recover(&self) {
        for fake in &self.fakes {
            self.server.recover(&Shared(Arc::clone(fake))).await.expect("a fake can always be listed");
        }
    }

    fn committed(&self) -> [usize; 2] {
        self.fakes.clone().map(|fake| fake.state().committed.len())
    }

    fn prepared(&self) -> [usize; 2] {
        self.fakes.clone().map(|fake| fake.state().prepared.len())
    }
}

/// A session dated `after` milliseconds after the start.
fn session(after: u64) -> u128 {
    u128::from(BEGIN + after) << 80
}

/// Waits until other tasks have met a condition.
async fn until(condition: impl Fn() -> bool) {
    while !condition() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

const DONE: ClientOutcome = ClientOutcome::Answer(ProcedureResult::Done(Bytes::from_static(b"done")));

#[tokio::test(start_paused = true)]
async fn early_acknowledgement_does_not_forget_the_decision() {
    let fixture = Fixture::build(|| BEGIN);
    let id = RequestId { session: session(0), sequence: 0 };
    // The decision is recorded, and is carried out in one database only.
    fixture.fakes[1].commits.set(false);
    let pending = fixture.issue(id, "work");
    until(|| fixture.committed() == [1, 0]).await;
    fixture.server.acknowledge(id.session, 0).await.unwrap();
    fixture.recover().await;
    fixture.fakes[1].commits.set(true);
    assert_eq!(pending.await.unwrap(), Ok(DONE));
    assert_eq!((fixture.committed(), fixture.prepared()), ([1, 1], [0, 0]));
    // Now it is forgotten.
    fixture.server.acknowledge(id.session, 0).await.unwrap();
    assert_eq!(fixture.issue(id, "work").await.unwrap(), Ok(ClientOutcome::Forgotten));
    assert_eq!((fixture.committed(), fixture.prepared()), ([1, 1], [0, 0]));
}

#[tokio::test(start_paused = true)]
async fn session_that_expires_during_execution_is_not_committed() {
    static NOW: AtomicU64 = AtomicU64::new(BEGIN);
    let fixture = Fixture::build(|| NOW.load(Ordering::SeqCst));
    let window = fixture.window();
    let id = RequestId { session: session(0), sequence: 0 };
    // It begins at the end of the window, and its vote is blocked.
    NOW.store(BEGIN + window, Ordering::SeqCst);
    fixture.fakes[1].votes.set(false);
    let pending = fixture.issue(id, "work");
    until(|| fixture.prepared() == [1, 0]).await;
    // Retention must notice its prepared branch.
    assert!(fixture.server.retire().await.is_ok(), "the grace period has not ended");
    NOW.store(BEGIN + window + window, Ordering::SeqCst);
    assert!(fixture.server.retire().await.is_err(), "a branch is prepared");
    fixture.fakes[1].votes.set(true);
    assert_eq!(pending.await.unwrap(), Ok(ClientOutcome::Forgotten));
    assert_eq!((fixture.committed(), fixture.prepared()), ([0, 0], [0, 0]));
    assert!(fixture.server.retire().await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn interrupted_privilege_check_does_not_block_retention() {
    let fixture = Fixture::build(|| 4 * BEGIN);
    let left = fixture.prepared_branch(0, DecisionLocation::Registers, 1);
    fixture.fakes[0].state().prepared.clear();
    fixture.fakes[0].state().prepared.insert(Xid { coordinator: CoordinatorId::TRIAL, ..left });
    assert_eq!(fixture.server.retire().await, Ok(()));
}

#[tokio::test(start_paused = true)]
async fn unreadable_decision_does_not_block_other_branches() {
    let fixture = Fixture::build(|| BEGIN);
    // The decision of the first branch is in a database that is not declared.
    let stuck = fixture.prepared_branch(0, DecisionLocation::Resource(77), 1);
    fixture.prepared_branch(0, DecisionLocation::Registers, 2);
    fixture.recover().await;
    assert_eq!(fixture.fakes[0].state().prepared.iter().copied().collect::<Vec<_>>(), [stuck]);
}

#[tokio::test(start_paused = true)]
async fn full_registers_leave_nothing_prepared() {
    let fixture = Fixture::build(|| BEGIN);
    let id = RequestId { session: session(0), sequence: 0 };
    fixture.registers.is_full.store(true, Ordering::SeqCst);
    for _ in 0..2 {
        assert_eq!(fixture.issue(id, "work").await.unwrap(), Ok(ClientOutcome::NoRoom));
        assert_eq!((fixture.committed(), fixture.prepared()), ([0, 0], [0, 0]));
    }
    fixture.registers.is_full.store(false, Ordering::SeqCst);
    assert_eq!(fixture.issue(id, "work").await.unwrap(), Ok(DONE));
    assert_eq!(fixture.committed(), [1, 1]);
}

#[tokio::test(start_paused = true)]
async fn oversized_error_is_truncated_to_an_answer() {
    let fixture = Fixture::build(|| BEGIN);
    let id = RequestId { session: session(0), sequence: 0 };
    let answer = fixture.issue(id, &"ä".repeat(100_000)).await.unwrap();
    let Ok(ClientOutcome::Answer(ProcedureResult::Failed(text))) = &answer else { panic!("{answer:?}") };
    assert!(text.len() > 60_000 && std::str::from_utf8(text).is_ok());
    assert_eq!(fixture.issue(id, &"ä".repeat(100_000)).await.unwrap(), answer);
}

#[tokio::test(start_paused = true)]
async fn transaction_resolved_during_execution_is_retried() {
    let fixture = Fixture::build(|| BEGIN);
    let id = RequestId { session: session(0), sequence: 0 };
    fixture.fakes[1].votes.set(false);
    let pending = fixture.issue(id, "work");
    until(|| fixture.prepared() == [1, 0]).await;
    let resolved = fixture.server.resolve(id).await.branches;
    assert!(resolved.len() == 1 && resolved[0].outcome.is_ok(), "{resolved:?}");
    fixture.fakes[1].votes.set(true);
    assert_eq!(pending.await.unwrap(), Ok(DONE));
    assert_eq!((fixture.committed(), fixture.prepared()), ([1, 1], [0, 0]));
}

#[tokio::test(start_paused = true)]
async fn resolve_carries_out_the_recorded_decision() {
    let fixture = Fixture::build(|| BEGIN);
    let left = fixture.prepared_branch(0, DecisionLocation::Registers, 1);
    let branches = vec![Participant { resource: left.resource, connection: left.connection }];
    let answer = ProcedureResult::Done(Bytes::from_static(b"done"));
    let commit = Commit { coordinator: left.coordinator, branches, request_hash: 0, answer };
    fixture.record(left.request, AttemptNumber::FIRST, Decision::Commit(commit)).await;
    let resolved = fixture.server.resolve(left.request).await.branches;
    assert!(resolved.len() == 1 && resolved[0].outcome == Ok(Outcome::Commit), "{resolved:?}");
    assert_eq!((fixture.committed(), fixture.prepared()), ([1, 0], [0, 0]));
}

#[tokio::test(start_paused = true)]
async fn panic_in_begin_aborts_one_attempt() {
    let fixture = Fixture::build(|| BEGIN);
    *fixture.fakes[1].panics_in.lock().unwrap() = Some("begin");
    let id = RequestId { session: session(0), sequence: 1 };
    assert_eq!(fixture.issue(id, "work").await.unwrap(), Ok(DONE));
    assert_eq!((fixture.committed(), fixture.prepared()), ([1, 1], [0, 0]));
    let attempts: Vec<_> = fixture.fakes[0].state().committed.iter().map(|name| name.attempt).collect();
    assert_eq!(attempts, [AttemptNumber(2)]);
}

#[tokio::test(start_paused = true)]
async fn panic_in_vote_leaves_the_outcome_to_a_retry() {
    let fixture = Fixture::build(|| BEGIN);
    *fixture.fakes[1].panics_in.lock().unwrap() = Some("vote");
    let id = RequestId { session: session(0), sequence: 1 };
    assert_eq!(fixture.issue(id, "work").await.unwrap(), Err(SubmitError::Interrupted));
    // The vote of the other participant was not disturbed.
    assert_eq!(fixture.prepared(), [1, 0]);
    assert_eq!(fixture.issue(id, "work").await.unwrap(), Ok(DONE));
    fixture.recover().await;
    assert_eq!((fixture.committed(), fixture.prepared()), ([1, 1], [0, 0]));
}

#[tokio::test(start_paused = true)]
async fn late_retry_passes_aborted_attempts_without_a_delay() {
    const ATTEMPTS: u8 = 30;
    let fixture = Fixture::build(|| BEGIN);
    let [first, id] = [1, 2].map(|sequence| RequestId { session: session(0), sequence });
    assert_eq!(fixture.issue(first, "work").await.unwrap(), Ok(DONE));
    // Only the server computes the hash of a request, so the commit is that of the same request under another
    // id.
    let status = fixture.server.status(first).await.unwrap();
    let [(_, AttemptNumber::FIRST, Decision::Commit(commit))] = &status.attempts[..] else {
        panic!("{status:?}")
    };
    let commit = Decision::Commit(Commit { branches: Vec::new(), ..commit.clone() });
    for number in 1..ATTEMPTS {
        fixture.record(id, AttemptNumber(number), Decision::Abort).await;
    }
    fixture.record(id, AttemptNumber(ATTEMPTS), commit).await;
    let request = ProcedureCall { procedure: "p".to_owned(), parameters: Bytes::from_static(b"work") };
    let begun = tokio::time::Instant::now();
    assert_eq!(fixture.server.issue(id, request, false).await, Ok(DONE));
    assert!(begun.elapsed() < Duration::from_millis(100), "it took {:?}", begun.elapsed());
    assert_eq!(fixture.committed(), [1, 1], "it was executed again");
}

#[tokio::test(start_paused = true)]
async fn unavailable_database_uses_no_attempts() {
    let fixture = Fixture::build(|| BEGIN);
    let id = RequestId { session: session(0), sequence: 0 };
    let request = ProcedureCall { procedure: "p".to_owned(), parameters: Bytes::from_static(b"work") };
    fixture.fakes[1].is_unavailable.store(true, Ordering::SeqCst);
    let begun = tokio::time::Instant::now();
    let mut is_first_time = true;
    while begun.elapsed() < Duration::from_secs(600) {
        let outcome = fixture.server.issue(id, request.clone(), is_first_time).await;
        assert_eq!(outcome, Ok(ClientOutcome::Unavailable), "after {:?}", begun.elapsed());
        is_first_time = false;
    }
    fixture.fakes[1].is_unavailable.store(false, Ordering::SeqCst);
    assert_eq!(fixture.server.issue(id, request, false).await, Ok(DONE));
    assert_eq!((fixture.committed(), fixture.prepared()), ([1, 1], [0, 0]));
    let attempts: Vec<_> = fixture.fakes[0].state().committed.iter().map(|name| name.attempt).collect();
    assert_eq!(attempts, [AttemptNumber::FIRST]);
}

#[tokio::test(start_paused = true)]
async fn database_that_comes_back_in_time_is_awaited() {
    let fixture = Fixture::build(|| BEGIN);
    let id = RequestId { session: session(0), sequence: 0 };
    fixture.fakes[1].is_unavailable.store(true, Ordering::SeqCst);
    let pending = fixture.issue(id, "work");
    tokio::time::sleep(Duration::from_secs(3)).await;
    fixture.fakes[1].is_unavailable.store(false, Ordering::SeqCst);
    assert_eq!(pending.await.unwrap(), Ok(DONE));
    assert_eq!((fixture.committed(), fixture.prepared()), ([1, 1], [0, 0]));
}

#[tokio::test(start_paused = true)]
async fn unavailable_decision_store_ends_the_request() {
    let fixture = Fixture::build(|| BEGIN);
    fixture.registers.is_unreadable.store(true, Ordering::SeqCst);
    let id = RequestId { session: session(0), sequence: 0 };
    let request = ProcedureCall { procedure: "p".to_owned(), parameters: Bytes::from_static(b"work") };
    let issue = fixture.server.issue(id, request.clone(), false);
    let outcome = tokio::time::timeout(Duration::from_secs(60), issue).await;
    assert_eq!(outcome, Ok(Ok(ClientOutcome::Unavailable)));
    fixture.registers.is_unreadable.store(false, Ordering::SeqCst);
    assert_eq!(fixture.server.issue(id, request, false).await, Ok(DONE));
    assert_eq!(fixture.committed(), [1, 1]);
}
