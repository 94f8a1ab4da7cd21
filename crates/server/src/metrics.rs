//! Counters, gauges and latency histograms of the service.
//!
//! All of them are atomics, updated without locks; `http/metrics_text.rs` writes them in the text format.
//! What must hold: the set of labels is bounded, whatever clients send. Unknown commands share one label, and
//! so do unknown paths and methods.

use std::collections::BTreeMap;
use std::sync::RwLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use jeton_core::ErrorCode;
use jeton_engine::{EngineError, OperationOutcome, Response};

use crate::error_code::engine_error_code;
use crate::latency_histogram::LatencyHistogram;
use crate::resp::COMMANDS;

/// A family of metrics: samples of one name that differ in a label.
pub struct Family {
    /// Without the suffix `_total` of counters.
    pub name: &'static str,
    pub help: &'static str,
    /// Whether its values only grow.
    pub is_counter: bool,
    /// Its samples with their label, if the family has one.
    pub samples: &'static [(Metric, Option<(&'static str, &'static str)>)],
}

macro_rules! families {
    ($($name:literal, $kind:ident, $help:literal: { $($metric:ident $(: $key:literal = $value:literal)?),* $(,)? })*) => {
        /// A counter or gauge with its label.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Metric {
            $($(#[doc = $help] $metric,)*)*
        }

        pub const FAMILIES: &[Family] = &[$(Family {
            name: $name,
            help: $help,
            is_counter: families!(@ $kind),
            samples: &[$((Metric::$metric, families!(@label $($key = $value)?))),*],
        }),*];

        const METRICS: usize = [$($(Metric::$metric),*),*].len();
    };
    (@ counter) => { true };
    (@ gauge) => { false };
    (@label) => { None };
    (@label $key:literal = $value:literal) => { Some(($key, $value)) };
}

families! {
    "jeton_operations", counter, "Operations by outcome; rejections and errors by their code": {
        Applied: "outcome" = "applied",
        Refused: "outcome" = "refused",
        Replayed: "outcome" = "replayed",
        ProbablySeen: "outcome" = "probably-seen",
    }
    "jeton_reads", counter, "Cells read": { Read }
    "jeton_connections_accepted", counter, "Connections accepted": {
        RespConnections: "protocol" = "resp",
        HttpConnections: "protocol" = "http",
    }
    "jeton_connections", gauge, "Open connections": {
        RespOpen: "protocol" = "resp",
        HttpOpen: "protocol" = "http",
    }
    "jeton_connections_rejected", counter, "Connections closed because too many were open": { TurnedAway }
    "jeton_limit_hits", counter, "Requests and connections beyond a limit": {
        RequestBytesHit: "limit" = "request_bytes",
        HeadBytesHit: "limit" = "head_bytes",
        ReadTimeoutHit: "limit" = "request_read_timeout",
        WriteTimeoutHit: "limit" = "reply_timeout",
        RequestTimeoutHit: "limit" = "request_timeout",
        ArgumentsHit: "limit" = "arguments",
        ArgumentBytesHit: "limit" = "argument_bytes",
        UnauthenticatedHit: "limit" = "unauthenticated_arguments",
        InlineBytesHit: "limit" = "inline_bytes",
        CommandSizeHit: "limit" = "command_size",
        ReplyBytesHit: "limit" = "reply_bytes",
        TransactionHit: "limit" = "transaction",
    }
    "jeton_commands", counter, "RESP commands": { Commands }
    "jeton_http_requests", counter, "HTTP requests": { HttpRequests }
    "jeton_http_on_resp", counter, "Connections closed because they sent an HTTP request to the port of RESP": {
        HttpOnResp
    }
    "jeton_denied", counter, "Requests rejected by authentication or authorization": { Denied }
    "jeton_authentication_failures", counter, "Wrong, expired and revoked tokens": {
        RespAuthFailures: "protocol" = "resp",
        HttpAuthFailures: "protocol" = "http",
    }
    "jeton_throttled", counter, "Requests rejected by the rate limit of their token": { Throttled }
}

/// The label of commands that the server does not know.
const UNKNOWN_COMMAND: &str = "unknown";

/// The label of HTTP requests whose path matches no route.
const UNKNOWN_ROUTE: &str = "unknown";

/// The methods that HTTP routes have. Others are rejected and share a label.
const METHODS: [&str; 4] = ["GET", "POST", "PUT", "other"];

type RouteLatencies = [LatencyHistogram; METHODS.len()];

#[derive(Debug)]
pub struct Metrics {
    values: [AtomicU64; METRICS],
    errors: Box<[AtomicU64]>,
    /// By the position of the command in the command table; the last one is for unknown commands.
    commands: Box<[LatencyHistogram]>,
    /// By route. Written once for each route, when its first request completes.
    routes: RwLock<BTreeMap<String, RouteLatencies>>,
}

impl Default for Metrics {
    fn default() -> Self {
        Self {
            values: std::array::from_fn(|_| AtomicU64::new(0)),
            errors: ErrorCode::all().map(|_| AtomicU64::new(0)).collect(),
            commands: (0..=COMMANDS.len()).map(|_| LatencyHistogram::default()).collect(),
            routes: RwLock::default(),
        }
    }
}

impl Metrics {
    pub fn add(&self, metric: Metric, number: u64) {
        self.values[metric as usize].fetch_add(number, Ordering::Relaxed);
    }

    /// Subtracts `number` from a gauge.
    pub fn take(&self, metric: Metric, number: u64) {
        self.values[metric as usize].fetch_sub(number, Ordering::Relaxed);
    }

    pub fn get(&self, metric: Metric) -> u64 {
        self.values[metric as usize].load(Ordering::Relaxed)
    }

    pub fn add_error(&self, error: ErrorCode) {
        self.errors[error as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub fn errors(&self, error: ErrorCode) -> u64 {
        self.errors[error as usize].load(Ordering::Relaxed)
    }

    pub fn add_outcome(&self, outcome: &Result<OperationOutcome, EngineError>) {
        match outcome {
            Ok(OperationOutcome::Fresh(result)) if result.applied => self.add(Metric::Applied, 1),
            Ok(OperationOutcome::Fresh(_)) => self.add(Metric::Refused, 1),
            Ok(OperationOutcome::Replayed(_)) => self.add(Metric::Replayed, 1),
            Ok(OperationOutcome::ProbablySeen) => self.add(Metric::ProbablySeen, 1),
            Err(error) => self.add_error(engine_error_code(error)),
        }
    }

    /// Counts the operations and reads of a batch. Applied operations and reads, the most frequent, are added
    /// once.
    pub fn add_responses(&self, responses: &[Response]) {
        let (mut applied, mut read) = (0, 0);
        for response in responses {
            match response {
                Response::Applied(Ok(OperationOutcome::Fresh(result))) if result.applied => applied += 1,
                Response::Applied(outcome) => self.add_outcome(outcome),
                _ => read += 1,
            }
        }
        self.add(Metric::Applied, applied);
        self.add(Metric::Read, read);
    }

    /// Counts the commands of a pipeline batch and their latency, and empties the list. A client receives the
    /// replies of a batch together, so each command has the latency of the batch.
    pub fn observe_batch(&self, batch: &mut BatchCommands) {
        let Some(started) = batch.started.take() else { return };
        let latency = started.elapsed();
        let mut commands = 0;
        for (command, number) in batch.runs.drain(..) {
            self.command_latency(command).observe(latency, number);
            commands += number;
        }
        self.add(Metric::Commands, commands);
    }

    /// Counts a command that runs on its own, and its latency.
    pub fn observe_command(&self, command: &'static str, latency: Duration) {
        self.command_latency(Some(command)).observe(latency, 1);
        self.add(Metric::Commands, 1);
    }

    fn command_latency(&self, command: Option<&'static str>) -> &LatencyHistogram {
        let unknown = self.commands.len() - 1;
        let position =
            |name: &str| COMMANDS.binary_search_by(|known| known.name.cmp(name)).unwrap_or(unknown);
        &self.commands[command.map_or(unknown, position)]
    }

    /// Counts the time until the head of the response to an HTTP request. `route` is the pattern of the path,
    /// not the path itself; `None` if no route matches.
    pub fn observe_http(&self, method: &str, route: Option<&str>, latency: Duration) {
        let method = METHODS.iter().position(|known| *known == method).unwrap_or(METHODS.len() - 1);
        let route = route.unwrap_or(UNKNOWN_ROUTE);
        if let Ok(routes) = self.routes.read()
            && let Some(latencies) = routes.get(route)
        {
            latencies[method].observe(latency, 1);
            return;
        }
        // A poisoned lock loses the latency of the request, nothing else.
        if let Ok(mut routes) = self.routes.write() {
            routes.entry(route.to_owned()).or_default()[method].observe(latency, 1);
        }
    }

    /// Every RESP command and its latencies.
    pub fn commands(&self) -> impl Iterator<Item = (&'static str, &LatencyHistogram)> {
        COMMANDS.iter().map(|command| command.name).chain([UNKNOWN_COMMAND]).zip(&self.commands)
    }

    /// Calls `visit` with the method, the route and the latencies of every HTTP route that had requests.
    pub fn visit_routes<E>(
        &self,
        mut visit: impl FnMut(&str, &str, &LatencyHistogram) -> Result<(), E>,
    ) -> Result<(), E> {
        let Ok(routes) = self.routes.read() else { return Ok(()) };
        for (route, latencies) in routes.iter() {
            for (method, latencies) in METHODS.iter().zip(latencies) {
                visit(method, route, latencies)?;
            }
        }
        Ok(())
    }
}

/// The commands of a pipeline batch: runs of the same command, and the time at which the first one was
/// parsed.
#[derive(Debug, Default)]
pub struct BatchCommands {
    started: Option<Instant>,
    runs: Vec<(Option<&'static str>, u64)>,
}

impl BatchCommands {
    /// Adds a command by its name in capitals; `None` if the server does not know it.
    pub fn push(&mut self, command: Option<&'static str>) {
        match self.runs.last_mut() {
            Some((last, number)) if *last == command => *number += 1,
            _ => {
                self.started.get_or_insert_with(Instant::now);
                self.runs.push((command, 1));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_of_a_batch_is_counted() {
        let metrics = Metrics::default();
        let mut batch = BatchCommands::default();
        for name in [Some("GET"), Some("GET"), Some("JADD"), None, None, Some("GET")] {
            batch.push(name);
        }
        metrics.observe_batch(&mut batch);
        metrics.observe_batch(&mut batch);
        metrics.observe_command("SCAN", Duration::from_millis(1));
        let counts = metrics.commands().filter_map(|(name, all)| Some((name, all.snapshot()?.count)));
        let expected = [("GET", 3), ("JADD", 1), ("SCAN", 1), ("unknown", 2)];
        assert_eq!(counts.collect::<Vec<_>>(), expected);
        assert_eq!(metrics.get(Metric::Commands), 7);
    }

    #[test]
    fn unknown_methods_and_paths_share_a_label() {
        let metrics = Metrics::default();
        for (method, route) in [("GET", Some("/v1/batch")), ("BREW", None), ("DELETE", None), ("GET", None)] {
            metrics.observe_http(method, route, Duration::from_micros(7));
        }
        let mut counts = Vec::new();
        let visited: Result<(), ()> = metrics.visit_routes(|method, route, latencies| {
            counts.extend(latencies.snapshot().map(|found| (format!("{method} {route}"), found.count)));
            Ok(())
        });
        visited.unwrap();
        let expected = [("GET /v1/batch", 1), ("GET unknown", 1), ("other unknown", 2)];
        assert_eq!(counts, expected.map(|(label, number)| (label.to_owned(), number)));
    }
}
