//! A request: who asks, and for what.

use std::sync::{Arc, Mutex, PoisonError};

use axum::body::{Body, Bytes};
use axum::extract::{FromRequest, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method, header};
use jeton_auth::{AuthContext, AuthError, Right, Throttled};
use jeton_core::{Formats, OpId, Table};
use serde::de::DeserializeOwned;

use super::problem::{ErrorCode, Problem};
use super::query::Query;
use super::state::App;
use super::{body, idempotency_key, json, percent};
use crate::{Metric, Service};

/// A request of somebody who has shown what is asked for at the door.
pub struct RequestContext {
    /// What all requests share.
    pub app: App,
    /// What the caller may do.
    pub pass: AuthContext,
    /// Its head.
    pub parts: Parts,
    /// Its body. Never locked: a body cannot be shared among threads, a lock can, and so can a reference to a request.
    body: Mutex<Body>,
}

impl FromRequest<App> for RequestContext {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &App) -> Result<Self, Problem> {
        let (parts, body) = request.into_parts();
        // A browser says so if the page that makes it write is of another site. Nobody on that page was asked.
        let cross_site = parts.headers.get("sec-fetch-site").is_some_and(|site| site == "cross-site");
        if cross_site && parts.method != Method::GET {
            return Err(Problem::new(ErrorCode::Forbidden, "web pages of other sites may not write here"));
        }
        let pass = enter(&app.service, &parts.headers)?;
        Ok(Self { app: app.clone(), pass, parts, body: Mutex::new(body) })
    }
}

/// The pass of whoever sends these headers.
fn enter(service: &Service, headers: &HeaderMap) -> Result<AuthContext, Problem> {
    let shown = headers.get(header::AUTHORIZATION).map(|value| value.as_bytes());
    let token = shown.and_then(|value| match value.split_at_checked(7) {
        Some((scheme, token)) if scheme.eq_ignore_ascii_case(b"bearer ") => Some(token.trim_ascii()),
        _ => None,
    });
    let pass = match token {
        Some(token) => service.access.authenticate(token, service.millis()),
        None => service.access.anonymous(),
    };
    pass.map_err(|why| denied(service, why))
}

/// The problem of somebody who may not.
pub fn denied(service: &Service, why: AuthError) -> Problem {
    service.metrics.add(Metric::Denied, 1);
    match why {
        AuthError::NoToken => Problem::new(
            ErrorCode::Unauthorized,
            "this server wants a token: Authorization: Bearer jeton_...",
        )
        .with_challenge("Bearer realm=\"jeton\""),
        why if why.is_about_the_token() => Problem::new(ErrorCode::TokenInvalid, why.to_string())
            .with_challenge("Bearer realm=\"jeton\", error=\"invalid_token\""),
        AuthError::Right(right) => {
            Problem::new(ErrorCode::Forbidden, why.to_string()).with("right", right.name())
        }
        why => Problem::new(ErrorCode::Forbidden, why.to_string()),
    }
}

/// The problem of somebody who is too fast.
pub fn throttled(service: &Service, why: Throttled) -> Problem {
    service.metrics.add(Metric::Throttled, 1);
    let problem = Problem::new(ErrorCode::Throttled, why.to_string());
    match why.retry_after() {
        Some(time) => problem.retry_in(time),
        None => problem,
    }
}

impl RequestContext {
    /// The service.
    pub fn service(&self) -> &Service {
        &self.app.service
    }

    /// Whether the caller has a right in a table. The answer is the same whether there is such a table or not.
    pub fn may(&self, table: &str, right: Right) -> Result<(), Problem> {
        let service = self.service();
        self.pass.may(table, right, service.millis()).map_err(|why| denied(service, why))
    }

    /// Whether the caller may administer the server.
    pub fn may_administer(&self) -> Result<(), Problem> {
        let service = self.service();
        self.pass.may_administer(service.millis()).map_err(|why| denied(service, why))
    }

    /// Whether the caller may add to a table or administer it, and so may send changes: which of them it may make is seen with each.
    pub fn may_change(&self, table: &str) -> Result<(), Problem> {
        // Asked for, not denied: whoever has the other right has done nothing wrong.
        match self.pass.may(table, Right::Admin, self.service().millis()) {
            Ok(()) => Ok(()),
            Err(_) => self.may(table, Right::Add),
        }
    }

    /// Takes so many operations from the caller's rate.
    pub fn spend(&self, operations: usize) -> Result<(), Problem> {
        let service = self.service();
        self.pass.spend(service.millis(), operations as u64).map_err(|why| throttled(service, why))
    }

    /// A part of the path, as it was sent, counted from zero: `/v1/tables/clicks` has three.
    pub fn raw_part(&self, at: usize) -> &str {
        self.parts.uri.path().split('/').nth(at + 1).unwrap_or_default()
    }

    /// A part of the path.
    pub fn part(&self, at: usize) -> Result<Vec<u8>, Problem> {
        decoded(self.raw_part(at))
    }

    /// A part of the path, as text.
    pub fn text_part(&self, at: usize) -> Result<String, Problem> {
        let wrong = |_| Problem::new(ErrorCode::BadRequest, "a part of the path is not UTF-8");
        String::from_utf8(self.part(at)?).map_err(wrong)
    }

    /// The name of the table in a path that begins with `/v1/tables/{table}`.
    pub fn table_name(&self) -> Result<String, Problem> {
        self.text_part(2)
    }

    /// The table in a path that begins with `/v1/tables/{table}`, if the caller has this right in it.
    pub fn table(&self, right: Right) -> Result<Arc<Table>, Problem> {
        let name = self.table_name()?;
        self.may(&name, right)?;
        Ok(self.service().engine.table(&name)?)
    }

    /// The query, in which these names may occur.
    pub fn query(&self, known: &[&str]) -> Result<Query, Problem> {
        Query::read(self.parts.uri.query(), known)
    }

    /// The type of the body, without parameters; empty if it is not said.
    pub fn media_type(&self) -> String {
        let value = self.parts.headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
        value.unwrap_or_default().split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
    }

    /// The whole body.
    pub async fn whole(&mut self) -> Result<Bytes, Problem> {
        let options = &self.app.service.options;
        let body = self.body.get_mut().unwrap_or_else(PoisonError::into_inner);
        body::whole(body, options.request_bytes_max, options.request_read_timeout).await
    }

    /// The body, to be read as it comes.
    pub fn take_body(&mut self) -> Body {
        std::mem::take(self.body.get_mut().unwrap_or_else(PoisonError::into_inner))
    }

    /// The body as JSON. No body is an empty object.
    pub async fn json<T: DeserializeOwned>(&mut self) -> Result<T, Problem> {
        let body = self.whole().await?;
        if body.is_empty() {
            return json::object(b"{}");
        }
        self.must_be(&["application/json"])?;
        json::object(&body)
    }

    /// Refuses a body that is not said to be of one of these types.
    pub fn must_be(&self, types: &[&str]) -> Result<(), Problem> {
        let found = self.media_type();
        if types.contains(&found.as_str()) {
            return Ok(());
        }
        let wanted = types.join(" or ");
        let detail = match found.as_str() {
            "" => format!("the request does not say what its body is: send Content-Type: {wanted}"),
            found => format!("the body is said to be {found}: send Content-Type: {wanted}"),
        };
        Err(Problem::new(ErrorCode::MediaType, detail))
    }

    /// The id of the operation: from the body, or from the header `Idempotency-Key`.
    pub fn id(&self, in_body: Option<String>, formats: Formats) -> Result<Option<OpId>, Problem> {
        let in_header = idempotency_key::read(&self.parts.headers).map_err(|why| {
            Problem::new(ErrorCode::IdInvalid, format!("the header Idempotency-Key cannot be read: {why}"))
        })?;
        let text = match (in_body, in_header) {
            (Some(body), Some(header)) if body != header => {
                let detail = format!(
                    "the body has the id {body:?} and the header Idempotency-Key {header:?}: send one, or the same in both"
                );
                return Err(Problem::new(ErrorCode::IdConflict, detail));
            }
            (body, header) => body.or(header),
        };
        Ok(text.map(|text| formats.parse(&text)).transpose()?)
    }

    /// Refuses the header `Idempotency-Key` where every item has an id of its own.
    pub fn no_key(&self) -> Result<(), Problem> {
        if self.parts.headers.contains_key(idempotency_key::NAME) {
            let detail = "here every item has an id of its own, as its member \"id\": the header Idempotency-Key would name them all alike";
            return Err(Problem::new(ErrorCode::BadRequest, detail));
        }
        Ok(())
    }
}

/// A part of a path as bytes.
pub fn decoded(part: &str) -> Result<Vec<u8>, Problem> {
    percent::decode(part).map_err(|_| {
        Problem::new(
            ErrorCode::BadRequest,
            "a % in the path is not followed by two hexadecimal digits; the % itself is %25",
        )
    })
}
