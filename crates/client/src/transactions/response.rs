//! What a server answers, and what that means. Pure.

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::error::{AttemptError, Problem, ServerError};
use super::retry::AttemptResult;

/// What became of a transaction. Whoever asks, and however often, is told the same.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// It has taken effect, once, in all databases; this is what the procedure returns.
    Done(Value),
    /// A rule of the procedure was broken. Nothing has taken effect, and nothing will.
    Refused(String),
    /// A statement can never work. Nothing has taken effect, and nothing will.
    Failed(String),
    /// Every try failed. Nothing has taken effect, and nothing will.
    GivenUp(String),
}

impl Outcome {
    /// Whether it has taken effect.
    pub fn is_done(&self) -> bool {
        matches!(self, Self::Done(_))
    }
}

/// An answer that was read.
#[derive(Debug, Clone, PartialEq)]
pub enum ParsedResponse {
    /// The answer to the transaction.
    Outcome(Outcome),
    /// None, and why.
    Failure(AttemptError),
}

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

/// What an answer says, and what it means for the course.
pub fn read(status: u16, body: &[u8]) -> (ParsedResponse, AttemptResult) {
    if status == 200 {
        return match outcome(body) {
            Ok(outcome) => (ParsedResponse::Outcome(outcome), AttemptResult::Answered),
            // Not from one of our servers, or cut by something in between.
            Err(why) => (
                ParsedResponse::Failure(AttemptError::Nonsense(why)),
                AttemptResult::Busy { may_have_applied: true },
            ),
        };
    }
    let ProblemBody { kind, title, detail } = serde_json::from_slice(body).unwrap_or_default();
    let problem = match kind.rsplit('/').next().unwrap_or_default() {
        "bad-parameters" => Problem::BadParameters,
        "unknown-procedure" => Problem::UnknownProcedure,
        "id-invalid" | "id-required" => Problem::IdInvalid,
        "id-from-future" => Problem::IdFromFuture,
        "id-expired" => Problem::IdExpired,
        "id-mismatch" => Problem::IdMismatch,
        "unauthorized" => Problem::Unauthorized,
        "forbidden" => Problem::Forbidden,
        "no-answer-yet" => Problem::NoAnswerYet,
        "busy" | "not-ready" | "full" | "throttled" => Problem::Busy,
        other => Problem::Other(other.into()),
    };
    let detail =
        [detail, title, format!("the server answered {status}")].into_iter().find(|text| !text.is_empty());
    let said = ServerError { status, problem, detail: detail.unwrap_or_default() };
    let report = match (status, &said.problem) {
        (_, Problem::Busy) | (429, _) => AttemptResult::Busy { may_have_applied: false },
        (409, _) | (500.., _) => AttemptResult::Busy { may_have_applied: true },
        _ => AttemptResult::Refused,
    };
    (ParsedResponse::Failure(AttemptError::Said(said)), report)
}

fn outcome(body: &[u8]) -> Result<Outcome, String> {
    let body: OutcomeBody<'_> = serde_json::from_slice(body).map_err(|why| why.to_string())?;
    let reason = body.reason.unwrap_or_default();
    match body.outcome {
        "done" => {
            let result = body.result.map_or("null", RawValue::get);
            serde_json::from_str(result).map(Outcome::Done).map_err(|why| why.to_string())
        }
        "refused" => Ok(Outcome::Refused(reason)),
        "failed" => Ok(Outcome::Failed(reason)),
        "given-up" => Ok(Outcome::GivenUp(reason)),
        other => Err(format!("an outcome {other:?}")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn outcomes_are_read() {
        for (body, expected) in [
            (r#"{"id":"x","outcome":"done","result":{"left":60}}"#, Outcome::Done(json!({"left": 60}))),
            (
                r#"{"id":"x","outcome":"refused","reason":"not enough"}"#,
                Outcome::Refused("not enough".into()),
            ),
            (r#"{"id":"x","outcome":"failed","reason":"no table"}"#, Outcome::Failed("no table".into())),
            (r#"{"id":"x","outcome":"given-up","reason":"64"}"#, Outcome::GivenUp("64".into())),
        ] {
            assert_eq!(
                read(200, body.as_bytes()),
                (ParsedResponse::Outcome(expected), AttemptResult::Answered)
            );
        }
    }

    #[test]
    fn nothing_else_is_taken_for_an_outcome() {
        for body in ["", "<html>", r#"{"outcome":"perhaps"}"#, r#"{"result":{}}"#] {
            let (read, report) = read(200, body.as_bytes());
            assert!(matches!(read, ParsedResponse::Failure(AttemptError::Nonsense(_))), "{body}");
            assert_eq!(report, AttemptResult::Busy { may_have_applied: true });
        }
    }

    #[test]
    fn problems_are_weighed() {
        let later = |may_have_applied| AttemptResult::Busy { may_have_applied };
        for (status, kind, problem, report) in [
            (400, "bad-parameters", Problem::BadParameters, AttemptResult::Refused),
            (404, "unknown-procedure", Problem::UnknownProcedure, AttemptResult::Refused),
            (410, "id-expired", Problem::IdExpired, AttemptResult::Refused),
            (422, "id-mismatch", Problem::IdMismatch, AttemptResult::Refused),
            (403, "forbidden", Problem::Forbidden, AttemptResult::Refused),
            (409, "no-answer-yet", Problem::NoAnswerYet, later(true)),
            (429, "throttled", Problem::Busy, later(false)),
            (503, "busy", Problem::Busy, later(false)),
            (503, "closing", Problem::Other("closing".into()), later(true)),
            (500, "storage", Problem::Other("storage".into()), later(true)),
        ] {
            let body = json!({"type": format!("/problems/{kind}"), "title": "t", "detail": "d"}).to_string();
            let said = ServerError { status, problem, detail: "d".into() };
            assert_eq!(
                read(status, body.as_bytes()),
                (ParsedResponse::Failure(AttemptError::Said(said)), report),
                "{kind}"
            );
        }
        // Something between here and the server has no words of ours.
        assert_eq!(read(502, b"<html>Bad Gateway</html>").1, later(true));
    }
}
