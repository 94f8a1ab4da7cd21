//! A late retry of a request with many aborted attempts is answered without a delay per attempt.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use jeton_etx::{
    AttemptNumber, Branches, ClientOutcome, Commit, Coordinator, CoordinatorId, Decision, DecisionLocation,
    DecisionLog, DecisionLookup, NoPeers, Options, ProcedureCall, ProcedureLogic, ProcedureResult, RequestId,
    Resource, ResourceError,
};
use jeton_register::memory::MemoryRegisters;

/// A procedure that is never executed: all attempts are decided.
struct Decided;

#[async_trait]
impl ProcedureLogic for Decided {
    fn decision_location(&self, _: &str) -> Option<DecisionLocation> {
        Some(DecisionLocation::Registers)
    }

    async fn execute(&self, _: &ProcedureCall, _: &mut Branches) -> Result<ProcedureResult, ResourceError> {
        Ok(ProcedureResult::Failed(Bytes::from_static(b"it was executed again")))
    }
}

#[tokio::test(start_paused = true)]
async fn decided_attempts_are_passed_without_a_delay() {
    const ATTEMPTS: u8 = 30;
    let registers = Arc::new(MemoryRegisters::new());
    let resources: Arc<[Arc<dyn Resource>]> = Arc::new([]);
    let id = RequestId { session: 1, sequence: 2 };
    let request = ProcedureCall { procedure: "p".into(), parameters: Bytes::from_static(b"{}") };
    let options = Options { window: Duration::MAX, ..Options::new(1, 1, 1) };
    let server =
        Coordinator::new(options, registers.clone(), resources.clone(), Arc::new(Decided), Arc::new(NoPeers));
    // Only the server computes the hash of a request, so it is taken from a first answer.
    let other = RequestId { session: 1, sequence: 1 };
    server.issue(other, request.clone(), false).await.unwrap();
    let decisions = DecisionLog::new(registers, resources);
    let DecisionLookup::Recorded(Some(Decision::Commit(first))) =
        decisions.read(other, DecisionLocation::Registers, AttemptNumber::FIRST).await
    else {
        panic!("there is no decision")
    };
    for number in 1..ATTEMPTS {
        decisions
            .propose(id, DecisionLocation::Registers, AttemptNumber(number), &Decision::Abort)
            .await
            .unwrap();
    }
    let answer = ProcedureResult::Done(Bytes::from_static(b"{}"));
    let coordinator = CoordinatorId { server: 9, incarnation: 9, work: 9 };
    let commit = Commit {
        coordinator,
        branches: Vec::new(),
        request_hash: first.request_hash,
        answer: answer.clone(),
    };
    decisions
        .propose(id, DecisionLocation::Registers, AttemptNumber(ATTEMPTS), &Decision::Commit(commit))
        .await
        .unwrap();

    let begun = tokio::time::Instant::now();
    assert_eq!(server.issue(id, request, false).await, Ok(ClientOutcome::Answer(answer)));
    assert!(begun.elapsed() < Duration::from_millis(100), "it took {:?}", begun.elapsed());
}
