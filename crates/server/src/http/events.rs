//! CloudEvents: an event adds to the counter that its subject names.
//!
//! Source, id and time form the id of the operation, so that a redelivery counts once.

use axum::http::HeaderMap;
use jeton_auth::Right;
use jeton_core::rfc3339;
use jeton_core::{Change, Column, OpId, Operation, Table};
use serde::Deserialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::batch::{self, Items};
use super::json::{self, JsonInteger};
use super::outcome_body::{Outcome, OutcomeList};
use super::problem::{HttpResult, Problem};
use super::query::percent_decode;
use super::request_context::RequestContext;

const STRUCTURED: &str = "application/cloudevents+json";
const BATCHED: &str = "application/cloudevents-batch+json";

/// An event in the JSON format of CloudEvents 1.0. Other attributes are ignored.
#[derive(Deserialize, ToSchema)]
#[schema(example = json!({
    "specversion": "1.0", "type": "com.example.click", "source": "/pages", "id": "A234-1234-1234", "time": "2026-11-16T07:40:12Z",
    "subject": "page-7", "data": {"delta": 1}
}))]
pub struct Event<'a> {
    #[schema(required = true)]
    specversion: Option<String>,
    #[schema(required = true)]
    source: Option<String>,
    /// The id of the event at its source.
    #[schema(required = true)]
    id: Option<String>,
    /// Time of the event. Required, because it determines how long the id is kept.
    #[schema(format = DateTime, required = true)]
    time: Option<String>,
    #[schema(required = true)]
    subject: Option<String>,
    /// The payload. The member `delta` of an object is added; otherwise 1.
    #[serde(borrow)]
    #[schema(value_type = Option<Object>)]
    data: Option<&'a RawValue>,
    /// Not supported: send `data`.
    data_base64: Option<String>,
}

#[derive(Deserialize)]
struct Data {
    delta: Option<JsonInteger>,
}

fn delta(data: &[u8]) -> Result<i64, Problem> {
    if !data.trim_ascii_start().starts_with(b"{") {
        return Ok(1);
    }
    let data: Data = json::read(data).map_err(|problem| problem.at("data"))?;
    Ok(data.delta.map_or(1, |delta| delta.0))
}

impl Event<'_> {
    fn operation(self, request: &RequestContext, table: &Table) -> Result<Operation, Problem> {
        if self.data_base64.is_some() {
            return Err(Problem::bad_json("`data_base64` is not supported: send `data` as JSON"));
        }
        let delta = delta(self.data.map_or(b"", |data| data.get().as_bytes()))?;
        self.adding(request, table, delta)
    }

    fn adding(self, request: &RequestContext, table: &Table, delta: i64) -> Result<Operation, Problem> {
        let missing =
            |member: &str| Problem::bad_json(format!("the event has no `{member}`, which is required"));
        match self.specversion.as_deref() {
            Some("1.0") => {}
            Some(other) => {
                let detail = format!("`specversion` is {other:?}, and only 1.0 is supported");
                return Err(Problem::bad_json(detail));
            }
            None => return Err(missing("specversion")),
        }
        let source = self.source.ok_or_else(|| missing("source"))?;
        let id = self.id.ok_or_else(|| missing("id"))?;
        let time = self.time.ok_or_else(|| missing("time"))?;
        let row = self.subject.ok_or_else(|| missing("subject"))?;
        let millis =
            rfc3339::parse(&time).map_err(|why| Problem::bad_json(format!("`time` is {time:?}: {why}")))?;
        let id = OpId::event(&source, &id, millis)?;
        let cell = request.service().engine.cell(table, row.as_bytes(), &Column::unnamed())?;
        Ok(Operation::single(Some(id), cell, Change::Add(delta))?)
    }
}

/// The event of a request in binary mode, whose attributes are headers.
fn in_headers(headers: &HeaderMap) -> Result<Event<'static>, Problem> {
    let attribute = |name: &str| -> Result<Option<String>, Problem> {
        let Some(value) = headers.get(name) else { return Ok(None) };
        let text = value.to_str().ok().and_then(percent_decode);
        let text = text.and_then(|bytes| String::from_utf8(bytes).ok());
        let malformed = || Problem::bad_request(format!("the header {name} is not percent-encoded UTF-8"));
        text.map(Some).ok_or_else(malformed)
    };
    Ok(Event {
        specversion: attribute("ce-specversion")?,
        source: attribute("ce-source")?,
        id: attribute("ce-id")?,
        time: attribute("ce-time")?,
        subject: attribute("ce-subject")?,
        data: None,
        data_base64: None,
    })
}

/// Counts events.
///
/// The response to one event (`application/cloudevents+json`, or binary mode with `ce-` headers) is that of
/// `:add`; the response to a batch (`application/cloudevents-batch+json`) has the outcome of each. The table
/// must accept ids of the format `event`.
#[utoipa::path(
    post, path = "/v1/tables/{table}/events", operation_id = "countEvents", tag = "events",
    request_body(content((Event = "application/cloudevents+json"), (Vec<Event> = "application/cloudevents-batch+json"))),
    params(("table" = String, Path, description = "The table.")),
    responses((status = 200, description = "The outcome, or the outcome of each event.", content((Outcome = "application/json"), (OutcomeList = "application/json"))))
)]
pub async fn post(mut request: RequestContext) -> HttpResult {
    let table = request.table(Right::Add)?;
    request.no_key()?;
    let is_binary = request.parts.headers.contains_key("ce-specversion");
    let kind = request.media_type();
    if !is_binary {
        request.must_be(&[STRUCTURED, BATCHED])?;
    }
    let body = request.whole().await?;
    if kind == BATCHED {
        let events: Items<'_> = json::read(&body)?;
        return batch::apply_items(&mut request, events, |request, event| {
            let event: Event<'_> = json::object(event.get().as_bytes())?;
            Ok((table.clone(), event.operation(request, &table)?))
        })
        .await;
    }
    request.spend(1)?;
    let operation = if kind == STRUCTURED {
        json::object::<Event<'_>>(&body)?.operation(&request, &table)?
    } else {
        // A payload that is not JSON has no delta; the event counts 1.
        let is_json = kind == "application/json" || kind.ends_with("+json");
        let delta = if is_json { delta(&body)? } else { 1 };
        in_headers(&request.parts.headers)?.adding(&request, &table, delta)?
    };
    request.apply_one(&table, operation).await
}
