//! An authenticated request.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use axum::body::{Body, Bytes};
use axum::extract::{FromRequest, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method, header};
use jeton_auth::{AuthContext, AuthError, Right, Throttled};
use jeton_core::{Cell, MissingIdPolicy, OpId, Operation, PartitionId, Rejection, Table, Value};
use jeton_engine::{Ask, EngineError, OperationOutcome};
use serde::de::DeserializeOwned;

use super::outcome_body::Outcome;
use super::problem::{ErrorCode, HttpResult, Problem};
use super::query::{Query, percent_decode};
use super::server::Peer;
use super::state::App;
use super::{body, idempotency_key, json};
use crate::auth_failures::AuthFailures;
use crate::service::{operation_outcome, read_value};
use crate::{Account, Metric, Service};

/// Content types that a web page can send to another site without its consent (CORS preflight).
const SIMPLE_TYPES: [&str; 4] =
    ["", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data"];

/// Headers that a web page cannot send without that consent.
const NOT_SIMPLE: [&str; 3] = ["authorization", idempotency_key::NAME, "ce-specversion"];

/// Maximum reads in flight of a request.
const READS_MAX: usize = 256;

/// The part of the memory of a connection that the values read by a request may use.
pub const VALUES_FRACTION: usize = 8;

/// Size of a value in the forms it has before it is JSON: bytes, text and base64.
const VALUE_COPIES: usize = 4;

/// Maximum bytes of a body that is parsed into lists and maps of any size, which can need a hundred times as
/// much.
pub const SMALL_BODY_BYTES_MAX: usize = 64 << 10;

pub struct RequestContext {
    pub app: App,
    pub auth: AuthContext,
    pub parts: Parts,
    /// The body. The mutex is never locked: it makes the request `Sync`, which a body is not.
    body: Mutex<Body>,
    /// Charged for the body.
    memory: Account,
}

impl FromRequest<App> for RequestContext {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &App) -> Result<Self, Problem> {
        let (parts, body) = request.into_parts();
        // Browsers set this header if a page of another site sends the request, without consent of the user.
        let cross_site = parts.headers.get("sec-fetch-site").is_some_and(|site| site == "cross-site");
        if cross_site && parts.method != Method::GET {
            return Err(Problem::new(ErrorCode::Forbidden, "web pages of other sites may not write"));
        }
        let auth = authenticate(&app.service, &parts).await?;
        let memory = Account::new(app.service.client_memory.clone());
        let request = Self { app: app.clone(), auth, parts, body: Mutex::new(body), memory };
        request.check_content()?;
        Ok(request)
    }
}

/// The context of a request. A failure is counted and delays the response.
pub async fn authenticate(service: &Service, parts: &Parts) -> Result<AuthContext, Problem> {
    let context = find_context(service, &parts.headers);
    if let (Err(why), Some(failures)) = (&context, parts.extensions.get::<Arc<AuthFailures>>()) {
        let peer = parts.extensions.get::<Peer>().map_or(String::new(), |peer| peer.0.to_string());
        tokio::time::sleep(failures.add(service, Metric::HttpAuthFailures, &peer, *why)).await;
    }
    context.map_err(|why| denied(service, why))
}

fn find_context(service: &Service, headers: &HeaderMap) -> Result<AuthContext, AuthError> {
    let shown = headers.get(header::AUTHORIZATION).map(|value| value.as_bytes());
    let token = shown.and_then(|value| match value.split_at_checked(7) {
        Some((scheme, token)) if scheme.eq_ignore_ascii_case(b"bearer ") => Some(token.trim_ascii()),
        _ => None,
    });
    match token {
        Some(token) => service.access.authenticate(token, service.millis()),
        None => service.access.anonymous(),
    }
}

/// The problem of a denied request, which is counted.
pub fn denied(service: &Service, why: AuthError) -> Problem {
    service.metrics.add(Metric::Denied, 1);
    match why {
        AuthError::NoToken => {
            let detail = "this server requires a token: Authorization: Bearer jeton_...";
            Problem::new(ErrorCode::Unauthorized, detail).with_challenge("Bearer realm=\"jeton\"")
        }
        why if why.is_about_the_token() => Problem::new(ErrorCode::TokenInvalid, why.to_string())
            .with_challenge("Bearer realm=\"jeton\", error=\"invalid_token\""),
        AuthError::Right(right) => {
            Problem::new(ErrorCode::Forbidden, why.to_string()).with("right", right.name())
        }
        why => Problem::new(ErrorCode::Forbidden, why.to_string()),
    }
}

/// The problem of a request above the rate limit, which is counted.
pub fn throttled(service: &Service, why: Throttled) -> Problem {
    service.metrics.add(Metric::Throttled, 1);
    let problem = Problem::new(ErrorCode::Throttled, why.to_string());
    match why.retry_after() {
        Some(time) => problem.retry_in(time),
        None => problem,
    }
}

impl RequestContext {
    /// Rejects encoded bodies, and writes that a web page of another site could send.
    fn check_content(&self) -> Result<(), Problem> {
        let headers = &self.parts.headers;
        if headers.get(header::CONTENT_ENCODING).is_some_and(|coding| coding != "identity") {
            let detail = "the header Content-Encoding is not supported: send the body as it is";
            return Err(Problem::new(ErrorCode::MediaType, detail));
        }
        if self.parts.method == Method::POST
            && SIMPLE_TYPES.contains(&self.media_type().as_str())
            && !NOT_SIMPLE.iter().any(|name| headers.contains_key(*name))
        {
            let expected = match self.parts.uri.path().rsplit('/').next() {
                Some("import") => "application/x-ndjson",
                Some("events") => "application/cloudevents+json",
                _ => "application/json",
            };
            return self.must_be(&[expected]);
        }
        Ok(())
    }

    pub fn service(&self) -> &Service {
        &self.app.service
    }

    /// Checks a right in a table. The result does not reveal whether the table exists.
    pub fn may(&self, table: &str, right: Right) -> Result<(), Problem> {
        let service = self.service();
        self.auth.may(table, right, service.millis()).map_err(|why| denied(service, why))
    }

    /// Checks the right to administer the server, and takes one operation from the rate limit.
    pub fn administer(&self) -> Result<(), Problem> {
        let service = self.service();
        self.auth.may_administer(service.millis()).map_err(|why| denied(service, why))?;
        self.spend(1)
    }

    /// Checks that the client may change a table. The caller checks the right of each change.
    pub fn may_change(&self, table: &str) -> Result<(), Problem> {
        // Not counted as denied: one of the two rights suffices.
        match self.auth.may(table, Right::Admin, self.service().millis()) {
            Ok(()) => Ok(()),
            Err(_) => self.may(table, Right::Add),
        }
    }

    /// Takes `operations` from the rate limit of the client.
    pub fn spend(&self, operations: usize) -> Result<(), Problem> {
        let service = self.service();
        self.auth.spend(service.millis(), operations as u64).map_err(|why| throttled(service, why))
    }

    /// Applies operations in one batch. A timeout is the problem of each of them.
    pub async fn apply_all(&self, operations: Vec<Operation>) -> Vec<Result<OperationOutcome, Problem>> {
        let number = operations.len();
        let asks = operations.into_iter().map(Ask::Apply).collect();
        match self.app.submit_batch(&self.auth, asks).await {
            Ok(responses) => responses.into_iter().map(|one| Ok(operation_outcome(one)?)).collect(),
            Err(problem) => vec![Err(problem); number],
        }
    }

    /// Applies an operation. Returns its partition and its outcome.
    pub async fn apply(&self, operation: Operation) -> Result<(PartitionId, OperationOutcome), Problem> {
        let partition = operation.partition();
        let outcome = self.apply_all(vec![operation]).await.pop();
        Ok((partition, outcome.ok_or(EngineError::Closed)??))
    }

    /// Reads cells, and charges their values until the end of the request.
    pub async fn read_all(&mut self, cells: &[Cell]) -> Result<Vec<Option<Value>>, Problem> {
        let service = self.app.service.clone();
        let limit = service.client_memory.connection_max() / VALUES_FRACTION;
        let (mut values, mut bytes) = (Vec::with_capacity(cells.len()), 0);
        for part in cells.chunks(READS_MAX) {
            let _reserved = service.client_memory.reserve_reads(part.len()).await;
            let asks = part.iter().cloned().map(Ask::Read).collect();
            for response in self.app.submit_batch(&self.auth, asks).await? {
                let value = read_value(response)?;
                bytes += value.as_ref().map_or(0, Value::heap_bytes);
                values.push(value);
            }
            if bytes > limit {
                let detail = format!("the values have more than {limit} bytes: read fewer in a request");
                return Err(Problem::new(ErrorCode::TooLarge, detail).with("limit", limit));
            }
            self.memory.charge_more(VALUE_COPIES * bytes).map_err(body::out_of_memory)?;
        }
        Ok(values)
    }

    /// Charges the response to a batch besides the body.
    pub fn charge_reply(&mut self, bytes: usize) -> Result<(), Problem> {
        self.memory.charge_more(bytes).map_err(body::out_of_memory)
    }

    /// Applies an operation on one counter.
    pub async fn apply_one(&self, table: &Table, operation: Operation) -> HttpResult {
        let (partition, reply) = self.apply(operation).await?;
        let outcome = Outcome::of(table, partition, &reply);
        Ok(outcome.details.respond(&outcome))
    }

    /// The raw segment `at` of the path, counted from 0: `/v1/tables/clicks` has three.
    pub fn raw_part(&self, at: usize) -> &str {
        self.parts.uri.path().split('/').nth(at + 1).unwrap_or_default()
    }

    pub fn part(&self, at: usize) -> Result<Vec<u8>, Problem> {
        decoded(self.raw_part(at))
    }

    pub fn text_part(&self, at: usize) -> Result<String, Problem> {
        let malformed = |_| Problem::bad_request("a segment of the path is not UTF-8");
        String::from_utf8(self.part(at)?).map_err(malformed)
    }

    /// The name of the table in a path that begins with `/v1/tables/{table}`.
    pub fn table_name(&self) -> Result<String, Problem> {
        self.text_part(2)
    }

    /// The table in a path that begins with `/v1/tables/{table}`, if the client has this right in it.
    pub fn table(&self, right: Right) -> Result<Arc<Table>, Problem> {
        let name = self.table_name()?;
        self.may(&name, right)?;
        Ok(self.service().engine.table(&name)?)
    }

    /// Parses the query, in which only these names may occur.
    pub fn query(&self, known: &[&str]) -> Result<Query, Problem> {
        Query::read(self.parts.uri.query(), known)
    }

    /// The content type in lower case without parameters; empty if there is none.
    pub fn media_type(&self) -> String {
        let value = self.parts.headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
        value.unwrap_or_default().split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
    }

    pub async fn whole(&mut self) -> Result<Bytes, Problem> {
        self.whole_within(usize::MAX).await
    }

    /// The body, of at most `limit` bytes.
    pub async fn whole_within(&mut self, limit: usize) -> Result<Bytes, Problem> {
        let options = &self.app.service.options;
        let body = self.body.get_mut().unwrap_or_else(PoisonError::into_inner);
        let (limit, timeout) = (options.request_bytes_max.min(limit), options.request_read_timeout);
        let started = Instant::now();
        let whole = body::whole(body, limit, timeout, &mut self.memory).await;
        if whole.is_err() && started.elapsed() >= timeout {
            self.app.service.metrics.add(Metric::ReadTimeoutHit, 1);
        }
        whole
    }

    /// Takes the body, to be read as a stream.
    pub fn take_body(&mut self) -> Body {
        std::mem::take(self.body.get_mut().unwrap_or_else(PoisonError::into_inner))
    }

    /// The body as JSON; an empty body is an empty object.
    pub async fn json<T: DeserializeOwned>(&mut self) -> Result<T, Problem> {
        self.json_within(usize::MAX).await
    }

    /// As [`json`](Self::json), of at most `limit` bytes.
    pub async fn json_within<T: DeserializeOwned>(&mut self, limit: usize) -> Result<T, Problem> {
        let body = self.whole_within(limit).await?;
        if body.is_empty() {
            return json::object(b"{}");
        }
        self.must_be(&["application/json"])?;
        json::object(&body)
    }

    pub fn must_be(&self, types: &[&str]) -> Result<(), Problem> {
        let found = self.media_type();
        if types.contains(&found.as_str()) {
            return Ok(());
        }
        let accepted = types.join(" or ");
        let detail = match found.as_str() {
            "" => format!("the request has no content type: send Content-Type: {accepted}"),
            found => format!("the content type is {found}: send Content-Type: {accepted}"),
        };
        Err(Problem::new(ErrorCode::MediaType, detail))
    }

    /// The id of the operation: from the body, or from the header `Idempotency-Key`.
    pub fn id(&self, in_body: Option<String>, table: &Table) -> Result<Option<OpId>, Problem> {
        let text = match (in_body, self.idempotency_key()?) {
            (Some(body), Some(header)) if body != header => {
                let detail = format!(
                    "the body has the id {body:?} and the header Idempotency-Key {header:?}: send one, or the same in both"
                );
                return Err(Problem::new(ErrorCode::IdConflict, detail));
            }
            (body, header) => body.or(header),
        };
        parsed_id(text, table)
    }

    /// The string in the header `Idempotency-Key`.
    pub fn idempotency_key(&self) -> Result<Option<String>, Problem> {
        idempotency_key::read(&self.parts.headers).map_err(|why| {
            Problem::new(ErrorCode::IdInvalid, format!("the header Idempotency-Key is malformed: {why}"))
        })
    }

    /// Rejects the header `Idempotency-Key` where every item has an id of its own.
    pub fn no_key(&self) -> Result<(), Problem> {
        if self.parts.headers.contains_key(idempotency_key::NAME) {
            let detail = "every item has an id of its own in its member \"id\"; the header Idempotency-Key is not allowed";
            return Err(Problem::bad_request(detail));
        }
        Ok(())
    }
}

/// Parses the id of an operation in a table. Over HTTP a write needs one, unless the table allows every write
/// without an id: a client or proxy that repeats a POST does not know whether it was applied.
pub fn parsed_id(text: Option<String>, table: &Table) -> Result<Option<OpId>, Problem> {
    match text {
        Some(text) => Ok(Some(table.settings().formats.parse(&text)?)),
        None if table.settings().without_id == MissingIdPolicy::AtMostOnce => Ok(None),
        None => Err(Rejection::IdRequired.into()),
    }
}

pub fn decoded(part: &str) -> Result<Vec<u8>, Problem> {
    percent_decode(part).ok_or_else(|| {
        let detail = "a % in the path is not followed by two hexadecimal digits; the % itself is %25";
        Problem::bad_request(detail)
    })
}
