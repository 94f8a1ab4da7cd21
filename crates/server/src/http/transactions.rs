//! Transactions over databases: asking for one, what became of one, which are in doubt, and ending one that is stuck.
//!
//! What must hold: the id is there before the first attempt, and the same for every retry; parameters are the same however their JSON is written; and no answer of this
//! file is an answer to the request unless it was decided.

use axum::body::Body;
use axum::http::{Response, StatusCode};
use jeton_auth::Right;
use jeton_core::units;
use jeton_etx::{
    AttemptNumber, ClientOutcome, CoordinatorId, Decision, DecisionLocation, DecisionLookup, InDoubt,
    InDoubtBranch, Outcome, PeerStatus, ProcedureCall, ProcedureResult, RequestId, ResolvedBranch,
    SubmitError, TransactionService, TransactionStatus, Xid,
};
use serde::Serialize;
use serde_json::{Map, Value, value::RawValue};
use utoipa::ToSchema;

use super::error_mapping::SOON;
use super::problem::{Kind, Problem, ProblemBody};
use super::request_context::RequestContext;
use super::{idempotency_key, json};

/// The header by which a client says that it has never asked before.
const FIRST_TIME: &str = "jeton-first-time";

/// The header by which a client says up to which request of its session it has the answers.
const ACKNOWLEDGED: &str = "jeton-acknowledged";

/// What a table of tokens calls a procedure.
const RIGHTS: &str = "transaction.";

/// What became of a transaction.
#[derive(Debug, Serialize, ToSchema)]
#[schema(example = json!({"id": "01890a5d-ac96-774b-bcce-b302099a8057", "outcome": "done", "result": {"left": 60}}))]
pub struct TransactionOutcome {
    /// The id, as it was given.
    id: String,
    /// "done": it has taken effect, once, everywhere. "refused": a rule of the procedure was broken, "failed": a statement can never work, "given-up": every try
    /// failed; in these cases nothing has taken effect, and nothing will.
    outcome: &'static str,
    /// What the procedure returns, if it is done.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    result: Option<Box<RawValue>>,
    /// Why it was not done, if it was not.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

/// What stands about a transaction.
#[derive(Debug, Serialize, ToSchema)]
pub struct TransactionStatusBody {
    /// The id.
    id: String,
    /// "ended": there is an answer. "under-way": somebody works on it, on this server. "undecided": tries have failed, or nothing is known of it. "forgotten": it is too
    /// old, or was acknowledged.
    state: &'static str,
    /// The answer, if it has ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    answer: Option<TransactionOutcome>,
    /// What was decided about each try.
    tries: Vec<AttemptBody>,
}

/// What was decided about a try.
#[derive(Debug, Serialize, ToSchema)]
pub struct AttemptBody {
    /// Its number, from 1 on.
    number: u8,
    /// "commit" or "abort".
    decision: &'static str,
    /// Where the decision is: "registers", or "database" and its number.
    kept_in: String,
    /// Who did the work, if it counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    executor: Option<String>,
    /// The databases that it is committed in, by number.
    databases: Vec<u8>,
}

/// What is in doubt.
#[derive(Debug, Serialize, ToSchema)]
pub struct TransactionsInDoubt {
    /// Branches that are prepared and hold locks.
    branches: Vec<BranchInDoubt>,
    /// Databases that could not be asked.
    silent: Vec<UnreachableDatabase>,
}

/// A database that could not be asked.
#[derive(Debug, Serialize, ToSchema)]
pub struct UnreachableDatabase {
    /// Its name.
    database: String,
    /// Why not.
    why: String,
}

/// A prepared branch.
#[derive(Debug, Serialize, ToSchema)]
pub struct BranchInDoubt {
    /// The id of the transaction.
    id: String,
    /// The database.
    database: String,
    /// What the database calls it.
    branch: String,
    /// Which try it is of.
    attempt: u8,
    /// For how long it has been prepared, in milliseconds; null if the database does not know.
    age_ms: Option<u64>,
    /// "commit", "abort", "none" as long as nothing is decided, "forgotten", or "unknown".
    decision: &'static str,
    /// Who made it: server, life and work.
    executor: String,
    /// "working", "not-working", "gone", "silent" or "suspected".
    sign: &'static str,
    /// What it keeps others from, as far as the database tells.
    locks: Vec<String>,
}

/// What became of the branches of a transaction that was stuck.
#[derive(Debug, Serialize, ToSchema)]
pub struct TransactionResolved {
    /// The id.
    id: String,
    /// Its branches that were prepared.
    branches: Vec<BranchResolved>,
}

/// What became of a branch.
#[derive(Debug, Serialize, ToSchema)]
pub struct BranchResolved {
    /// The database.
    database: String,
    /// What the database calls it.
    branch: String,
    /// "commit", "abort" or "open".
    ended: &'static str,
    /// Why it is still open, if it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
}

/// Does a transaction, exactly once.
///
/// However often the same id comes, to whichever server of the cluster, it takes effect once, and every answer is the same. A refusal is an answer too
/// (`outcome: "refused"`), and is remembered like any other. Needs the right `add` in `transaction.{procedure}`.
#[utoipa::path(
    post, path = "/v1/transactions/{name}", operation_id = "transact", tag = "transactions",
    request_body(content = Object, description = "The parameters of the procedure."),
    params(
        ("name" = String, Path, description = "The procedure."),
        ("Idempotency-Key" = String, Header, description = "The id, as a string in quotes: a UUID of version 7, which may be followed by a colon and a number: session:7."),
        ("Jeton-First-Time" = Option<bool>, Header, description = "Whether this is the first attempt, which saves a look. It is never wrong to leave it out."),
        ("Jeton-Acknowledged" = Option<u32>, Header, description = "Up to which number of its session the client has the answers: they are forgotten, and refused from then on."),
    ),
    responses(
        (status = 200, body = TransactionOutcome, description = "What became of it."),
        (status = 400, body = ProblemBody, content_type = "application/problem+json", description = "id-required, id-invalid, id-from-future, bad-json, bad-parameters: mend it, keep the id."),
        (status = 404, body = ProblemBody, content_type = "application/problem+json", description = "unknown-procedure."),
        (status = 409, body = ProblemBody, content_type = "application/problem+json", description = "no-answer-yet: ask again with the same id."),
        (status = 410, body = ProblemBody, content_type = "application/problem+json", description = "id-expired: whether it took effect is not known any more."),
        (status = 422, body = ProblemBody, content_type = "application/problem+json", description = "id-mismatch: the id was used for something else."),
        (status = 503, body = ProblemBody, content_type = "application/problem+json", description = "busy, not-ready."))
)]
pub async fn post(mut asked: RequestContext) -> Result<Response<Body>, Problem> {
    let procedure = asked.text_part(2)?;
    asked.may(&format!("{RIGHTS}{procedure}"), Right::Add)?;
    asked.spend(1)?;
    let id = wanted_id(&asked)?;
    let is_first_time = asked.parts.headers.get(FIRST_TIME).is_some_and(|value| value == "true");
    let acknowledged = acknowledged(&asked, id)?;
    let parameters: Map<String, Value> = asked.json().await?;
    // Written anew: however a client writes the same parameters, they are the same.
    let parameters =
        serde_json::to_vec(&parameters).map_err(|why| Problem::new(Kind::BadJson, why.to_string()))?;
    let desk = desk(&asked)?;
    if let Some(through) = acknowledged {
        let desk = desk.clone();
        tokio::spawn(async move {
            if let Err(why) = desk.acknowledge(id.session, through).await {
                tracing::debug!(%why, "what a client acknowledged is not forgotten yet");
            }
        });
    }
    let request = ProcedureCall { procedure, parameters: parameters.into() };
    let request_timeout = asked.service().options.request_timeout;
    match tokio::time::timeout(request_timeout, desk.issue(id, request, is_first_time)).await {
        Ok(ending) => Ok(json::response(StatusCode::OK, &outcome(id, ending?)?)),
        Err(_) => Err(no_answer("there was no answer within the time allowed")),
    }
}

/// What stands about a transaction.
///
/// Needs the right `read` in `transaction.*`.
#[utoipa::path(
    get, path = "/v1/transactions/{name}", operation_id = "readTransaction", tag = "transactions",
    params(("name" = String, Path, description = "The id: a UUID of version 7, which may be followed by a colon and a number.")),
    responses((status = 200, body = TransactionStatusBody, description = "What stands."),
        (status = 400, body = ProblemBody, content_type = "application/problem+json", description = "id-invalid."),
        (status = 503, body = ProblemBody, content_type = "application/problem+json", description = "busy: registers or databases do not answer."))
)]
pub async fn get(asked: RequestContext) -> Result<Response<Body>, Problem> {
    asked.may(RIGHTS, Right::Read)?;
    asked.spend(1)?;
    let id = read_id(&asked.text_part(2)?)?;
    let story =
        desk(&asked)?.status(id).await.map_err(|why| Problem::new(Kind::Busy, why).again_after(SOON))?;
    Ok(json::response(StatusCode::OK, &told(id, story)?))
}

/// Lists what is in doubt: branches that are prepared in a database, with their age, what is decided, who made them and what they lock.
///
/// Needs the right to administer the server.
#[utoipa::path(
    get, path = "/v1/transactions", operation_id = "listTransactionsInDoubt", tag = "transactions",
    responses((status = 200, body = TransactionsInDoubt, description = "The branches."))
)]
pub async fn list(asked: RequestContext) -> Result<Response<Body>, Problem> {
    administer(&asked)?;
    let InDoubt { branches, unreachable } = desk(&asked)?.in_doubt().await;
    let branches = branches.into_iter().map(BranchInDoubt::from).collect();
    let silent =
        unreachable.into_iter().map(|(database, why)| UnreachableDatabase { database, why }).collect();
    Ok(json::response(StatusCode::OK, &TransactionsInDoubt { branches, silent }))
}

/// Ends a transaction that is stuck.
///
/// If nothing is decided about a try with prepared branches, it is first written that it is void; then what is decided is carried out. So databases never come to
/// differ by this: the worst it does is to make somebody who is still at work try again. Needs the right to administer the server.
#[utoipa::path(
    post, path = "/v1/transactions/{id}/resolve", operation_id = "resolveTransaction", tag = "transactions",
    params(("id" = String, Path, description = "The id.")),
    responses((status = 200, body = TransactionResolved, description = "What became of its branches."))
)]
pub async fn resolve(asked: RequestContext) -> Result<Response<Body>, Problem> {
    administer(&asked)?;
    let id = read_id(&asked.text_part(2)?)?;
    let resolved = desk(&asked)?.resolve(id).await;
    let branches = resolved.into_iter().map(BranchResolved::from).collect();
    Ok(json::response(StatusCode::OK, &TransactionResolved { id: id_text(id), branches }))
}

/// `GET /v1/works/{id}/{try}`: who works here on a try. Asked by the other servers.
pub async fn works(asked: RequestContext) -> Result<Response<Body>, Problem> {
    #[derive(Serialize)]
    struct Works {
        server: u16,
        incarnation: String,
        work: Option<String>,
    }
    asked.may(RIGHTS, Right::Read)?;
    let id = read_undated(&asked.text_part(2)?)?;
    let attempt: u8 =
        asked.text_part(3)?.parse().map_err(|_| Problem::new(Kind::BadRequest, "a try is a number"))?;
    let desk = desk(&asked)?;
    let (server, incarnation) = desk.identity();
    let work =
        desk.executing(id, AttemptNumber(attempt)).map(|coordinator| format!("{:x}", coordinator.work));
    Ok(json::response(StatusCode::OK, &Works { server, incarnation: format!("{incarnation:x}"), work }))
}

fn administer(asked: &RequestContext) -> Result<(), Problem> {
    asked.may_administer()?;
    asked.spend(1)
}

fn desk(asked: &RequestContext) -> Result<std::sync::Arc<dyn TransactionService>, Problem> {
    let transactions = &asked.service().transactions;
    match transactions.desk() {
        Some(desk) => Ok(desk.clone()),
        None if transactions.is_wanted() => {
            let detail = "databases or registers have not answered since the start; the log says which";
            Err(Problem::new(Kind::NotReady, detail).again_after(SOON))
        }
        None => {
            let detail = "no databases are set up on this server: [databases] and [procedures] in its configuration file";
            Err(Problem::new(Kind::NotFound, detail))
        }
    }
}

fn wanted_id(asked: &RequestContext) -> Result<RequestId, Problem> {
    let text = idempotency_key::read(&asked.parts.headers).map_err(|why| {
        Problem::new(Kind::IdInvalid, format!("the header Idempotency-Key cannot be read: {why}"))
    })?;
    let text = text.ok_or_else(|| {
        Problem::new(
            Kind::IdRequired,
            "a transaction has an id: a UUID of version 7 in the header Idempotency-Key, in quotes",
        )
    })?;
    read_id(&text)
}

fn acknowledged(asked: &RequestContext, id: RequestId) -> Result<Option<u32>, Problem> {
    let Some(value) = asked.parts.headers.get(ACKNOWLEDGED) else { return Ok(None) };
    let number = value.to_str().ok().and_then(|text| text.parse().ok());
    match number {
        Some(number) if number < id.sequence => Ok(Some(number)),
        _ => Err(Problem::new(Kind::BadRequest, "Jeton-Acknowledged is a number below that of the request")),
    }
}

/// A session with a number; without one it is the first.
fn read_undated(text: &str) -> Result<RequestId, Problem> {
    let (session, sequence) = text.split_once(':').unwrap_or((text, "0"));
    let digits: String = session.chars().filter(|letter| *letter != '-').collect();
    let are_digits = digits.len() == 32 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    let is_plain = are_digits && (session.len() == 32 || session.len() == 36);
    let session = u128::from_str_radix(&digits, 16).ok().filter(|_| is_plain);
    let is_number = !sequence.is_empty() && sequence.bytes().all(|byte| byte.is_ascii_digit());
    let sequence = sequence.parse().ok().filter(|_| is_number);
    match (session, sequence) {
        (Some(session), Some(sequence)) => Ok(RequestId { session, sequence }),
        _ => Err(Problem::new(
            Kind::IdInvalid,
            "the id of a transaction is a UUID of version 7, which may be followed by a colon and a number up to 4294967295",
        )),
    }
}

fn read_id(text: &str) -> Result<RequestId, Problem> {
    let id = read_undated(text)?;
    let (version, variant) = (id.session >> 76 & 0xf, id.session >> 62 & 0b11);
    if (version, variant) != (7, 0b10) {
        let detail =
            format!("the id is a UUID of version {version}; it must be one of version 7, which has a date");
        return Err(Problem::new(Kind::IdInvalid, detail));
    }
    Ok(id)
}

/// As clients write it.
fn id_text(id: RequestId) -> String {
    let digits = format!("{:032x}", id.session);
    let parts = [&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..]].join("-");
    if id.sequence == 0 { parts } else { format!("{parts}:{}", id.sequence) }
}

fn no_answer(detail: &str) -> Problem {
    let detail = format!("{detail}; whether it takes effect is not known here: ask again with the same id");
    Problem::new(Kind::NoAnswerYet, detail).again_after(SOON)
}

impl From<SubmitError> for Problem {
    fn from(refusal: SubmitError) -> Self {
        let detail = refusal.to_string();
        match refusal {
            SubmitError::Busy => Self::new(Kind::Busy, detail).again_after(SOON),
            SubmitError::Unknown => Self::new(Kind::UnknownProcedure, detail),
            SubmitError::Invalid(_) => Self::new(Kind::BadParameters, detail),
            SubmitError::Old(window) => {
                Self::new(Kind::IdExpired, detail).with("window", units::format_duration(window))
            }
            SubmitError::FromFuture(_) => Self::new(Kind::IdFromFuture, detail),
            // Which of the two the id will stand for is not decided yet. Whoever asks again is told.
            _ => no_answer(&detail),
        }
    }
}

fn outcome(id: RequestId, ending: ClientOutcome) -> Result<TransactionOutcome, Problem> {
    let id = id_text(id);
    let not_done = |id, outcome, reason: &[u8]| {
        let reason = Some(String::from_utf8_lossy(reason).into_owned());
        TransactionOutcome { id, outcome, result: None, reason }
    };
    match ending {
        ClientOutcome::Answer(ProcedureResult::Done(body)) => {
            let result = serde_json::from_slice(&body).map_err(|why| {
                Problem::new(Kind::Storage, format!("it is done, and its answer is no JSON: {why}"))
            })?;
            Ok(TransactionOutcome { id, outcome: "done", result: Some(result), reason: None })
        }
        ClientOutcome::Answer(ProcedureResult::Refused(body)) => Ok(not_done(id, "refused", &body)),
        ClientOutcome::Answer(ProcedureResult::Failed(body)) => Ok(not_done(id, "failed", &body)),
        ClientOutcome::GivenUp => {
            Ok(not_done(id, "given-up", b"every try failed; the log of the server says why"))
        }
        ClientOutcome::Mismatch => Err(Problem::new(
            Kind::IdMismatch,
            "the id was used for another transaction, and that one has its answer",
        )),
        ClientOutcome::NoRoom => Err(Problem::new(
            Kind::Full,
            "the registers have no room for more decisions; nothing was done, ask again with the same id when there is room",
        )),
        ClientOutcome::Forgotten => Err(Problem::new(
            Kind::IdExpired,
            "what became of this transaction is forgotten: it was acknowledged, or is older than the window; it is not done now",
        )),
    }
}

fn told(id: RequestId, story: TransactionStatus) -> Result<TransactionStatusBody, Problem> {
    let TransactionStatus { attempts: tries, coordinator: at_work, is_forgotten } = story;
    let mut answer = None;
    let mut told = Vec::new();
    for (home, AttemptNumber(number), decision) in tries {
        let kept_in = match home {
            DecisionLocation::Registers => "registers".to_owned(),
            DecisionLocation::Resource(database) => format!("database {database}"),
        };
        told.push(match decision {
            Decision::Abort => {
                AttemptBody { number, decision: "abort", kept_in, executor: None, databases: Vec::new() }
            }
            Decision::Commit(commit) => {
                answer = Some(outcome(id, ClientOutcome::Answer(commit.answer))?);
                let databases = commit.branches.iter().map(|branch| branch.resource).collect();
                AttemptBody {
                    number,
                    decision: "commit",
                    kept_in,
                    executor: Some(executor_text(commit.coordinator)),
                    databases,
                }
            }
        });
    }
    let state = match (&answer, at_work, is_forgotten) {
        (Some(_), ..) => "ended",
        (None, Some(_), _) => "under-way",
        (None, None, true) => "forgotten",
        (None, None, false) => "undecided",
    };
    Ok(TransactionStatusBody { id: id_text(id), state, answer, tries: told })
}

fn executor_text(executor: CoordinatorId) -> String {
    let CoordinatorId { server, incarnation, work } = executor;
    format!("server {server}, life {incarnation:x}, work {work}")
}

impl From<InDoubtBranch> for BranchInDoubt {
    fn from(doubt: InDoubtBranch) -> Self {
        let Xid { request, attempt, coordinator, .. } = doubt.branch;
        let decision = match &doubt.decision {
            Ok(DecisionLookup::Recorded(None)) => "none",
            Ok(DecisionLookup::Recorded(Some(decision))) => outcome_text(decision.outcome(&doubt.branch)),
            Ok(DecisionLookup::Forgotten) => "forgotten",
            Err(_) => "unknown",
        };
        let sign = match doubt.coordinator_status {
            PeerStatus::Working => "working",
            PeerStatus::NotWorking => "not-working",
            PeerStatus::Restarted => "gone",
            PeerStatus::Unreachable => "silent",
            PeerStatus::Suspected => "suspected",
        };
        Self {
            id: id_text(request),
            database: doubt.database,
            branch: doubt.branch.gid(),
            attempt: attempt.0,
            age_ms: doubt.age.map(|age| u64::try_from(age.as_millis()).unwrap_or(u64::MAX)),
            decision,
            executor: executor_text(coordinator),
            sign,
            locks: doubt.locks,
        }
    }
}

impl From<ResolvedBranch> for BranchResolved {
    fn from(resolved: ResolvedBranch) -> Self {
        let (ended, why) = match resolved.outcome {
            Ok(outcome) => (outcome_text(outcome), None),
            Err(why) => ("open", Some(why)),
        };
        Self { database: resolved.database, branch: resolved.branch.gid(), ended, why }
    }
}

fn outcome_text(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Commit => "commit",
        Outcome::Abort => "abort",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_read_as_they_are_written() {
        for text in
            ["01890a5d-ac96-774b-bcce-b302099a8057", "01890a5d-ac96-774b-bcce-b302099a8057:4294967295"]
        {
            assert_eq!(id_text(read_id(text).unwrap()), text);
        }
        let plain = read_id("01890a5dac96774bbcceb302099a8057:0").unwrap();
        assert_eq!(id_text(plain), "01890a5d-ac96-774b-bcce-b302099a8057");
        for wrong in [
            "",
            "7",
            "01890a5d-ac96-474b-bcce-b302099a8057",
            "01890a5d-ac96-774b-3cce-b302099a8057",
            "01890a5d-ac96-774b-bcce-b302099a8057:",
            "01890a5d-ac96-774b-bcce-b302099a8057:4294967296",
            "01890a5d-ac96-774b-bcce-b302099a8057:+1",
            "0189-0a5dac96774bbcceb302099a8057",
            "+1890a5dac96774bbcceb302099a8057",
        ] {
            assert!(read_id(wrong).is_err(), "{wrong}");
        }
    }
}
