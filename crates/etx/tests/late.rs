//! Whoever comes late to a request with many tries behind it is answered without waiting for each of them again.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use jeton_etx::{
    Alone, Answer, Branches, Commit, Decision, Decisions, Ending, Executor, Failure, Home, Known, Logic,
    Options, Request, RequestId, Resource, Server, Try,
};
use jeton_register::memory::Memory;

/// Logic that is never run: all is decided.
struct Decided;

#[async_trait]
impl Logic for Decided {
    fn home(&self, _: &str) -> Option<Home> {
        Some(Home::Registers)
    }

    async fn compute(&self, _: &Request, _: &mut Branches) -> Result<Answer, Failure> {
        Ok(Answer::Failed(Bytes::from_static(b"it was computed again")))
    }
}

#[tokio::test(start_paused = true)]
async fn tries_that_are_decided_are_passed_without_a_pause() {
    const TRIES: u8 = 30;
    let registers = Arc::new(Memory::new());
    let resources: Arc<[Arc<dyn Resource>]> = Arc::new([]);
    let id = RequestId { session: 1, sequence: 2 };
    let request = Request { procedure: "p".into(), parameters: Bytes::from_static(b"{}") };
    let options = Options { window: Duration::MAX, ..Options::new(1, 1, 1) };
    let server =
        Server::new(options, registers.clone(), resources.clone(), Arc::new(Decided), Arc::new(Alone));
    // What is asked is known by its hash, which the server alone makes: so it is taken from a first answer.
    let other = RequestId { session: 1, sequence: 1 };
    server.issue(other, request.clone(), false).await.unwrap();
    let decisions = Decisions::new(registers, resources);
    let Known::Stands(Some(Decision::Commit(first))) =
        decisions.look(other, Home::Registers, Try::FIRST).await
    else {
        panic!("nothing stands")
    };
    for number in 1..TRIES {
        decisions.propose(id, Home::Registers, Try(number), &Decision::Abort).await.unwrap();
    }
    let answer = Answer::Done(Bytes::from_static(b"{}"));
    let executor = Executor { server: 9, incarnation: 9, work: 9 };
    let commit = Commit { executor, branches: Vec::new(), asked: first.asked, answer: answer.clone() };
    decisions.propose(id, Home::Registers, Try(TRIES), &Decision::Commit(commit)).await.unwrap();

    let begun = tokio::time::Instant::now();
    assert_eq!(server.issue(id, request, false).await, Ok(Ending::Answer(answer)));
    assert!(begun.elapsed() < Duration::from_millis(100), "it took {:?}", begun.elapsed());
}
