//! What only happens at the edges: clients that lie, registers that are full, sessions that grow old while they are worked on, errors that are too long, and humans who
//! end what is at work.
mod fake_participant;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use fake_participant::{Both, CLUSTER, Fake, Narrow, Shared};
use jeton_etx::{
    AttemptNumber, ClientOutcome, Commit, Coordinator, CoordinatorId, Decision, DecisionLocation,
    DecisionLog, DecisionLookup, NoPeers, Options, Outcome, Participant, ProcedureCall, ProcedureResult,
    RequestId, Resource, SubmitError, TransactionService, Xid,
};

/// The first moment, in milliseconds.
const BEGIN: u64 = 1_000_000_000;

struct Stage {
    fakes: [Arc<Fake>; 2],
    registers: Arc<Narrow>,
    server: Arc<Coordinator<Narrow>>,
}

impl Stage {
    fn build(now: fn() -> u64) -> Self {
        let fakes = [Fake::new(0), Fake::new(1)];
        let registers = Arc::new(Narrow::default());
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
        // Of a clock that does not wait.
        tokio::spawn(async move {
            tokio::time::timeout(Duration::from_secs(600), issue).await.expect("it is never answered")
        })
    }

    /// A try of somebody who is no more, prepared in one of the databases.
    fn effects_of(&self, place: usize, home: DecisionLocation, sequence: u32) -> Xid {
        let name = Xid {
            cluster: CLUSTER.into(),
            request: RequestId { session: session(0), sequence },
            attempt: AttemptNumber::FIRST,
            home,
            executor: CoordinatorId { server: 9, incarnation: 9, work: sequence.into() },
            resource: place as u8,
            connection: 1,
        };
        self.fakes[place].books().prepared.insert(name);
        name
    }

    /// Of all servers here, in milliseconds.
    fn window(&self) -> u64 {
        Options::new(CLUSTER, 1, 7).window.as_millis() as u64
    }

    async fn sweep(&self) {
        for fake in &self.fakes {
            self.server.sweep(&Shared(Arc::clone(fake))).await.expect("a fake can always be listed");
        }
    }

    fn committed(&self) -> [usize; 2] {
        self.fakes.clone().map(|fake| fake.books().committed.len())
    }

    fn prepared(&self) -> [usize; 2] {
        self.fakes.clone().map(|fake| fake.books().prepared.len())
    }
}

/// A session of so many milliseconds after the first moment.
fn session(after: u64) -> u128 {
    u128::from(BEGIN + after) << 80
}

/// Waits for what other tasks do.
async fn until(condition: impl Fn() -> bool) {
    while !condition() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

const DONE: ClientOutcome = ClientOutcome::Answer(ProcedureResult::Done(Bytes::from_static(b"done")));

#[tokio::test(start_paused = true)]
async fn what_is_acknowledged_before_it_is_answered_is_not_forgotten() {
    let stage = Stage::build(|| BEGIN);
    let id = RequestId { session: session(0), sequence: 0 };
    // The decision stands, and is carried out in one database only.
    stage.fakes[1].commits.set(false);
    let asked = stage.issue(id, "work");
    until(|| stage.committed() == [1, 0]).await;
    stage.server.acknowledge(id.session, 0).await.unwrap();
    stage.sweep().await;
    stage.fakes[1].commits.set(true);
    assert_eq!(asked.await.unwrap(), Ok(DONE));
    assert_eq!((stage.committed(), stage.prepared()), ([1, 1], [0, 0]));
    // Now it is.
    stage.server.acknowledge(id.session, 0).await.unwrap();
    assert_eq!(stage.issue(id, "work").await.unwrap(), Ok(ClientOutcome::Forgotten));
    assert_eq!((stage.committed(), stage.prepared()), ([1, 1], [0, 0]));
}

#[tokio::test(start_paused = true)]
async fn what_grew_old_while_it_was_worked_on_is_not_committed() {
    static NOW: AtomicU64 = AtomicU64::new(BEGIN);
    let stage = Stage::build(|| NOW.load(Ordering::SeqCst));
    let window = stage.window();
    let id = RequestId { session: session(0), sequence: 0 };
    // It is taken up at the very end of the window, and held up at its vote.
    NOW.store(BEGIN + window, Ordering::SeqCst);
    stage.fakes[1].votes.set(false);
    let asked = stage.issue(id, "work");
    until(|| stage.prepared() == [1, 0]).await;
    // Whoever forgets now must see that something of it is prepared.
    assert!(stage.server.retire().await.is_ok(), "the time of grace is not over");
    NOW.store(BEGIN + window + window, Ordering::SeqCst);
    assert!(stage.server.retire().await.is_err(), "it is prepared");
    stage.fakes[1].votes.set(true);
    assert_eq!(asked.await.unwrap(), Ok(ClientOutcome::Forgotten));
    assert_eq!((stage.committed(), stage.prepared()), ([0, 0], [0, 0]));
    assert!(stage.server.retire().await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_trial_that_was_left_behind_keeps_nothing_from_being_forgotten() {
    let stage = Stage::build(|| 4 * BEGIN);
    let left = stage.effects_of(0, DecisionLocation::Registers, 1);
    stage.fakes[0].books().prepared.clear();
    stage.fakes[0].books().prepared.insert(Xid { executor: CoordinatorId::TRIAL, ..left });
    assert_eq!(stage.server.retire().await, Ok(()));
}

#[tokio::test(start_paused = true)]
async fn a_branch_whose_decision_cannot_be_had_keeps_no_other_from_being_swept() {
    let stage = Stage::build(|| BEGIN);
    // The first keeps its decisions in a database that nobody knows any more.
    let stuck = stage.effects_of(0, DecisionLocation::Resource(77), 1);
    stage.effects_of(0, DecisionLocation::Registers, 2);
    stage.sweep().await;
    assert_eq!(stage.fakes[0].books().prepared.iter().copied().collect::<Vec<_>>(), [stuck]);
}

#[tokio::test(start_paused = true)]
async fn full_registers_leave_nothing_prepared() {
    let stage = Stage::build(|| BEGIN);
    let id = RequestId { session: session(0), sequence: 0 };
    stage.registers.is_full.store(true, Ordering::SeqCst);
    for _ in 0..2 {
        assert_eq!(stage.issue(id, "work").await.unwrap(), Ok(ClientOutcome::NoRoom));
        assert_eq!((stage.committed(), stage.prepared()), ([0, 0], [0, 0]));
    }
    stage.registers.is_full.store(false, Ordering::SeqCst);
    assert_eq!(stage.issue(id, "work").await.unwrap(), Ok(DONE));
    assert_eq!(stage.committed(), [1, 1]);
}

#[tokio::test(start_paused = true)]
async fn an_error_that_is_too_long_is_an_answer_all_the_same() {
    let stage = Stage::build(|| BEGIN);
    let id = RequestId { session: session(0), sequence: 0 };
    let answer = stage.issue(id, &"ä".repeat(100_000)).await.unwrap();
    let Ok(ClientOutcome::Answer(ProcedureResult::Failed(text))) = &answer else { panic!("{answer:?}") };
    assert!(text.len() > 60_000 && std::str::from_utf8(text).is_ok());
    assert_eq!(stage.issue(id, &"ä".repeat(100_000)).await.unwrap(), answer);
}

#[tokio::test(start_paused = true)]
async fn what_a_human_ends_while_it_is_worked_on_is_tried_again() {
    let stage = Stage::build(|| BEGIN);
    let id = RequestId { session: session(0), sequence: 0 };
    stage.fakes[1].votes.set(false);
    let asked = stage.issue(id, "work");
    until(|| stage.prepared() == [1, 0]).await;
    let resolved = stage.server.resolve(id).await;
    assert!(resolved.len() == 1 && resolved[0].ended.is_ok(), "{resolved:?}");
    stage.fakes[1].votes.set(true);
    assert_eq!(asked.await.unwrap(), Ok(DONE));
    assert_eq!((stage.committed(), stage.prepared()), ([1, 1], [0, 0]));
}

#[tokio::test(start_paused = true)]
async fn a_human_gets_what_is_decided() {
    let stage = Stage::build(|| BEGIN);
    let left = stage.effects_of(0, DecisionLocation::Registers, 1);
    let branches = vec![Participant { resource: left.resource, connection: left.connection }];
    let answer = ProcedureResult::Done(Bytes::from_static(b"done"));
    let commit = Commit { executor: left.executor, branches, asked: 0, answer };
    let decisions = DecisionLog::new(stage.registers.clone(), Arc::new([]));
    let stands = decisions
        .propose(left.request, DecisionLocation::Registers, AttemptNumber::FIRST, &Decision::Commit(commit))
        .await;
    assert!(matches!(stands, Ok(DecisionLookup::Stands(Some(Decision::Commit(_))))));
    let resolved = stage.server.resolve(left.request).await;
    assert!(resolved.len() == 1 && resolved[0].ended == Ok(Outcome::Commit), "{resolved:?}");
    assert_eq!((stage.committed(), stage.prepared()), ([1, 0], [0, 0]));
}

#[tokio::test(start_paused = true)]
async fn panic_in_begin_aborts_one_attempt() {
    let stage = Stage::build(|| BEGIN);
    *stage.fakes[1].panics_in.lock().unwrap() = Some("begin");
    let id = RequestId { session: session(0), sequence: 1 };
    assert_eq!(stage.issue(id, "work").await.unwrap(), Ok(DONE));
    assert_eq!((stage.committed(), stage.prepared()), ([1, 1], [0, 0]));
    let attempts: Vec<_> = stage.fakes[0].books().committed.iter().map(|name| name.attempt).collect();
    assert_eq!(attempts, [AttemptNumber(2)]);
}

#[tokio::test(start_paused = true)]
async fn panic_in_vote_leaves_the_outcome_to_a_retry() {
    let stage = Stage::build(|| BEGIN);
    *stage.fakes[1].panics_in.lock().unwrap() = Some("vote");
    let id = RequestId { session: session(0), sequence: 1 };
    assert_eq!(stage.issue(id, "work").await.unwrap(), Err(SubmitError::BrokeOff));
    // The vote of the other participant was not disturbed.
    assert_eq!(stage.prepared(), [1, 0]);
    assert_eq!(stage.issue(id, "work").await.unwrap(), Ok(DONE));
    stage.sweep().await;
    assert_eq!((stage.committed(), stage.prepared()), ([1, 1], [0, 0]));
}
