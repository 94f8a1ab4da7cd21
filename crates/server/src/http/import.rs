//! Import of any number of operations, one per line, with progress reports.
//!
//! What must hold: every line has an id, so that an interrupted import can be repeated from the start. The
//! server applies backpressure: it reads no further than the store can accept.

use std::sync::Arc;
use std::time::Duration;

use axum::http::header;
use axum::response::IntoResponse;
use jeton_auth::Throttled;
use jeton_core::{Operation, Table};
use jeton_engine::OperationOutcome;
use serde::Serialize;
use tokio::time::Instant;
use utoipa::ToSchema;

use super::batch;
use super::body::{self, LineTooLong, Lines, Writer};
use super::change_body::ChangeBody;
use super::json;
use super::problem::{ErrorCode, HttpResult, Problem, ProblemBody};
use super::request_context::{RequestContext, throttled};
use crate::{Account, Metric};

const NDJSON: &str = "application/x-ndjson";

pub const BATCH_MAX: usize = 500;

/// Maximum bytes of the lines of a batch, except its last line.
pub const BATCH_BYTES_MAX: usize = 1 << 20;

const REPORT_INTERVAL: Duration = Duration::from_secs(1);

const ERRORS_MAX: usize = 100;

/// Backoff after a retryable error, doubled each time.
const BACKOFF_MIN: Duration = Duration::from_millis(10);
const BACKOFF_MAX: Duration = Duration::from_secs(1);

/// The progress of an import, on a line of its own every second and at the end.
#[derive(Debug, Default, Serialize, ToSchema)]
#[schema(example = json!({"lines": 2, "applied": 1, "refused": 0, "replayed": 1, "probably_seen": 0, "failed": 0, "done": true, "errors": []}))]
pub struct Progress {
    /// Lines read, empty ones not counted.
    lines: u64,
    /// Operations that were applied.
    applied: u64,
    /// Operations that a bound refused.
    refused: u64,
    /// Operations whose id was known, such as those of an earlier import.
    replayed: u64,
    /// Operations whose id a probabilistic table reported as known.
    probably_seen: u64,
    /// Lines that failed.
    failed: u64,
    /// Whether all lines were read.
    done: bool,
    /// The first 100 failed lines. Only at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    errors: Option<Vec<LineError>>,
    /// Why the import ended before the last line, if it did: repeat it, the same lines count once.
    #[serde(skip_serializing_if = "Option::is_none")]
    stopped: Option<ProblemBody>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct LineError {
    /// The line, counted from 1.
    line: u64,
    #[serde(flatten)]
    problem: ProblemBody,
}

enum End {
    Gone,
    Because(Problem),
}

impl From<Problem> for End {
    fn from(problem: Problem) -> Self {
        Self::Because(problem)
    }
}

struct Import {
    request: RequestContext,
    table: Arc<Table>,
    writer: Writer,
    progress: Progress,
    errors: Vec<LineError>,
    line: u64,
    /// Operations not yet submitted, with their lines.
    waiting: Vec<(u64, Operation)>,
    /// Bytes of their lines.
    waiting_bytes: usize,
    batch_max: usize,
    reported: Instant,
    memory: Account,
}

/// Imports operations, one per line.
///
/// Each line is an operation as in a batch, without `table`; the `id` is required, so that an interrupted
/// import can be repeated and counts once. The response starts at once: a line of progress every second and
/// one at the end, which has `done` and the first 100 errors with their lines. A client should read while it
/// writes. Lines with an op other than add require the right `admin`.
#[utoipa::path(
    post, path = "/v1/tables/{table}/import", operation_id = "importOperations", tag = "import",
    request_body(content = String, content_type = "application/x-ndjson", description = "Operations, one per line.",
        example = "{\"row\":\"page-7\",\"delta\":1,\"id\":\"01890a5d-ac96-774b-bcce-b302099a8057\"}\n{\"row\":\"page-8\",\"delta\":2,\"id\":\"01890a5d-ac96-774b-bcce-b302099a8058\"}\n"),
    params(("table" = String, Path, description = "The table.")),
    responses((status = 200, body = Progress, content_type = "application/x-ndjson", description = "Progress, line by line."))
)]
pub async fn post(request: RequestContext) -> HttpResult {
    let name = request.table_name()?;
    request.may_change(&name)?;
    let table = request.service().engine.table(&name)?;
    request.no_key()?;
    request.must_be(&[NDJSON, "application/ndjson", "application/jsonl"])?;
    let (writer, body) = body::channel();
    let import = Import {
        memory: Account::new(request.service().client_memory.clone()),
        request,
        table,
        writer,
        progress: Progress::default(),
        errors: Vec::new(),
        line: 0,
        waiting: Vec::new(),
        waiting_bytes: 0,
        batch_max: BATCH_MAX,
        reported: Instant::now(),
    };
    tokio::spawn(import.run());
    Ok(([(header::CONTENT_TYPE, NDJSON)], body).into_response())
}

impl Import {
    async fn run(mut self) {
        let ended = self.read_lines().await;
        match &ended {
            Err(End::Gone) => return,
            // Operations that were read are still submitted, as far as possible.
            Err(End::Because(_)) => drop(self.flush().await),
            Ok(()) => {}
        }
        let mut last = self.progress;
        last.done = ended.is_ok();
        if let Err(End::Because(problem)) = ended {
            last.stopped = Some(problem.into_body());
        }
        last.errors = Some(self.errors);
        let _best_effort = self.writer.write(text(&last)).await;
    }

    async fn read_lines(&mut self) -> Result<(), End> {
        let mut lines = Lines::new(self.request.service().options.request_bytes_max);
        let mut body = self.request.take_body();
        let app = self.request.app.clone();
        let request_read_timeout = app.service.options.request_read_timeout;
        let mut closed = std::pin::pin!(app.closed());
        // Each line has the timeout for all of it, so that single bytes do not extend it.
        let mut until = Instant::now() + request_read_timeout;
        loop {
            let piece = loop {
                tokio::select! {
                    piece = body::next(&mut body, Duration::MAX) => break piece?,
                    () = tokio::time::sleep_until(until) => {
                        app.service.metrics.add(Metric::ReadTimeoutHit, 1);
                        let detail = format!("no line was completed within {request_read_timeout:?}");
                        return Err(Problem::bad_request(detail).into());
                    }
                    exceeded = self.memory.closing() => return Err(body::out_of_memory(exceeded).into()),
                    () = tokio::time::sleep_until(self.reported + REPORT_INTERVAL) => {
                        // A slow client must not wait for a full batch.
                        self.flush().await?;
                        self.report_progress();
                    }
                    () = self.writer.gone() => return Err(End::Gone),
                    () = &mut closed => return Err(closing().into()),
                }
            };
            let Some(piece) = piece else { break };
            lines.push(&piece);
            // A line needs memory as text and as an operation, which is copied for the engine.
            let held = lines.allocated() + piece.len() + 2 * self.waiting_bytes;
            self.memory.charge(held).map_err(body::out_of_memory)?;
            let before = self.progress.lines;
            while let Some(line) = lines.next().map_err(|LineTooLong| self.too_long())? {
                self.take(&line).await?;
            }
            // Empty lines are not progress.
            if self.progress.lines > before {
                until = Instant::now() + request_read_timeout;
            }
        }
        self.take(&lines.end()).await?;
        self.flush().await
    }

    /// Parses a line, and submits the batch if it is full.
    async fn take(&mut self, line: &[u8]) -> Result<(), End> {
        self.line += 1;
        let line = line.trim_ascii();
        if line.is_empty() {
            return Ok(());
        }
        self.progress.lines += 1;
        match self.operation(line) {
            Ok(operation) => {
                self.waiting.push((self.line, operation));
                self.waiting_bytes += line.len();
            }
            Err(problem) => self.fail(self.line, problem),
        }
        if self.waiting.len() >= self.batch_max || self.waiting_bytes >= BATCH_BYTES_MAX {
            self.flush().await?;
        }
        if self.reported.elapsed() >= REPORT_INTERVAL {
            self.report_progress();
        }
        Ok(())
    }

    fn operation(&self, line: &[u8]) -> Result<Operation, Problem> {
        let step: ChangeBody = json::object(line)?;
        if step.table.is_some() {
            return Err(Problem::bad_json("`table` is in the path and the same for all lines"));
        }
        if step.id.is_none() {
            let detail =
                "a line of an import requires an `id`: without it, a repeated import would count twice";
            return Err(Problem::new(ErrorCode::IdRequired, detail));
        }
        self.request.may(&self.table.name, step.kind().right())?;
        batch::operation(&self.request, &self.table, step)
    }

    async fn flush(&mut self) -> Result<(), End> {
        while !self.waiting.is_empty() {
            let number = self.waiting.len().min(self.batch_max);
            let batch = self.waiting.drain(..number).collect();
            self.submit(batch).await?;
        }
        self.waiting_bytes = 0;
        Ok(())
    }

    /// Submits a batch, and retries it with the same ids while the store is busy.
    async fn submit(&mut self, mut left: Vec<(u64, Operation)>) -> Result<(), End> {
        if let Err(problem) = self.spend(left.len()).await {
            // A repeated import can still apply these lines.
            left.iter().for_each(|(line, _)| self.fail(*line, problem.clone()));
            return Ok(());
        }
        let timeout = self.request.service().options.request_timeout;
        let mut since = Instant::now();
        let mut backoff = BACKOFF_MIN;
        loop {
            let operations = left.iter().map(|(_, operation)| operation.clone()).collect();
            let outcomes = self.request.apply_all(operations).await;
            let before = left.len();
            let mut again = Vec::new();
            for ((line, operation), outcome) in left.into_iter().zip(outcomes) {
                match outcome {
                    Ok(OperationOutcome::ProbablySeen) => self.progress.probably_seen += 1,
                    Ok(OperationOutcome::Replayed(_)) => self.progress.replayed += 1,
                    Ok(OperationOutcome::Fresh(result)) if result.applied => self.progress.applied += 1,
                    Ok(OperationOutcome::Fresh(_)) => self.progress.refused += 1,
                    Err(problem) if is_retried(&problem) && since.elapsed() < timeout => {
                        again.push((line, operation))
                    }
                    Err(problem) => self.fail(line, problem),
                }
            }
            if again.is_empty() {
                return Ok(());
            }
            if again.len() < before {
                (since, backoff) = (Instant::now(), BACKOFF_MIN);
            }
            left = again;
            self.wait(backoff).await?;
            backoff = (backoff * 2).min(BACKOFF_MAX);
        }
    }

    /// Takes `number` from the rate limit of the client, and waits until it is available.
    async fn spend(&mut self, number: usize) -> Result<(), Problem> {
        loop {
            let service = self.request.service();
            match self.request.auth.spend(service.millis(), number as u64) {
                Ok(()) => return Ok(()),
                Err(Throttled::Wait { retry_after }) => match self.wait(retry_after).await {
                    Ok(()) => {}
                    Err(End::Because(problem)) => return Err(problem),
                    Err(End::Gone) => return Err(closing()),
                },
                Err(why @ Throttled::TooLarge { burst }) => {
                    let problem = throttled(service, why);
                    let burst = (burst as usize).max(1);
                    if number <= burst {
                        return Err(problem);
                    }
                    // Smaller batches from now on; this one is taken in parts.
                    self.batch_max = burst;
                    let (first, rest) = (burst, number - burst);
                    Box::pin(self.spend(first)).await?;
                    return Box::pin(self.spend(rest)).await;
                }
            }
        }
    }

    /// Waits, and reports progress meanwhile.
    async fn wait(&mut self, time: Duration) -> Result<(), End> {
        let app = self.request.app.clone();
        let until = Instant::now() + time;
        loop {
            let next = until.min(self.reported + REPORT_INTERVAL);
            tokio::select! {
                () = tokio::time::sleep_until(next) => {}
                () = self.writer.gone() => return Err(End::Gone),
                () = app.closed() => return Err(closing().into()),
            }
            if self.reported.elapsed() >= REPORT_INTERVAL {
                self.report_progress();
            }
            if Instant::now() >= until {
                return Ok(());
            }
        }
    }

    fn too_long(&self) -> Problem {
        let detail = format!("line {} is longer than the maximum size of a request", self.line + 1);
        Problem::new(ErrorCode::TooLarge, detail)
    }

    fn fail(&mut self, line: u64, problem: Problem) {
        self.progress.failed += 1;
        if self.errors.len() < ERRORS_MAX {
            self.errors.push(LineError { line, problem: problem.into_body() });
        }
    }

    /// Reports progress, without waiting for a slow client.
    fn report_progress(&mut self) {
        self.reported = Instant::now();
        self.writer.write_if_room(text(&self.progress));
    }
}

/// Whether the import retries after this problem.
fn is_retried(problem: &Problem) -> bool {
    matches!(problem.code, ErrorCode::Busy | ErrorCode::Full | ErrorCode::OutcomeUnknown)
}

fn closing() -> Problem {
    Problem::new(
        ErrorCode::Closing,
        "the server is shutting down: repeat the import, the same lines count once",
    )
}

fn text(progress: &Progress) -> Vec<u8> {
    let mut text = serde_json::to_vec(progress).unwrap_or_default();
    text.push(b'\n');
    text
}
