//! Parses the server's responses. Pure.

use jeton_core::ErrorCode;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::error::{AttemptError, ServerError};
use crate::retry::AttemptResult;

/// The outcome of a transaction. Every retry returns the same outcome.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// The transaction took effect once, in all databases; this is the procedure's result.
    Done(Value),
    /// A guard of the procedure refused it. Nothing takes effect.
    Refused(String),
    /// A statement failed permanently. Nothing takes effect.
    Failed(String),
    /// Every attempt of the servers failed. Nothing takes effect.
    GivenUp(String),
}

impl Outcome {
    /// Whether the transaction took effect.
    pub fn is_done(&self) -> bool {
        matches!(self, Self::Done(_))
    }
}

pub type ParsedResponse = Result<Outcome, AttemptError>;

#[derive(Deserialize)]
struct OutcomeBody<'a> {
    outcome: &'a str,
    #[serde(borrow)]
    result: Option<&'a RawValue>,
    reason: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct ProblemBody {
    #[serde(rename = "type")]
    kind: String,
    title: String,
    detail: String,
}

/// Parses a response, and returns what it means for retries.
pub fn parse(status: u16, body: &[u8]) -> (ParsedResponse, AttemptResult) {
    if status == 200 {
        return match outcome(body) {
            Ok(outcome) => (Ok(outcome), AttemptResult::Answered),
            // Not a Jeton server, or a proxy truncated the body.
            Err(reason) => {
                (Err(AttemptError::UnexpectedReply(reason)), AttemptResult::Busy { may_have_applied: true })
            }
        };
    }
    let ProblemBody { kind, title, detail } = serde_json::from_slice(body).unwrap_or_default();
    let detail =
        [detail, title, format!("the server answered {status}")].into_iter().find(|text| !text.is_empty());
    let code = ErrorCode::from_problem_type(&kind);
    let error = ServerError { status, code, detail: detail.unwrap_or_default() };
    let result = match (status, code) {
        _ if error.is_busy() || status == 429 => AttemptResult::Busy { may_have_applied: false },
        (409, _) | (500.., _) => AttemptResult::Busy { may_have_applied: true },
        (_, Some(ErrorCode::IdMismatch)) => AttemptResult::NeverApplied,
        _ => AttemptResult::Refused { may_have_applied: false },
    };
    (Err(AttemptError::Server(error)), result)
}

fn outcome(body: &[u8]) -> Result<Outcome, String> {
    let body: OutcomeBody<'_> = serde_json::from_slice(body).map_err(|error| error.to_string())?;
    let reason = body.reason.unwrap_or_default();
    match body.outcome {
        "done" => {
            let result = body.result.map_or("null", RawValue::get);
            serde_json::from_str(result).map(Outcome::Done).map_err(|error| error.to_string())
        }
        "refused" => Ok(Outcome::Refused(reason)),
        "failed" => Ok(Outcome::Failed(reason)),
        "given-up" => Ok(Outcome::GivenUp(reason)),
        other => Err(format!("unknown outcome {other:?}")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_outcome_is_parsed() {
        for (body, expected) in [
            (r#"{"id":"x","outcome":"done","result":{"left":60}}"#, Outcome::Done(json!({"left": 60}))),
            (
                r#"{"id":"x","outcome":"refused","reason":"not enough"}"#,
                Outcome::Refused("not enough".into()),
            ),
            (r#"{"id":"x","outcome":"failed","reason":"no table"}"#, Outcome::Failed("no table".into())),
            (r#"{"id":"x","outcome":"given-up","reason":"64"}"#, Outcome::GivenUp("64".into())),
        ] {
            assert_eq!(parse(200, body.as_bytes()), (Ok(expected), AttemptResult::Answered));
        }
    }

    #[test]
    fn other_bodies_are_not_outcomes() {
        for body in ["", "<html>", r#"{"outcome":"perhaps"}"#, r#"{"result":{}}"#] {
            let (response, result) = parse(200, body.as_bytes());
            assert!(matches!(response, Err(AttemptError::UnexpectedReply(_))), "{body}");
            assert_eq!(result, AttemptResult::Busy { may_have_applied: true });
        }
    }

    #[test]
    fn problems_decide_about_retries() {
        let busy = |may_have_applied| AttemptResult::Busy { may_have_applied };
        let refused = AttemptResult::Refused { may_have_applied: false };
        for (status, kind, code, result) in [
            (400, "bad-parameters", Some(ErrorCode::BadParameters), refused),
            (404, "unknown-procedure", Some(ErrorCode::UnknownProcedure), refused),
            (410, "id-expired", Some(ErrorCode::IdExpired), refused),
            (422, "id-mismatch", Some(ErrorCode::IdMismatch), AttemptResult::NeverApplied),
            (401, "unauthorized", Some(ErrorCode::Unauthorized), refused),
            (401, "token-invalid", Some(ErrorCode::TokenInvalid), refused),
            (403, "forbidden", Some(ErrorCode::Forbidden), refused),
            (409, "outcome-unknown", Some(ErrorCode::OutcomeUnknown), busy(true)),
            (429, "throttled", Some(ErrorCode::Throttled), busy(false)),
            (503, "busy", Some(ErrorCode::Busy), busy(false)),
            (503, "closing", Some(ErrorCode::Closing), busy(true)),
            (500, "storage", Some(ErrorCode::Storage), busy(true)),
            (503, "another", None, busy(true)),
        ] {
            let body = json!({"type": format!("/problems/{kind}"), "title": "t", "detail": "d"}).to_string();
            let error = ServerError { status, code, detail: "d".into() };
            assert_eq!(parse(status, body.as_bytes()), (Err(AttemptError::Server(error)), result), "{kind}");
        }
        // A proxy in between does not send problem documents.
        assert_eq!(parse(502, b"<html>Bad Gateway</html>").1, busy(true));
    }
}
