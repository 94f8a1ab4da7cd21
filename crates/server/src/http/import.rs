//! Importing: any number of operations, one on a line, with the progress told while they are done.
//!
//! What must hold: every line has an id, so that an import that broke off can be run again from its beginning. Nothing is read ahead of
//! what the store can take: a client that is faster waits.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderValue, Response, header};
use jeton_auth::Throttled;
use jeton_core::{Operation, Table};
use jeton_engine::Ask;
use serde::Serialize;
use tokio::time::Instant;
use utoipa::ToSchema;

use super::batch;
use super::body::{self, Lines, Writer};
use super::change_body::ChangeBody;
use super::json;
use super::problem::{ErrorCode, Problem, ProblemBody};
use super::request_context::{RequestContext, throttled};

const NDJSON: &str = "application/x-ndjson";

/// Operations that are done at a time.
const BURST: usize = 500;

/// How often progress is told.
const EVERY: Duration = Duration::from_secs(1);

/// Errors that are told in full.
const ERRORS_MAX: usize = 100;

/// The pauses before the store is asked again that was too busy: from the first to the second, doubled each time.
const PAUSES: (Duration, Duration) = (Duration::from_millis(10), Duration::from_secs(1));

/// How far an import is. Told on a line of its own every second, and at the end.
#[derive(Debug, Default, Serialize, ToSchema)]
#[schema(example = json!({"lines": 2, "applied": 1, "refused": 0, "replayed": 1, "probably_seen": 0, "failed": 0, "done": true, "errors": []}))]
pub struct Progress {
    /// Lines read, empty ones not counted.
    lines: u64,
    /// Operations that were new and made.
    applied: u64,
    /// Operations that a bound refused, for good.
    refused: u64,
    /// Operations that were known: of an import before, perhaps.
    replayed: u64,
    /// Operations that a probabilistic table took for known.
    probably_seen: u64,
    /// Lines that were not done.
    failed: u64,
    /// Whether this is the end, and all lines were read.
    done: bool,
    /// The first 100 that were not done. Only at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    errors: Option<Vec<LineError>>,
    /// Why the import ended before the last line, if so: run it again, the same lines count once.
    #[serde(skip_serializing_if = "Option::is_none")]
    stopped: Option<ProblemBody>,
}

/// Why a line was not done.
#[derive(Debug, Serialize, ToSchema)]
pub struct LineError {
    /// Which line, from 1.
    line: u64,
    /// Why.
    #[serde(flatten)]
    problem: ProblemBody,
}

/// Why an import ends early.
enum End {
    /// Nobody reads what it tells.
    Gone,
    Because(Problem),
}

impl From<Problem> for End {
    fn from(problem: Problem) -> Self {
        Self::Because(problem)
    }
}

struct Import {
    asked: RequestContext,
    table: Arc<Table>,
    writer: Writer,
    progress: Progress,
    errors: Vec<LineError>,
    /// The line read last.
    line: u64,
    /// What is to be done next, and on which line it was.
    waiting: Vec<(u64, Operation)>,
    burst: usize,
    told: Instant,
}

/// Imports operations, one on a line.
///
/// Each line is an operation as in a batch, without `table`; its `id` is needed, so that the same file can be imported again after
/// whatever went wrong and counts once. The response begins at once: a line of progress every second and one at the end, which has
/// `done` and the first 100 errors with their lines. A client should read while it writes. Lines with an op other than add need the
/// right `admin`.
#[utoipa::path(
    post, path = "/v1/tables/{table}/import", operation_id = "importOperations", tag = "import",
    request_body(content = String, content_type = "application/x-ndjson", description = "Operations, one on a line.",
        example = "{\"row\":\"page-7\",\"delta\":1,\"id\":\"01890a5d-ac96-774b-bcce-b302099a8057\"}\n{\"row\":\"page-8\",\"delta\":2,\"id\":\"01890a5d-ac96-774b-bcce-b302099a8058\"}\n"),
    params(("table" = String, Path, description = "The table.")),
    responses((status = 200, body = Progress, content_type = "application/x-ndjson", description = "Progress, line by line."),
        (status = "4XX", body = ProblemBody, content_type = "application/problem+json", description = "Before it began: no token, no right, no table, no NDJSON."))
)]
pub async fn post(asked: RequestContext) -> Result<Response<Body>, Problem> {
    let name = asked.table_name()?;
    asked.may_change(&name)?;
    let table = asked.service().engine.table(&name)?;
    asked.no_key()?;
    asked.must_be(&[NDJSON, "application/ndjson", "application/jsonl"])?;
    let (writer, body) = body::channel();
    let import = Import {
        asked,
        table,
        writer,
        progress: Progress::default(),
        errors: Vec::new(),
        line: 0,
        waiting: Vec::new(),
        burst: BURST,
        told: Instant::now(),
    };
    tokio::spawn(import.run());
    let mut response = Response::new(body);
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(NDJSON));
    Ok(response)
}

impl Import {
    async fn run(mut self) {
        let ended = self.all().await;
        match &ended {
            Err(End::Gone) => return,
            // What was read before is done all the same, as far as that is possible.
            Err(End::Because(_)) => drop(self.flush().await),
            Ok(()) => {}
        }
        let mut last = self.progress;
        last.done = ended.is_ok();
        if let Err(End::Because(problem)) = ended {
            last.stopped = Some(problem.into_body());
        }
        last.errors = Some(self.errors);
        let _heard = self.writer.write(text(&last)).await;
    }

    async fn all(&mut self) -> Result<(), End> {
        let mut lines = Lines::new(self.asked.service().options.request_bytes_max);
        let mut body = self.asked.take_body();
        let app = self.asked.app.clone();
        let request_read_timeout = app.service.options.request_read_timeout;
        let mut closed = std::pin::pin!(app.closed());
        let mut found = Vec::new();
        loop {
            let until = Instant::now() + request_read_timeout;
            let piece = loop {
                let left = until.saturating_duration_since(Instant::now());
                tokio::select! {
                    piece = body::next(&mut body, left) => break piece?,
                    () = tokio::time::sleep_until(self.told + EVERY) => {
                        // Somebody may send a line now and then, and wants each counted.
                        self.flush().await?;
                        self.tell();
                    }
                    () = self.writer.gone() => return Err(End::Gone),
                    () = &mut closed => return Err(closing().into()),
                }
            };
            let Some(piece) = piece else { break };
            let read = lines.push(&piece, |line| found.push(line.to_vec()));
            for line in found.drain(..) {
                self.take(&line).await?;
            }
            if read.is_err() {
                let detail = format!("line {} is longer than a request may be", self.line + 1);
                return Err(Problem::new(ErrorCode::TooLarge, detail).into());
            }
        }
        self.take(&lines.end()).await?;
        self.flush().await
    }

    /// Takes a line; with enough of them, does what they say.
    async fn take(&mut self, line: &[u8]) -> Result<(), End> {
        self.line += 1;
        let line = line.trim_ascii();
        if line.is_empty() {
            return Ok(());
        }
        self.progress.lines += 1;
        match self.operation(line) {
            Ok(operation) => self.waiting.push((self.line, operation)),
            Err(problem) => self.fail(self.line, problem),
        }
        if self.waiting.len() >= self.burst {
            self.flush().await?;
        }
        if self.told.elapsed() >= EVERY {
            self.tell();
        }
        Ok(())
    }

    fn operation(&self, line: &[u8]) -> Result<Operation, Problem> {
        let step: ChangeBody = json::object(line)?;
        if step.table.is_some() {
            return Err(Problem::new(
                ErrorCode::BadJson,
                "`table` is in the path, and the same for all lines",
            ));
        }
        if step.id.is_none() {
            let detail = "a line of an import needs an `id`: without it, importing again would count again";
            return Err(Problem::new(ErrorCode::IdRequired, detail));
        }
        self.asked.may(&self.table.name, step.op.right())?;
        batch::operation(&self.asked, &self.table, step)
    }

    /// Does all that waits.
    async fn flush(&mut self) -> Result<(), End> {
        while !self.waiting.is_empty() {
            let number = self.waiting.len().min(self.burst);
            let some = self.waiting.drain(..number).collect();
            self.some(some).await?;
        }
        Ok(())
    }

    /// Does some, again and again while the store is busy: the ids are the same.
    async fn some(&mut self, mut left: Vec<(u64, Operation)>) -> Result<(), End> {
        if let Err(problem) = self.spend(left.len()).await {
            // What is not done now can be done by the next import.
            left.iter().for_each(|(line, _)| self.fail(*line, problem.clone()));
            return Ok(());
        }
        let patience = self.asked.service().options.request_timeout;
        let mut since = Instant::now();
        let mut pause = PAUSES.0;
        loop {
            let asks = left.iter().map(|(_, operation)| Ask::Apply(operation.clone())).collect();
            let answers = self.asked.app.submit_batch(&self.asked.pass, asks).await;
            let outcomes: Vec<_> = match answers {
                Ok(answers) => left
                    .iter()
                    .zip(answers)
                    .map(|((_, operation), answer)| {
                        batch::outcome(&self.table, operation.partition(), answer)
                    })
                    .collect(),
                Err(problem) => left.iter().map(|_| Err(problem.clone())).collect(),
            };
            let before = left.len();
            let mut again = Vec::new();
            for ((line, operation), outcome) in left.into_iter().zip(outcomes) {
                match outcome {
                    Ok(outcome) if outcome.fate.probably_seen => self.progress.probably_seen += 1,
                    Ok(outcome) if outcome.fate.replayed => self.progress.replayed += 1,
                    Ok(outcome) if outcome.fate.applied => self.progress.applied += 1,
                    Ok(_) => self.progress.refused += 1,
                    Err(problem) if passes(problem.code) && since.elapsed() < patience => {
                        again.push((line, operation))
                    }
                    Err(problem) => self.fail(line, problem),
                }
            }
            if again.is_empty() {
                return Ok(());
            }
            if again.len() < before {
                (since, pause) = (Instant::now(), PAUSES.0);
            }
            left = again;
            self.wait(pause).await?;
            pause = (pause * 2).min(PAUSES.1);
        }
    }

    /// Takes so many from the caller's rate, and waits until there are so many.
    async fn spend(&mut self, number: usize) -> Result<(), Problem> {
        loop {
            let service = self.asked.service();
            match self.asked.pass.spend(service.millis(), number as u64) {
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
                    // In smaller steps from now on; this one is paid for step by step.
                    self.burst = burst;
                    let (first, rest) = (burst, number - burst);
                    Box::pin(self.spend(first)).await?;
                    return Box::pin(self.spend(rest)).await;
                }
            }
        }
    }

    /// Waits, and tells progress meanwhile.
    async fn wait(&mut self, time: Duration) -> Result<(), End> {
        let app = self.asked.app.clone();
        let until = Instant::now() + time;
        loop {
            let next = until.min(self.told + EVERY);
            tokio::select! {
                () = tokio::time::sleep_until(next) => {}
                () = self.writer.gone() => return Err(End::Gone),
                () = app.closed() => return Err(closing().into()),
            }
            if self.told.elapsed() >= EVERY {
                self.tell();
            }
            if Instant::now() >= until {
                return Ok(());
            }
        }
    }

    fn fail(&mut self, line: u64, problem: Problem) {
        self.progress.failed += 1;
        if self.errors.len() < ERRORS_MAX {
            self.errors.push(LineError { line, problem: problem.into_body() });
        }
    }

    /// Tells how far it is. A client that does not listen misses it; it must not hold up the import.
    fn tell(&mut self) {
        self.told = Instant::now();
        self.writer.write_if_room(text(&self.progress));
    }
}

/// Whether waiting may help.
fn passes(code: ErrorCode) -> bool {
    matches!(code, ErrorCode::Busy | ErrorCode::Full | ErrorCode::OutcomeUnknown)
}

fn closing() -> Problem {
    Problem::new(ErrorCode::Closing, "the server is closing: run the import again, the same lines count once")
}

fn text(progress: &Progress) -> Vec<u8> {
    let mut text = serde_json::to_vec(progress).unwrap_or_default();
    text.push(b'\n');
    text
}
