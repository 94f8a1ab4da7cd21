//! A problem, as RFC 9457 writes it: what happened, why, and what to do.

use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderValue, Response, StatusCode, header};
use axum::response::IntoResponse;
use serde::Serialize;
use serde_json::{Map, Value};

pub use super::problem_kind::Kind;

/// Why a request was not done.
#[derive(Debug, Clone)]
pub struct Problem {
    /// The kind.
    pub kind: Kind,
    /// What happened this time.
    pub detail: String,
    /// What a program may want to know.
    pub extra: Map<String, Value>,
    /// When to try again.
    pub retry_after: Option<Duration>,
    /// What to show for entry, if that was missing.
    challenge: Option<&'static str>,
}

/// A problem as JSON. More members may follow, which depend on the problem.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(title = "Problem", example = json!({
    "type": "/problems/id-expired", "title": "The id is older than the table remembers", "status": 410,
    "detail": "the id is older than the window of 86400s: whether it was counted is no longer known, and it is not counted now",
    "server_time": "2026-11-16T07:40:12.000Z", "window": "24h"
}))]
pub struct ProblemBody {
    /// The address of a page about this kind of problem, on this server.
    #[serde(rename = "type")]
    kind: String,
    /// The kind in a few words.
    title: &'static str,
    /// The status of the response; in a list of outcomes, that of this item.
    status: u16,
    /// What happened, why, and what to do.
    detail: String,
    #[serde(flatten)]
    #[schema(ignore)]
    extra: Map<String, Value>,
}

impl Problem {
    /// A problem of this kind.
    pub fn new(kind: Kind, detail: impl Into<String>) -> Self {
        Self { kind, detail: detail.into(), extra: Map::new(), retry_after: None, challenge: None }
    }

    /// With one more thing that a program may want to know.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.extra.insert(name.into(), value.into());
        self
    }

    /// To be tried again after this time.
    #[must_use]
    pub fn again_after(mut self, time: Duration) -> Self {
        self.retry_after = Some(time);
        self
    }

    /// With what to show for entry.
    #[must_use]
    pub fn challenging(mut self, challenge: &'static str) -> Self {
        self.challenge = Some(challenge);
        self
    }

    /// Where in a body or a list it is.
    #[must_use]
    pub fn at(mut self, place: &str) -> Self {
        self.detail = format!("{place}: {}", self.detail);
        self
    }

    /// The status.
    pub fn status(&self) -> StatusCode {
        self.kind.status()
    }

    /// The seconds of a Retry-After: whole ones, and at least one.
    fn seconds(&self) -> Option<u64> {
        self.retry_after
            .map(|time| time.as_secs() + u64::from(time.subsec_nanos() > 0))
            .map(|time| time.max(1))
    }

    /// The problem as JSON.
    pub fn into_body(mut self) -> ProblemBody {
        if let Some(seconds) = self.seconds() {
            self.extra.insert("retry_after_seconds".into(), seconds.into());
        }
        ProblemBody {
            kind: format!("/problems/{}", self.kind.name()),
            title: self.kind.title(),
            status: self.status().as_u16(),
            // People paste tokens into the wrong places, and a detail may repeat what they sent.
            detail: jeton_auth::redacted(&self.detail).into_owned(),
            extra: self.extra,
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response<Body> {
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
