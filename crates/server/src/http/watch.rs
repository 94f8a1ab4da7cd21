//! The change feed as server-sent events.

use std::time::Duration;

use axum::http::header;
use axum::response::IntoResponse;
use jeton_auth::Right;
use jeton_core::rfc3339;
use serde::Serialize;
use tokio::sync::broadcast::error::RecvError;
use utoipa::ToSchema;

use super::body::{self, ReaderGone, Writer};
use super::counters::Address;
use super::problem::{HttpResult, Problem};
use super::request_context::RequestContext;
use crate::{Account, ChangeEvent};

/// Interval of keep-alive comments, so that proxies do not close an idle connection.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(15);

/// Interval in which the token is checked: that of the reload of tokens.
const TOKEN_CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Memory that a watch is charged for: its buffer is full of events with long rows.
pub const WATCH_BYTES: usize = 64 << 10;

/// A change, as the data of an event `change` whose id is `partition-slot`.
#[derive(Debug, Serialize, ToSchema)]
#[schema(example = json!({
    "table": "clicks", "row": "page-7", "value": 7, "value_text": "7", "partition": 12, "slot": 42, "time": "2026-11-16T07:40:12.000Z"
}))]
pub struct ChangeEventBody {
    table: String,
    #[serde(flatten)]
    address: Address,
    /// The counter after the change; null if the cell is empty or contains bytes.
    value: Option<i64>,
    /// The same as text, for clients whose numbers end at 2^53.
    value_text: Option<String>,
    /// The partition of the log entry.
    partition: u16,
    /// The slot of the log entry.
    slot: u64,
    #[schema(format = DateTime)]
    time: String,
}

struct Watch {
    request: RequestContext,
    table: Option<String>,
    prefix: Vec<u8>,
    writer: Writer,
}

/// Streams changes as server-sent events.
///
/// Sends an event `change` for every later change of a counter in the tables that the client may read. A
/// client that is too slow gets an event `lagged` with the number of changes it missed, and should read the
/// counters again. The server sends a comment every 15 seconds.
#[utoipa::path(
    get, path = "/v1/watch", operation_id = "watch", tag = "counters",
    params(("table" = Option<String>, Query, description = "Only changes in this table."),
        ("prefix" = Option<String>, Query, description = "Only changes of rows with this prefix.")),
    responses((status = 200, body = ChangeEventBody, content_type = "text/event-stream", description = "Changes, until the connection closes."))
)]
pub async fn get(request: RequestContext) -> HttpResult {
    let query = request.query(&["table", "prefix"])?;
    let table = query.text("table")?.map(str::to_owned);
    if let Some(table) = &table {
        request.may(table, Right::Read)?;
        request.service().engine.table(table)?;
    }
    request.spend(1)?;
    if request.service().engine.local().is_none() {
        let detail = "a node sees only the changes of its own clients: read the counters instead";
        return Err(Problem::not_in_cluster(detail));
    }
    let prefix = query.one("prefix")?.unwrap_or_default().to_vec();
    let (writer, body) = body::channel();
    // No change is missed from here on, which the first line of the response confirms.
    let changes = request.service().changes.subscribe();
    tokio::spawn(Watch { request, table, prefix, writer }.run(changes));
    Ok(([(header::CONTENT_TYPE, "text/event-stream")], body).into_response())
}

type Changes = tokio::sync::broadcast::Receiver<std::sync::Arc<ChangeEvent>>;

impl Watch {
    async fn run(self, changes: Changes) {
        let app = self.request.app.clone();
        let mut memory = Account::new(app.service.client_memory.clone());
        if memory.charge(WATCH_BYTES).is_err() {
            return;
        }
        tokio::select! {
            _exceeded = memory.closing() => {}
            _gone = self.send_all(changes) => {}
            () = self.writer.gone() => {}
            () = app.closed() => {}
            () = self.revoked() => {}
        }
    }

    /// Returns when the token is no longer valid, so that an idle stream ends too.
    async fn revoked(&self) {
        let mut interval = tokio::time::interval(TOKEN_CHECK_INTERVAL);
        while self.request.auth.check(self.request.service().millis()).is_ok() {
            interval.tick().await;
        }
    }

    async fn send_all(&self, mut changes: Changes) -> Result<(), ReaderGone> {
        self.writer.write(": watching\n\n").await?;
        loop {
            let text = match tokio::time::timeout(KEEP_ALIVE_INTERVAL, changes.recv()).await {
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
            // A revoked token receives nothing more, also on an open stream.
            if self.request.auth.check(self.request.service().millis()).is_err() {
                return Ok(());
            }
            self.writer.write(text).await?;
        }
    }

    /// The event of a change; `None` if the client does not watch it or may not read it.
    fn event(&self, changed: &ChangeEvent) -> Option<String> {
        let service = self.request.service();
        let (row, _) = changed.cell.row_and_column();
        let table = service.engine.catalog().get(changed.cell.table())?.name.clone();
        let watched = self.table.as_ref().is_none_or(|only| *only == table) && row.starts_with(&self.prefix);
        if !watched || self.request.auth.may(&table, Right::Read, service.millis()).is_err() {
            return None;
        }
        let (partition, slot) = (changed.cell.partition().0, changed.slot);
        let body = ChangeEventBody {
            table,
            address: Address::of(&changed.cell),
            value: changed.value,
            value_text: changed.value.map(|value| value.to_string()),
            partition,
            slot,
            time: rfc3339::format(changed.millis),
        };
        let body = serde_json::to_string(&body).ok()?;
        Some(format!("event: change\nid: {partition}-{slot}\ndata: {body}\n\n"))
    }
}
