//! Jeton as a participant of transactions, with servers that are killed.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[allow(dead_code, reason = "used by other tests")]
#[path = "program/mod.rs"]
mod program;
#[allow(dead_code, reason = "used by other tests")]
#[path = "commands/server.rs"]
mod server;

use std::path::Path;
use std::time::Duration;

use jeton_etx::{
    AttemptId, AttemptNumber, Branch, CoordinatorId, DecisionLocation, Outcome, RequestId, Resource,
    ResourceError, Value, Vote, Xid,
};
use jeton_participants::{Jeton, Settings};
use rustix::process::Signal;
use server::{Server, folder};

const CLUSTER: u32 = 7;
const NUMBER: u8 = 3;

/// A server that is killed and restarted at the same address.
struct Scenario {
    folder: tempfile::TempDir,
    server: Option<Server>,
    address: String,
    jeton: Jeton,
}

impl Scenario {
    fn new() -> Self {
        let folder = folder();
        let server = Server::start(folder.path(), &[]);
        let address = server.http();
        let jeton = adapter(&address);
        Self { folder, server: Some(server), address, jeton }
    }

    fn kill(&mut self) {
        let server = self.server.take().unwrap();
        server.signal(Signal::KILL);
        server.wait();
    }

    fn start(&mut self) {
        self.server = Some(start(self.folder.path(), &self.address));
    }

    fn kill_and_start(&mut self) {
        self.kill();
        self.start();
    }

    async fn begin(&self, sequence: u32) -> Box<dyn Branch> {
        self.jeton.begin(attempt(sequence)).await.unwrap()
    }

    /// Executes statements in a branch and votes.
    async fn voted(&self, sequence: u32, statements: &[&str]) -> (Xid, Vote) {
        let mut branch = self.begin(sequence).await;
        for statement in statements {
            branch.execute(statement, &[]).await.unwrap();
        }
        (branch.name(), branch.vote().await)
    }

    async fn value(&self, counter: &str) -> i64 {
        let mut branch = self.begin(0).await;
        let executed = branch.execute("GET default ?", &[Value::Text(counter.into())]).await.unwrap();
        match &executed.rows[..] {
            [row] if row[0].0 == "value" => match row[0].1 {
                Value::Integer(value) => value,
                ref other => panic!("{other:?}"),
            },
            other => panic!("{other:?}"),
        }
    }

    async fn held(&self) -> Vec<Xid> {
        self.jeton.prepared().await.unwrap().into_iter().map(|standing| standing.name).collect()
    }
}

fn start(folder: &Path, address: &str) -> Server {
    Server::start(folder, &["--http", address])
}

fn adapter(address: &str) -> Jeton {
    Jeton::new(&format!("http://{address}"), None, Settings::new("jeton", CLUSTER, NUMBER)).unwrap()
}

fn attempt(sequence: u32) -> AttemptId {
    let request = RequestId { session: 0x0192_8f00_dead_7000_8000_0000_0000_00ff, sequence };
    let executor = CoordinatorId { server: 1, incarnation: 2, work: u64::from(sequence) };
    AttemptId {
        request,
        number: AttemptNumber::FIRST,
        coordinator: executor,
        decision_location: DecisionLocation::Registers,
    }
}

/// Counters of several partitions.
const ORDER: [&str; 3] =
    ["ADD default apples -5", "ADD default 'sold apples' 5 COLUMN a:b", "ADD default orders 1"];

#[tokio::test]
async fn a_vote_survives_a_crash_and_any_client_can_decide() {
    for (outcome, other, expected) in
        [(Outcome::Commit, Outcome::Abort, [-5, 1]), (Outcome::Abort, Outcome::Commit, [0, 0])]
    {
        let mut scenario = Scenario::new();
        let (name, vote) = scenario.voted(1, &ORDER).await;
        assert!(matches!(vote, Vote::Yes), "{vote:?}");
        scenario.kill_and_start();
        let standing = scenario.jeton.prepared().await.unwrap();
        assert_eq!(standing.iter().map(|one| one.name).collect::<Vec<_>>(), [name]);
        assert!(standing[0].age.is_some_and(|age| age > Duration::ZERO), "{standing:?}");
        let locks = scenario.jeton.locks(&name).await.unwrap();
        assert!(locks.contains(&"default/apples: -5".to_owned()), "{locks:?}");
        assert_eq!(scenario.value("apples").await, 0, "not visible yet");
        // Another client knows only the name; then again after a kill in between.
        for _ in 0..2 {
            adapter(&scenario.address).decide(&name, outcome).await.unwrap();
            assert_eq!([scenario.value("apples").await, scenario.value("orders").await], expected);
            let against = scenario.jeton.decide(&name, other).await;
            assert!(matches!(against, Err(ResourceError::Damage { .. })), "{against:?}");
            scenario.kill_and_start();
        }
        assert!(scenario.held().await.is_empty());
    }
}

#[tokio::test]
async fn each_refusal_of_a_branch_has_its_own_error() {
    let scenario = Scenario::new();
    let (stock, vote) = scenario.voted(1, &["ADD default stock 10"]).await;
    assert!(matches!(vote, Vote::Yes), "{vote:?}");
    scenario.jeton.decide(&stock, Outcome::Commit).await.unwrap();
    let (_, vote) = scenario.voted(2, &["ADD default stock -8 MIN 0"]).await;
    assert!(matches!(vote, Vote::Yes), "{vote:?}");
    let (_, held) = scenario.voted(3, &["ADD default stock -3 MIN 0"]).await;
    assert!(matches!(held, Vote::No(ResourceError::Transient { .. })), "the branch may be aborted: {held:?}");
    let (_, beyond) = scenario.voted(4, &["ADD default stock -11 MIN 0"]).await;
    let Vote::No(ResourceError::Statement { code, .. }) = beyond else { panic!("{beyond:?}") };
    assert_eq!(code, "beyond-bound");

    let mut late = scenario.begin(5).await;
    late.execute(ORDER[0], &[]).await.unwrap();
    scenario.jeton.decide(&late.name(), Outcome::Abort).await.unwrap();
    let vote = late.vote().await;
    assert!(matches!(vote, Vote::No(ResourceError::Transient { .. })), "{vote:?}");
    // A branch that was never prepared is not reported as committed.
    let never = scenario.begin(6).await.name();
    let unknown = scenario.jeton.decide(&never, Outcome::Commit).await;
    assert!(matches!(unknown, Err(ResourceError::Damage { .. })), "{unknown:?}");
}

#[tokio::test]
async fn a_branch_sends_nothing_before_its_vote() {
    let mut scenario = Scenario::new();
    let mut reading = scenario.begin(1).await;
    let executed = reading.execute("GET default apples", &[]).await.unwrap();
    assert_eq!(executed.rows, [[("value".to_owned(), Value::Integer(0))]]);
    assert!(matches!(reading.vote().await, Vote::Unchanged));

    let mut writing = scenario.begin(2).await;
    let given = [Value::Text("apples".into()), Value::Integer(4)];
    assert_eq!(writing.execute("ADD default ? ?", &given).await.unwrap().count, 1);
    let seen = writing.execute("GET default apples", &[]).await.unwrap();
    assert_eq!(seen.rows[0][0].1, Value::Integer(4), "its own");
    assert_eq!(scenario.value("apples").await, 0);

    let mut failing = scenario.begin(3).await;
    failing.execute("ADD default apples 1", &[]).await.unwrap();
    assert!(matches!(
        failing.execute("TAKE default apples 1", &[]).await,
        Err(ResourceError::Statement { .. })
    ));
    assert!(matches!(failing.vote().await, Vote::No(ResourceError::Statement { .. })));
    let (_, nowhere) = scenario.voted(4, &["ADD nowhere apples 1"]).await;
    assert!(matches!(nowhere, Vote::No(ResourceError::Statement { .. })), "{nowhere:?}");

    scenario.kill();
    // A branch that never voted needs no server to abort; the other one is in doubt.
    failing.decide(Outcome::Abort).await.unwrap();
    let vote = writing.vote().await;
    assert!(matches!(vote, Vote::No(ResourceError::Transient { .. })), "{vote:?}");
    let lost = writing.decide(Outcome::Abort).await;
    assert!(matches!(lost, Err(ResourceError::Transient { .. })), "{lost:?}");
    scenario.start();
    assert!(scenario.held().await.is_empty());
    assert!(matches!(
        scenario.jeton.read_decision(attempt(1).request, AttemptNumber::FIRST).await,
        Err(ResourceError::Setup { .. })
    ));
    let other = scenario.begin(5).await;
    assert!(matches!(other.commit_deciding(b"").await, Err(ResourceError::Setup { .. })));
}

/// Many branches are in flight when the server is killed, each in several partitions. A committed branch
/// counts once, an aborted one never.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_committed_branch_counts_once_across_server_kills() {
    const ROUNDS: u32 = 4;
    const BRANCHES: u32 = 24;
    let mut scenario = Scenario::new();
    let mut expected = 0;
    for round in 0..ROUNDS {
        let mut voting = tokio::task::JoinSet::new();
        for number in 0..BRANCHES {
            let mut branch = scenario.begin(1 + round * BRANCHES + number).await;
            voting.spawn(async move {
                for counter in ["a", "b", "c", "d"] {
                    let given = [Value::Text(counter.into()), Value::Integer(1)];
                    branch.execute("ADD default ? ?", &given).await.unwrap();
                }
                (branch.name(), branch.vote().await)
            });
        }
        // Kill the server when some branches have voted and others are in flight.
        let mut voted = Vec::new();
        while voted.len() < (4 + 5 * round) as usize {
            voted.push(voting.join_next().await.unwrap().unwrap());
        }
        scenario.kill();
        while let Some(one) = voting.join_next().await {
            voted.push(one.unwrap());
        }
        scenario.start();
        assert!(voted.iter().any(|(_, vote)| matches!(vote, Vote::Yes)));
        let held = scenario.held().await;
        for (at, (name, vote)) in voted.iter().enumerate() {
            let yes = matches!(vote, Vote::Yes);
            assert!(!yes || held.contains(name), "a prepared branch is lost");
            // Some branches with a yes vote are aborted, as if another participant had voted no.
            let outcome = if yes && at % 3 > 0 { Outcome::Commit } else { Outcome::Abort };
            expected += i64::from(outcome == Outcome::Commit);
            if at == voted.len() / 2 {
                scenario.kill_and_start();
            }
            scenario.jeton.decide(name, outcome).await.unwrap();
        }
        for (at, (name, vote)) in voted.iter().enumerate() {
            let commit = matches!(vote, Vote::Yes) && at % 3 > 0;
            scenario.jeton.decide(name, if commit { Outcome::Commit } else { Outcome::Abort }).await.unwrap();
        }
        assert!(scenario.held().await.is_empty());
        for counter in ["a", "b", "c", "d"] {
            assert_eq!(scenario.value(counter).await, expected, "{counter}");
        }
    }
}
