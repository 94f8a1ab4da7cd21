//! Transactions over databases: execute, status, list in doubt, resolve.
//!
//! What must hold: the client creates the id before the first attempt and keeps it for every retry; equal
//! parameters are equal however their JSON is written; and no response of this file reports an outcome that
//! is not decided.

use std::sync::Arc;

use jeton_auth::Right;
use jeton_core::{OpId, units};
use jeton_etx::{AttemptNumber, ProcedureCall, RequestId, SubmitError, TransactionService};
use serde_json::{Map, Value};

use super::error_mapping::SOON;
use super::json;
use super::problem::{ErrorCode, HttpResult, Problem};
use super::request_context::{RequestContext, SMALL_BODY_BYTES_MAX};
use super::transaction_bodies::{
    PeerBody, TransactionOutcome, TransactionResolved, TransactionStatusBody, TransactionsInDoubt,
};

/// The header that marks the first attempt of a client.
const FIRST_TIME: &str = "jeton-first-time";

/// The header with the highest sequence number of the session whose outcomes the client has received.
const ACKNOWLEDGED: &str = "jeton-acknowledged";

/// The prefix of procedures among the tables that rights are granted for.
const RIGHTS: &str = "transaction.";

/// Executes a transaction exactly once.
///
/// Requests with the same id take effect once, whichever server of the cluster they reach, and all of them
/// get the same outcome. A refusal is an outcome too (`outcome: "refused"`) and is stored like any other.
/// Requires the right `add` in `transaction.{procedure}`.
#[utoipa::path(
    post, path = "/v1/transactions/{name}", operation_id = "transact", tag = "transactions",
    request_body(content = Object, description = "The parameters of the procedure."),
    params(
        ("name" = String, Path, description = "The procedure."),
        ("Idempotency-Key" = String, Header, description = "The id, as a string in quotes: a UUID of version 7, \
            optionally followed by a colon and a sequence number: session:7."),
        ("Jeton-First-Time" = Option<bool>, Header, description = "Whether this is the first attempt, which saves a \
            lookup. Omitting it is always correct."),
        ("Jeton-Acknowledged" = Option<u32>, Header, description = "The sequence number of the session up to which \
            the client has received the outcomes: the server deletes them and rejects retries of them."),
    ),
    responses(
        (status = 200, body = TransactionOutcome, description = "The outcome."))
)]
pub async fn post(mut request: RequestContext) -> HttpResult {
    let procedure = request.text_part(2)?;
    request.may(&format!("{RIGHTS}{procedure}"), Right::Add)?;
    request.spend(1)?;
    let id = header_id(&request)?;
    let is_first_time = request.parts.headers.get(FIRST_TIME).is_some_and(|value| value == "true");
    let acknowledged = acknowledged(&request, id)?;
    let parameters: Map<String, Value> = request.json_within(SMALL_BODY_BYTES_MAX).await?;
    // The payload hash covers this normalized text, not the text that the client sent.
    let parameters = serde_json::to_vec(&parameters)
        .map_err(|error| Problem::new(ErrorCode::BadJson, error.to_string()))?;
    let transactions = service(&request)?;
    if let Some(through) = acknowledged {
        let transactions = transactions.clone();
        tokio::spawn(async move {
            if let Err(error) = transactions.acknowledge(id.session, through).await {
                tracing::debug!(%error, "acknowledged outcomes are not deleted yet");
            }
        });
    }
    let call = ProcedureCall { procedure, parameters: parameters.into() };
    let timeout = request.service().options.request_timeout;
    match tokio::time::timeout(timeout, transactions.issue(id, call, is_first_time)).await {
        Ok(outcome) => Ok(json::ok(&TransactionOutcome::new(id, outcome?)?)),
        Err(_) => Err(outcome_unknown("the transaction did not complete within the request timeout")),
    }
}

/// Reports the state of a transaction.
///
/// Requires the right `read` in `transaction.*`.
#[utoipa::path(
    get, path = "/v1/transactions/{name}", operation_id = "readTransaction", tag = "transactions",
    params(("name" = String, Path, description =
        "The id: a UUID of version 7, optionally followed by a colon and a sequence number.")),
    responses(
        (status = 200, body = TransactionStatusBody, description = "The state."))
)]
pub async fn get(request: RequestContext) -> HttpResult {
    request.may(RIGHTS, Right::Read)?;
    request.spend(1)?;
    let id = parse_dated_id(&request.text_part(2)?)?;
    let status = service(&request)?
        .status(id)
        .await
        .map_err(|error| Problem::new(ErrorCode::NotReady, error).retry_in(SOON))?;
    Ok(json::ok(&TransactionStatusBody::new(id, status)?))
}

/// Lists the branches in doubt: prepared branches with their age, decision, coordinator and locks.
///
/// Requires the right to administer the server.
#[utoipa::path(
    get, path = "/v1/transactions", operation_id = "listTransactionsInDoubt", tag = "transactions",
    responses((status = 200, body = TransactionsInDoubt, description = "The branches."))
)]
pub async fn list(request: RequestContext) -> HttpResult {
    request.administer()?;
    let in_doubt = service(&request)?.in_doubt().await;
    Ok(json::ok(&TransactionsInDoubt::from(in_doubt)))
}

/// Resolves a transaction in doubt.
///
/// If an attempt with prepared branches has no decision, the server first decides to abort it. Then it
/// carries out the decision. The databases stay consistent: at worst a coordinator that is still running has
/// to try again. Requires the right to administer the server.
#[utoipa::path(
    post, path = "/v1/transactions/{id}/resolve", operation_id = "resolveTransaction", tag = "transactions",
    params(("id" = String, Path, description = "The id.")),
    responses((status = 200, body = TransactionResolved, description = "The outcome of each branch."))
)]
pub async fn resolve(request: RequestContext) -> HttpResult {
    request.administer()?;
    let id = parse_dated_id(&request.text_part(2)?)?;
    let resolution = service(&request)?.resolve(id).await;
    Ok(json::ok(&TransactionResolved::new(id, resolution)))
}

/// `GET /v1/internal/transactions/{id}/attempts/{n}`: whether this server executes an attempt. Other servers
/// send it.
pub async fn attempt(request: RequestContext) -> HttpResult {
    request.may(RIGHTS, Right::Read)?;
    let id = parse_id(&request.text_part(3)?)?;
    let attempt: u8 = request
        .text_part(5)?
        .parse()
        .map_err(|_| Problem::bad_request("an attempt is a number from 0 to 255"))?;
    let transactions = service(&request)?;
    let executor = transactions.executing(id, AttemptNumber(attempt));
    Ok(json::ok(&PeerBody::new(transactions.identity(), executor)))
}

fn service(request: &RequestContext) -> Result<Arc<dyn TransactionService>, Problem> {
    let transactions = &request.service().transactions;
    match transactions.service() {
        Some(service) => Ok(service.clone()),
        None if transactions.is_configured() => {
            let detail = "databases or registers have not responded since the start; the log names them";
            Err(Problem::new(ErrorCode::NotReady, detail).retry_in(SOON))
        }
        None => {
            let detail = "no databases are configured on this server; its configuration file has [databases] and \
                          [procedures]";
            Err(Problem::new(ErrorCode::NotFound, detail))
        }
    }
}

fn header_id(request: &RequestContext) -> Result<RequestId, Problem> {
    let text = request.idempotency_key()?.ok_or_else(|| {
        let detail =
            "a transaction requires an id: a UUID of version 7 in the header Idempotency-Key, in quotes";
        Problem::new(ErrorCode::IdRequired, detail)
    })?;
    parse_dated_id(&text)
}

fn acknowledged(request: &RequestContext, id: RequestId) -> Result<Option<u32>, Problem> {
    let Some(value) = request.parts.headers.get(ACKNOWLEDGED) else { return Ok(None) };
    let number = value.to_str().ok().and_then(|text| text.parse().ok());
    match number {
        Some(number) if number < id.sequence => Ok(Some(number)),
        _ => Err(Problem::bad_request(
            "Jeton-Acknowledged must be a number below the sequence number of the request",
        )),
    }
}

/// Parses a session with an optional sequence number, which defaults to 0.
fn parse_id(text: &str) -> Result<RequestId, Problem> {
    let (session, sequence) = text.split_once(':').unwrap_or((text, "0"));
    let digits = session.replace('-', "");
    let are_digits = digits.len() == 32 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    let is_uuid =
        |bits: u128| are_digits && (session.len() == 32 || session.eq_ignore_ascii_case(&uuid_text(bits)));
    let session = u128::from_str_radix(&digits, 16).ok().filter(|bits| is_uuid(*bits));
    let is_number = !sequence.is_empty() && sequence.bytes().all(|byte| byte.is_ascii_digit());
    let sequence = sequence.parse().ok().filter(|_| is_number);
    match (session, sequence) {
        (Some(session), Some(sequence)) => Ok(RequestId { session, sequence }),
        _ => Err(Problem::new(
            ErrorCode::IdInvalid,
            "the id of a transaction is a UUID of version 7, optionally followed by a colon and a number up to \
             4294967295",
        )),
    }
}

/// Parses an id and checks that its session is a UUID of version 7, which has a date.
fn parse_dated_id(text: &str) -> Result<RequestId, Problem> {
    let id = parse_id(text)?;
    let (version, variant) = (id.session >> 76 & 0xf, id.session >> 62 & 0b11);
    let found = match (version, variant) {
        (7, 0b10) => return Ok(id),
        (_, 0b10) => format!("a UUID of version {version}"),
        _ => "not a UUID of the variant of RFC 9562".to_owned(),
    };
    let detail = format!("the id is {found}; it must be a UUID of version 7, which has a date");
    Err(Problem::new(ErrorCode::IdInvalid, detail))
}

/// The id in the form that clients send; the sequence number 0 is omitted.
pub fn id_text(id: RequestId) -> String {
    let session = uuid_text(id.session);
    if id.sequence == 0 { session } else { format!("{session}:{}", id.sequence) }
}

fn uuid_text(bits: u128) -> String {
    OpId::Uuid7(bits).to_string()
}

fn outcome_unknown(detail: &str) -> Problem {
    let detail = format!("{detail}; it may still take effect: retry with the same id");
    Problem::new(ErrorCode::OutcomeUnknown, detail).retry_in(SOON)
}

impl From<SubmitError> for Problem {
    fn from(error: SubmitError) -> Self {
        let detail = error.to_string();
        match error {
            SubmitError::Busy => Self::new(ErrorCode::Busy, detail).retry_in(SOON),
            SubmitError::Unknown => Self::new(ErrorCode::UnknownProcedure, detail),
            SubmitError::Invalid(_) => Self::new(ErrorCode::BadParameters, detail),
            SubmitError::Old(window) => {
                Self::new(ErrorCode::IdExpired, detail).with("window", units::format_duration(window))
            }
            SubmitError::FromFuture(_) => Self::new(ErrorCode::IdFromFuture, detail),
            // Two transactions compete for the id, and none has won yet. A retry gets the decision.
            _ => outcome_unknown(&detail),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_round_trip_and_malformed_ids_are_rejected() {
        for text in
            ["01890a5d-ac96-774b-bcce-b302099a8057", "01890a5d-ac96-774b-bcce-b302099a8057:4294967295"]
        {
            assert_eq!(id_text(parse_dated_id(text).unwrap()), text);
        }
        let plain = parse_dated_id("01890a5dac96774bbcceb302099a8057:0").unwrap();
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
            "0189-0a5dac96774bbcce-b302099a-80-57",
            "01890a5dac96774bbcceb302099a8057----",
            "+1890a5dac96774bbcceb302099a8057",
        ] {
            assert!(parse_dated_id(wrong).is_err(), "{wrong}");
        }
        for (wrong, detail) in [
            ("01890a5d-ac96-474b-bcce-b302099a8057", "a UUID of version 4;"),
            ("01890a5d-ac96-774b-3cce-b302099a8057", "not a UUID of the variant"),
        ] {
            assert!(parse_dated_id(wrong).unwrap_err().detail.contains(detail), "{wrong}");
        }
    }
}
