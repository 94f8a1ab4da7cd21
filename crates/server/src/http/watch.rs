//! Watching: changes as they are made, as server-sent events.

use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderValue, Response, header};
use jeton_auth::Right;
use serde::Serialize;
use tokio::sync::broadcast::error::RecvError;
use utoipa::ToSchema;

use super::body::{self, ReaderGone, Writer};
use super::counters::text_or_base64;
use super::date;
use super::problem::{Problem, ProblemBody};
use super::request_context::RequestContext;
use crate::ChangeEvent;

/// How often something is said if nothing happens, so that nobody on the way takes the connection for dead.
const EVERY: Duration = Duration::from_secs(15);

/// A change, as the data of an event `change` whose id is `partition-slot`.
#[derive(Debug, Serialize, ToSchema)]
#[schema(example = json!({
    "table": "clicks", "row": "page-7", "value": 7, "value_text": "7", "partition": 12, "slot": 42, "time": "2026-11-16T07:40:12.000Z"
}))]
pub struct ChangeBody {
    /// The table.
    table: String,
    /// The row, if it is text.
    #[serde(skip_serializing_if = "Option::is_none")]
    row: Option<String>,
    /// The row as base64, if it is not text.
    #[serde(skip_serializing_if = "Option::is_none")]
    row_base64: Option<String>,
    /// The column, if it has a name and that is text.
    #[serde(skip_serializing_if = "Option::is_none")]
    column: Option<String>,
    /// The column as base64, if it is not text.
    #[serde(skip_serializing_if = "Option::is_none")]
    column_base64: Option<String>,
    /// The counter afterwards; null if the cell is empty or holds bytes.
    value: Option<i64>,
    /// The same as text, for programs whose numbers end at 2^53.
    value_text: Option<String>,
    /// The partition whose log has it.
    partition: u16,
    /// Its slot in that log.
    slot: u64,
    /// When it was decided.
    #[schema(format = DateTime)]
    time: String,
}

struct Watch {
    asked: RequestContext,
    table: Option<String>,
    prefix: Vec<u8>,
    writer: Writer,
}

/// Watches changes as they are made, as server-sent events.
///
/// An event `change` for every change from now on of counters in the tables that the caller may read. A watcher that is too slow gets
/// an event `lagged` with the number of changes it missed: then read the counters again. A comment comes every 15 seconds.
#[utoipa::path(
    get, path = "/v1/watch", operation_id = "watch", tag = "counters",
    params(("table" = Option<String>, Query, description = "Only changes in this table."),
        ("prefix" = Option<String>, Query, description = "Only changes of rows that begin so.")),
    responses((status = 200, body = ChangeBody, content_type = "text/event-stream", description = "Changes, without end."),
        (status = "4XX", body = ProblemBody, content_type = "application/problem+json", description = "No token, no right, no such table."))
)]
pub async fn get(asked: RequestContext) -> Result<Response<Body>, Problem> {
    let query = asked.query(&["table", "prefix"])?;
    let table = query.text("table")?.map(str::to_owned);
    if let Some(table) = &table {
        asked.may(table, Right::Read)?;
        asked.service().engine.table(table)?;
    }
    asked.spend(1)?;
    let prefix = query.one("prefix")?.unwrap_or_default().to_vec();
    let (writer, body) = body::channel();
    // From here on nothing is missed, and that is what the first line says.
    let changes = asked.service().changes.subscribe();
    tokio::spawn(Watch { asked, table, prefix, writer }.run(changes));
    let mut response = Response::new(body);
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    Ok(response)
}

type Changes = tokio::sync::broadcast::Receiver<std::sync::Arc<ChangeEvent>>;

impl Watch {
    async fn run(self, changes: Changes) {
        let app = self.asked.app.clone();
        tokio::select! {
            _gone = self.tell_all(changes) => {}
            () = self.writer.gone() => {}
            () = app.closed() => {}
        }
    }

    async fn tell_all(&self, mut changes: Changes) -> Result<(), ReaderGone> {
        self.writer.write(": watching\n\n").await?;
        loop {
            let text = match tokio::time::timeout(EVERY, changes.recv()).await {
                Err(_) => ": still here\n\n".to_owned(),
                Ok(Ok(changed)) => match self.event(&changed) {
                    Some(event) => event,
                    None => continue,
                },
                Ok(Err(RecvError::Lagged(missed))) => {
                    format!("event: lagged\ndata: {{\"missed\":{missed}}}\n\n")
                }
                Ok(Err(RecvError::Closed)) => return Ok(()),
            };
            // A token that was withdrawn sees nothing more, also of what it watches already.
            if self.asked.pass.check(self.asked.service().millis()).is_err() {
                return Ok(());
            }
            self.writer.write(text).await?;
        }
    }

    /// A change as an event, if it is one that is watched and may be seen.
    fn event(&self, changed: &ChangeEvent) -> Option<String> {
        let service = self.asked.service();
        let (row, column) = changed.cell.row_and_column();
        let table = service.engine.catalog().get(changed.cell.table())?.name.clone();
        let watched =
            self.table.as_ref().is_none_or(|wanted| *wanted == table) && row.starts_with(&self.prefix);
        if !watched || self.asked.pass.may(&table, Right::Read, service.millis()).is_err() {
            return None;
        }
        let (row, row_base64) = text_or_base64(row);
        let (column, column_base64) =
            if column.is_empty() { (None, None) } else { text_or_base64(column.to_vec()) };
        let (partition, slot) = (changed.cell.partition().0, changed.slot);
        let body = ChangeBody {
            table,
            row,
            row_base64,
            column,
            column_base64,
            value: changed.value,
            value_text: changed.value.map(|value| value.to_string()),
            partition,
            slot,
            time: date::format(changed.millis),
        };
        let body = serde_json::to_string(&body).ok()?;
        Some(format!("event: change\nid: {partition}-{slot}\ndata: {body}\n\n"))
    }
}
