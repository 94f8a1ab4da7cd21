//! Problem details of RFC 9457: the body of every error response.

use std::time::Duration;

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde_json::{Map, Value};

pub use jeton_core::ErrorCode;

/// Maximum bytes of a detail. It may quote a part of the request, which may be long.
const DETAIL_BYTES_MAX: usize = 1 << 10;

pub type HttpResult = Result<Response, Problem>;

#[derive(Debug, Clone)]
pub struct Problem {
    pub code: ErrorCode,
    /// The cause of this occurrence, for people.
    pub detail: String,
    /// The further members of the body, for programs.
    pub extra: Map<String, Value>,
    pub retry_after: Option<Duration>,
    challenge: Option<&'static str>,
}

/// An error. Some errors have further members.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(title = "Problem", example = json!({
    "type": "/problems/id-expired", "title": "The id is older than the table's window", "status": 410,
    "detail": "the id is older than the window of 86400s",
    "server_time": "2026-11-16T07:40:12.000Z", "window": "24h"
}))]
pub struct ProblemBody {
    /// The path of a page about this error, on this server.
    #[serde(rename = "type")]
    problem_type: String,
    /// One line that describes the error.
    title: &'static str,
    /// The status of the response; in a list of outcomes, the status of this item.
    status: u16,
    /// The cause of this occurrence and what to do about it.
    detail: String,
    #[serde(flatten)]
    #[schema(ignore)]
    extra: Map<String, Value>,
}

impl Problem {
    pub fn new(code: ErrorCode, detail: impl Into<String>) -> Self {
        let mut detail = detail.into();
        if detail.len() > DETAIL_BYTES_MAX {
            let end = (0..=DETAIL_BYTES_MAX).rev().find(|at| detail.is_char_boundary(*at));
            detail.truncate(end.unwrap_or(0));
            detail.push('…');
            detail.shrink_to_fit();
        }
        Self { code, detail, extra: Map::new(), retry_after: None, challenge: None }
    }

    pub fn bad_request(detail: impl Into<String>) -> Self {
        Self::new(ErrorCode::BadRequest, detail)
    }

    pub fn bad_json(detail: impl Into<String>) -> Self {
        Self::new(ErrorCode::BadJson, detail)
    }

    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.extra.insert(name.into(), value.into());
        self
    }

    #[must_use]
    pub fn retry_in(mut self, time: Duration) -> Self {
        self.retry_after = Some(time);
        self
    }

    #[must_use]
    pub fn with_challenge(mut self, challenge: &'static str) -> Self {
        self.challenge = Some(challenge);
        self
    }

    /// Puts the place in a body or a list before the detail.
    #[must_use]
    pub fn at(mut self, place: &str) -> Self {
        self.detail = format!("{place}: {}", self.detail);
        self
    }

    pub fn status(&self) -> StatusCode {
        StatusCode::from_u16(self.code.http_status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    /// The seconds of `Retry-After`, rounded up and at least one.
    fn seconds(&self) -> Option<u64> {
        self.retry_after.map(|time| (time.as_secs() + u64::from(time.subsec_nanos() > 0)).max(1))
    }

    pub fn into_body(mut self) -> ProblemBody {
        if let Some(seconds) = self.seconds() {
            self.extra.insert("retry_after_seconds".into(), seconds.into());
        }
        ProblemBody {
            problem_type: format!("/problems/{}", self.code.code()),
            title: self.code.title(),
            status: self.status().as_u16(),
            // A detail may quote the request, and a client may have put a token in the wrong place.
            detail: jeton_auth::redacted(&self.detail).into_owned(),
            extra: self.extra,
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let (status, seconds, challenge) = (self.status(), self.seconds(), self.challenge);
        let mut response = super::json::response(status, &self.into_body());
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if let Some(seconds) = seconds {
            headers.insert(header::RETRY_AFTER, seconds.into());
        }
        if let Some(challenge) = challenge {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static(challenge));
        }
        response
    }
}
