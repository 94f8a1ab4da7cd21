//! What the service counts about itself.

use std::sync::atomic::{AtomicU64, Ordering};

use jeton_core::Rejection;
use jeton_engine::{EngineError, OperationOutcome};

macro_rules! counts {
    ($($name:ident, $metric:literal, $label:literal, $help:literal;)*) => {
        /// Something that is counted.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Metric {
            $(#[doc = $help] $name,)*
        }

        impl Metric {
            /// All of them, those of one metric together.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// The name of its metric.
            pub const fn metric(self) -> &'static str {
                match self { $(Self::$name => $metric,)* }
            }

            /// What tells it from the others of its metric; empty if it is the only one.
            pub const fn label(self) -> &'static str {
                match self { $(Self::$name => $label,)* }
            }

            /// What it counts.
            pub const fn help(self) -> &'static str {
                match self { $(Self::$name => $help,)* }
            }
        }
    };
}

counts! {
    Applied, "jeton_operations_total", "outcome=\"applied\"", "operations that were new and made";
    Refused, "jeton_operations_total", "outcome=\"refused\"", "operations that a bound or a check refused";
    Replayed, "jeton_operations_total", "outcome=\"replayed\"", "operations that were known: retries";
    ProbablySeen, "jeton_operations_total", "outcome=\"probably-seen\"", "operations that a probabilistic table took for known";
    Mismatch, "jeton_operations_total", "outcome=\"mismatch\"", "operations with an id that was used for another";
    Expired, "jeton_operations_total", "outcome=\"expired\"", "operations with an id older than is remembered";
    FromFuture, "jeton_operations_total", "outcome=\"from-future\"", "operations with an id dated too far ahead";
    Session, "jeton_operations_total", "outcome=\"session\"", "operations of sessions that are fenced or unknown";
    Invalid, "jeton_operations_total", "outcome=\"invalid\"", "operations that cannot be made";
    Busy, "jeton_operations_total", "outcome=\"busy\"", "operations that were turned away because too much was under way";
    Unavailable, "jeton_operations_total", "outcome=\"unavailable\"", "operations that could not be stored";
    Quota, "jeton_operations_total", "outcome=\"quota\"", "operations that would have created more counters than their token may";
    Read, "jeton_reads_total", "", "cells that were read";
    RespConnections, "jeton_connections_total", "protocol=\"resp\"", "connections that were accepted";
    HttpConnections, "jeton_connections_total", "protocol=\"http\"", "connections that were accepted";
    RespOpen, "jeton_connections", "protocol=\"resp\"", "connections that are open";
    HttpOpen, "jeton_connections", "protocol=\"http\"", "connections that are open";
    TurnedAway, "jeton_connections_turned_away_total", "", "connections that were closed because there were too many";
    Commands, "jeton_commands_total", "", "commands over RESP";
    HttpRequests, "jeton_http_requests_total", "", "requests over HTTP";
    Denied, "jeton_denied_total", "", "requests without the right to what they asked for";
    Throttled, "jeton_throttled_total", "", "requests beyond the rate of their token";
}

/// What the service counts about itself.
#[derive(Debug)]
pub struct Metrics(Box<[AtomicU64]>);

impl Default for Metrics {
    fn default() -> Self {
        Self(Metric::ALL.iter().map(|_| AtomicU64::new(0)).collect())
    }
}

impl Metrics {
    /// So many more.
    pub fn add(&self, what: Metric, number: u64) {
        self.0[what as usize].fetch_add(number, Ordering::Relaxed);
    }

    /// So many fewer, of what can become fewer.
    pub fn take(&self, what: Metric, number: u64) {
        self.0[what as usize].fetch_sub(number, Ordering::Relaxed);
    }

    /// How many.
    pub fn get(&self, what: Metric) -> u64 {
        self.0[what as usize].load(Ordering::Relaxed)
    }

    /// All of it, as Prometheus reads it.
    pub fn render(&self, out: &mut String) {
        use std::fmt::Write;
        let mut last = "";
        for count in Metric::ALL {
            let (metric, label, value) = (count.metric(), count.label(), self.get(*count));
            if metric != last {
                let kind = if metric.ends_with("_total") { "counter" } else { "gauge" };
                let _in_memory = writeln!(out, "# TYPE {metric} {kind}");
                last = metric;
            }
            let _in_memory = match label {
                "" => writeln!(out, "{metric} {value}"),
                _ => writeln!(out, "{metric}{{{label}}} {value}"),
            };
        }
    }
}

/// As what an operation counts.
pub fn outcome(reply: &Result<OperationOutcome, EngineError>) -> Metric {
    match reply {
        Ok(OperationOutcome::Fresh(answer)) if answer.applied => Metric::Applied,
        Ok(OperationOutcome::Fresh(_)) => Metric::Refused,
        Ok(OperationOutcome::Replayed(_)) => Metric::Replayed,
        Ok(OperationOutcome::ProbablySeen) => Metric::ProbablySeen,
        Err(EngineError::Rejected(rejection)) => match rejection {
            Rejection::Mismatch => Metric::Mismatch,
            Rejection::Expired { .. } | Rejection::Superseded { .. } => Metric::Expired,
            Rejection::FromFuture { .. } => Metric::FromFuture,
            Rejection::Fenced { .. } | Rejection::UnknownSession { .. } | Rejection::EpochAhead { .. } => {
                Metric::Session
            }
            Rejection::Capacity { .. } | Rejection::Reserved => Metric::Busy,
            _ => Metric::Invalid,
        },
        Err(EngineError::Busy(_)) => Metric::Busy,
        Err(EngineError::NoSuchTable(_)) => Metric::Invalid,
        Err(EngineError::Withheld(_)) => Metric::Quota,
        Err(_) => Metric::Unavailable,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_counted_is_rendered_once_under_its_metric() {
        let metrics = Metrics::default();
        metrics.add(Metric::Applied, 3);
        metrics.add(Metric::RespOpen, 2);
        metrics.take(Metric::RespOpen, 1);
        let mut text = String::new();
        metrics.render(&mut text);
        assert!(text.contains("jeton_operations_total{outcome=\"applied\"} 3\n"), "{text}");
        assert!(text.contains("jeton_connections{protocol=\"resp\"} 1\n"), "{text}");
        assert!(text.contains("# TYPE jeton_connections gauge\n"), "{text}");
        for line in text.lines() {
            assert_eq!(text.lines().filter(|other| *other == line).count(), 1, "{line} comes twice");
        }
    }
}
