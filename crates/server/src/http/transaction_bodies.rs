//! The JSON of responses about transactions.

use jeton_etx::{
    AttemptNumber, ClientOutcome, CoordinatorId, Decision, DecisionLocation, DecisionLookup, InDoubt,
    InDoubtBranch, Outcome, PeerStatus, ProcedureResult, RequestId, Resolution, ResolvedBranch,
    TransactionStatus, Xid,
};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::error_mapping::{LATER, SOON};
use super::problem::{ErrorCode, Problem};
use super::transactions::id_text;

#[derive(Debug, Serialize, ToSchema)]
#[schema(example = json!({
    "id": "01890a5d-ac96-774b-bcce-b302099a8057", "outcome": "done", "result": {"left": 60}
}))]
pub struct TransactionOutcome {
    id: String,
    /// "done": the transaction has taken effect once in every database. "refused": a guard of the procedure
    /// failed. "failed": a statement can never succeed. "given-up": every attempt failed. Except for "done",
    /// nothing has taken effect and nothing will.
    outcome: &'static str,
    /// The result of the procedure, if the outcome is "done".
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    result: Option<Box<RawValue>>,
    /// The reason, if the outcome is not "done".
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

impl TransactionOutcome {
    /// The outcome of a transaction, or the problem of a request without one.
    pub fn new(id: RequestId, outcome: ClientOutcome) -> Result<Self, Problem> {
        let id = id_text(id);
        let not_done = |id, outcome, reason: &[u8]| {
            let reason = Some(String::from_utf8_lossy(reason).into_owned());
            Self { id, outcome, result: None, reason }
        };
        match outcome {
            ClientOutcome::Answer(ProcedureResult::Done(body)) => {
                let result = serde_json::from_slice(&body).map_err(|error| {
                    let detail =
                        format!("the transaction is done, but its stored result is not JSON: {error}");
                    Problem::new(ErrorCode::Storage, detail)
                })?;
                Ok(Self { id, outcome: "done", result: Some(result), reason: None })
            }
            ClientOutcome::Answer(ProcedureResult::Refused(body)) => Ok(not_done(id, "refused", &body)),
            ClientOutcome::Answer(ProcedureResult::Failed(body)) => Ok(not_done(id, "failed", &body)),
            ClientOutcome::GivenUp => {
                Ok(not_done(id, "given-up", b"every attempt failed; the log of the server has the reasons"))
            }
            ClientOutcome::Mismatch => Err(Problem::new(
                ErrorCode::IdMismatch,
                "the id was used for another transaction, which has an outcome",
            )),
            ClientOutcome::NoRoom => Err(Problem::new(
                ErrorCode::Full,
                "the registers have no room for more decisions; nothing was done; retry with the same id later",
            )
            .retry_in(LATER)),
            ClientOutcome::Unavailable => Err(Problem::new(
                ErrorCode::NotReady,
                "a database of the transaction, or its decision store, is unavailable; the log of the server names it; \
                 nothing was done; retry with the same id",
            )
            .retry_in(SOON)),
            ClientOutcome::Forgotten => Err(Problem::new(
                ErrorCode::IdExpired,
                "the outcome of this transaction was deleted, because it was acknowledged or is older than the \
                 window; the transaction does not run now",
            )),
        }
    }
}

#[derive(Debug, Serialize, ToSchema)]
pub struct TransactionStatusBody {
    id: String,
    /// "ended": the transaction has an outcome. "running": this server executes it. "undecided": attempts
    /// have failed, or this server knows nothing of it. "forgotten": it is older than the window, or was
    /// acknowledged.
    state: &'static str,
    /// The outcome, if the transaction has ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    answer: Option<TransactionOutcome>,
    tries: Vec<AttemptBody>,
}

impl TransactionStatusBody {
    /// The state of a transaction, or the problem of a stored result that cannot be read.
    pub fn new(id: RequestId, status: TransactionStatus) -> Result<Self, Problem> {
        let TransactionStatus { attempts: decided, coordinator, is_forgotten } = status;
        let mut answer = None;
        let mut attempts = Vec::new();
        for (location, AttemptNumber(number), decision) in decided {
            let decision_store = match location {
                DecisionLocation::Registers => "registers".to_owned(),
                DecisionLocation::Resource(database) => format!("database {database}"),
            };
            let (decision, executor, databases) = match decision {
                Decision::Abort => ("abort", None, Vec::new()),
                Decision::Commit(commit) => {
                    answer = Some(TransactionOutcome::new(id, ClientOutcome::Answer(commit.answer))?);
                    let databases = commit.branches.iter().map(|branch| branch.resource).collect();
                    ("commit", Some(coordinator_text(commit.coordinator)), databases)
                }
            };
            attempts.push(AttemptBody { number, decision, decision_store, executor, databases });
        }
        let state = match (&answer, coordinator, is_forgotten) {
            (Some(_), ..) => "ended",
            (None, Some(_), _) => "running",
            (None, None, true) => "forgotten",
            (None, None, false) => "undecided",
        };
        Ok(Self { id: id_text(id), state, answer, tries: attempts })
    }
}

#[derive(Debug, Serialize, ToSchema)]
pub struct AttemptBody {
    /// The number of the attempt, starting at 1.
    number: u8,
    /// "commit" or "abort".
    decision: &'static str,
    /// Where the decision is stored: "registers", or "database" and its number.
    decision_store: String,
    /// The coordinator of a committed attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    executor: Option<String>,
    /// The numbers of the databases in which the attempt is committed.
    databases: Vec<u8>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct TransactionsInDoubt {
    /// Branches that are prepared and hold locks.
    branches: Vec<BranchInDoubt>,
    /// Databases that did not respond.
    unreachable: Vec<UnreachableDatabase>,
}

impl From<InDoubt> for TransactionsInDoubt {
    fn from(InDoubt { branches, unreachable }: InDoubt) -> Self {
        let branches = branches.into_iter().map(BranchInDoubt::from).collect();
        Self { branches, unreachable: UnreachableDatabase::list(unreachable) }
    }
}

#[derive(Debug, Serialize, ToSchema)]
pub struct UnreachableDatabase {
    database: String,
    why: String,
}

impl UnreachableDatabase {
    fn list(found: Vec<(String, String)>) -> Vec<Self> {
        found.into_iter().map(|(database, why)| Self { database, why }).collect()
    }
}

#[derive(Debug, Serialize, ToSchema)]
pub struct BranchInDoubt {
    id: String,
    database: String,
    /// The name of the branch in the database.
    branch: String,
    attempt: u8,
    /// How long the branch has been prepared, in milliseconds; null if the database does not record it.
    age_ms: Option<u64>,
    /// "commit", "abort", "none" while nothing is decided, "forgotten", or "unknown".
    decision: &'static str,
    /// The coordinator that prepared the branch: server, incarnation and work number.
    executor: String,
    /// "working", "not-working", "gone", "unreachable" or "suspected".
    coordinator_status: &'static str,
    /// The locks of the branch, as far as the database reports them.
    locks: Vec<String>,
}

impl From<InDoubtBranch> for BranchInDoubt {
    fn from(found: InDoubtBranch) -> Self {
        let Xid { request, attempt, coordinator, .. } = found.branch;
        let decision = match &found.decision {
            Ok(DecisionLookup::Recorded(None)) => "none",
            Ok(DecisionLookup::Recorded(Some(decision))) => outcome_text(decision.outcome(&found.branch)),
            Ok(DecisionLookup::Forgotten) => "forgotten",
            Err(_) => "unknown",
        };
        let coordinator_status = match found.coordinator_status {
            PeerStatus::Working => "working",
            PeerStatus::NotWorking => "not-working",
            PeerStatus::Restarted => "gone",
            PeerStatus::Unreachable => "unreachable",
            PeerStatus::Suspected => "suspected",
        };
        Self {
            id: id_text(request),
            database: found.database,
            branch: found.branch.gid(),
            attempt: attempt.0,
            age_ms: found.age.map(|age| u64::try_from(age.as_millis()).unwrap_or(u64::MAX)),
            decision,
            executor: coordinator_text(coordinator),
            coordinator_status,
            locks: found.locks,
        }
    }
}

#[derive(Debug, Serialize, ToSchema)]
pub struct TransactionResolved {
    id: String,
    /// The branches that were prepared.
    branches: Vec<BranchResolved>,
    /// Databases that did not respond: they may have more prepared branches.
    unreachable: Vec<UnreachableDatabase>,
}

impl TransactionResolved {
    pub fn new(id: RequestId, Resolution { branches, unreachable }: Resolution) -> Self {
        let branches = branches.into_iter().map(BranchResolved::from).collect();
        Self { id: id_text(id), branches, unreachable: UnreachableDatabase::list(unreachable) }
    }
}

#[derive(Debug, Serialize, ToSchema)]
pub struct BranchResolved {
    database: String,
    /// The name of the branch in the database.
    branch: String,
    /// "commit", "abort" or "pending".
    outcome: &'static str,
    /// The reason, if the outcome is "pending".
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
}

impl From<ResolvedBranch> for BranchResolved {
    fn from(resolved: ResolvedBranch) -> Self {
        let (outcome, why) = match resolved.outcome {
            Ok(outcome) => (outcome_text(outcome), None),
            Err(why) => ("pending", Some(why)),
        };
        Self { database: resolved.database, branch: resolved.branch.gid(), outcome, why }
    }
}

/// The status that a server reports about itself to the failure detectors of the other servers.
#[derive(Debug, Serialize, Deserialize)]
pub struct PeerBody {
    /// The number of the server.
    pub server: u16,
    /// In hexadecimal.
    incarnation: String,
    /// The work number of the attempt in hexadecimal, if the server executes it.
    work: Option<String>,
}

impl PeerBody {
    pub fn new((server, incarnation): (u16, u64), executor: Option<CoordinatorId>) -> Self {
        let work = executor.map(|executor| format!("{:x}", executor.work));
        Self { server, incarnation: format!("{incarnation:x}"), work }
    }

    pub fn incarnation(&self) -> Option<u64> {
        u64::from_str_radix(&self.incarnation, 16).ok()
    }

    /// The coordinator of the attempt, if the server executes it.
    pub fn coordinator(&self) -> Option<CoordinatorId> {
        let work = u64::from_str_radix(self.work.as_deref()?, 16).ok()?;
        Some(CoordinatorId { server: self.server, incarnation: self.incarnation()?, work })
    }
}

fn coordinator_text(coordinator: CoordinatorId) -> String {
    let CoordinatorId { server, incarnation, work } = coordinator;
    format!("server {server}, incarnation {incarnation:x}, work {work}")
}

fn outcome_text(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Commit => "commit",
        Outcome::Abort => "abort",
    }
}
