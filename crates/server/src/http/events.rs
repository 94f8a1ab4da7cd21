//! CloudEvents, counted: an event adds to the counter that its subject names.
//!
//! Source, id and time are the id of the operation: a redelivery carries the same, and counts once.

use axum::body::Body;
use axum::http::{HeaderMap, Response, StatusCode};
use jeton_auth::Right;
use jeton_core::{Change, Column, OpId, Operation, Table};
use serde::Deserialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::batch::{self, check_number};
use super::json::JsonInteger;
use super::outcome_body::{Outcome, OutcomeList};
use super::problem::{ErrorCode, Problem, ProblemBody};
use super::request_context::RequestContext;
use super::{date, json, percent};

const ONE: &str = "application/cloudevents+json";
const BATCH: &str = "application/cloudevents-batch+json";

/// An event, as CloudEvents 1.0 writes it in JSON. Other attributes may be there, and are not looked at.
#[derive(Deserialize, ToSchema)]
#[schema(example = json!({
    "specversion": "1.0", "type": "com.example.click", "source": "/pages", "id": "A234-1234-1234", "time": "2026-11-16T07:40:12Z",
    "subject": "page-7", "data": {"delta": 1}
}))]
pub struct Event<'a> {
    /// 1.0.
    #[schema(required = true)]
    specversion: Option<String>,
    /// Where it happened.
    #[schema(required = true)]
    source: Option<String>,
    /// Its name there.
    #[schema(required = true)]
    id: Option<String>,
    /// When it happened. It is needed here: it says how long the event must be remembered.
    #[schema(format = DateTime, required = true)]
    time: Option<String>,
    /// The row of the counter.
    #[schema(required = true)]
    subject: Option<String>,
    /// What happened. If it is an object with a member `delta`, that is added, otherwise 1.
    #[serde(borrow)]
    #[schema(value_type = Option<Object>)]
    data: Option<&'a RawValue>,
    /// Not read: send `data`.
    data_base64: Option<String>,
}

#[derive(Deserialize)]
struct Data {
    delta: Option<JsonInteger>,
}

fn wrong(detail: impl Into<String>) -> Problem {
    Problem::new(ErrorCode::BadJson, detail)
}

/// What an event adds.
fn delta(data: &[u8]) -> Result<i64, Problem> {
    if !data.trim_ascii_start().starts_with(b"{") {
        return Ok(1);
    }
    let data: Data = json::read(data).map_err(|problem| problem.at("data"))?;
    Ok(data.delta.map_or(1, |delta| delta.0))
}

impl Event<'_> {
    fn operation(self, asked: &RequestContext, table: &Table) -> Result<Operation, Problem> {
        if self.data_base64.is_some() {
            return Err(wrong("`data_base64` is not read: send `data` as JSON"));
        }
        let delta = delta(self.data.map_or(b"", |data| data.get().as_bytes()))?;
        self.adding(asked, table, delta)
    }

    fn adding(self, asked: &RequestContext, table: &Table, delta: i64) -> Result<Operation, Problem> {
        let missing = |member: &str| wrong(format!("the event has no `{member}`, which is needed here"));
        match self.specversion.as_deref() {
            Some("1.0") => {}
            Some(other) => {
                return Err(wrong(format!("`specversion` is {other:?}, and only 1.0 is known here")));
            }
            None => return Err(missing("specversion")),
        }
        let source = self.source.ok_or_else(|| missing("source"))?;
        let id = self.id.ok_or_else(|| missing("id"))?;
        let time = self.time.ok_or_else(|| missing("time"))?;
        let row = self.subject.ok_or_else(|| missing("subject"))?;
        let millis = date::parse(&time).map_err(|why| wrong(format!("`time` is {time:?}: {why}")))?;
        let id = OpId::event(&source, &id, millis)?;
        let cell = asked.service().engine.cell(table, row.as_bytes(), &Column::unnamed())?;
        Ok(Operation::single(Some(id), cell, Change::Add(delta))?)
    }
}

/// The event in the headers, in binary mode.
fn in_headers(headers: &HeaderMap) -> Result<Event<'static>, Problem> {
    let attribute = |name: &str| -> Result<Option<String>, Problem> {
        let Some(value) = headers.get(name) else { return Ok(None) };
        let text = value.to_str().ok().and_then(|text| percent::decode(text).ok());
        let text = text.and_then(|bytes| String::from_utf8(bytes).ok());
        text.map(Some).ok_or_else(|| {
            Problem::new(ErrorCode::BadRequest, format!("the header {name} is not percent-encoded UTF-8"))
        })
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
/// One event (`application/cloudevents+json`, or binary mode with `ce-` headers) is answered as `:add` is; a batch
/// (`application/cloudevents-batch+json`) with the outcome of each. The table must take ids of the format `event`.
#[utoipa::path(
    post, path = "/v1/tables/{table}/events", operation_id = "countEvents", tag = "events",
    request_body(content((Event = "application/cloudevents+json"), (Vec<Event> = "application/cloudevents-batch+json"))),
    params(("table" = String, Path, description = "The table.")),
    responses((status = 200, description = "What became of it, or of each.", content((Outcome = "application/json"), (OutcomeList = "application/json"))),
        (status = 415, body = ProblemBody, content_type = "application/problem+json", description = "media-type: no event."),
        (status = "4XX", body = ProblemBody, content_type = "application/problem+json", description = "As for add."))
)]
pub async fn post(mut asked: RequestContext) -> Result<Response<Body>, Problem> {
    let table = asked.table(Right::Add)?;
    asked.no_key()?;
    let is_binary = asked.parts.headers.contains_key("ce-specversion");
    let kind = asked.media_type();
    if !is_binary {
        asked.must_be(&[ONE, BATCH])?;
    }
    let body = asked.whole().await?;
    if kind == BATCH {
        let events: Vec<&RawValue> = json::read(&body)?;
        check_number(events.len())?;
        asked.spend(events.len())?;
        let plan = |event: &RawValue| {
            let event: Event<'_> = json::object(event.get().as_bytes())?;
            Ok((table.clone(), event.operation(&asked, &table)?))
        };
        let planned = events.into_iter().map(plan).collect();
        return Ok(json::response(StatusCode::OK, &batch::all(&asked, planned).await));
    }
    asked.spend(1)?;
    let operation = if kind == ONE {
        json::object::<Event<'_>>(&body)?.operation(&asked, &table)?
    } else {
        // What is not JSON has no delta to be read; the event counts one.
        let is_json = kind == "application/json" || kind.ends_with("+json");
        let delta = if is_json { delta(&body)? } else { 1 };
        in_headers(&asked.parts.headers)?.adding(&asked, &table, delta)?
    };
    let partition = operation.partition();
    let reply = asked.app.apply(&asked.pass, operation).await?;
    Ok(Outcome::of(&table, partition, &reply).respond())
}
