//! Targets, and whether they were met.

use super::latency::{Row, percent};
use super::statistics::Estimate;
use super::throughput;

/// One line: met or missed, the value, and the target.
fn bar(what: &str, ratio: Estimate, limit: f64) -> String {
    let Estimate { value, low, high } = ratio;
    let verdict = match (low <= limit, value <= limit) {
        (_, true) => "held",
        (true, false) => "missed, within the noise",
        (false, false) => "MISSED",
    };
    let (value, low, high, limit) = (percent(value), percent(low), percent(high), percent(limit));
    format!("{what}: {value} ({low} to {high}), at most {limit}: {verdict}")
}

pub(crate) fn latency(rows: &[Row]) -> Vec<String> {
    let mut lines = vec!["Goals:".to_owned()];
    for row in rows.iter().filter(|row| row.protocol.is_etx()) {
        let who = format!("{}, {} ms of SQL, {}", row.mariadb, row.sql_ms, row.protocol.name());
        if let Some(ratio) = row.over_nothing {
            lines.push(bar(&format!("{who}, to 2PC presumed nothing"), ratio, 1.0));
        }
        if let Some(ratio) = row.over_abort {
            lines.push(bar(&format!("{who}, to 2PC presumed abort"), ratio, 1.05));
        }
        if row.protocol.databases() == 2 && row.sql_ms == 187 {
            lines.push(bar(&format!("{who}, to two commits"), row.over_baseline, 1.16));
        }
        if row.protocol.databases() == 1 && row.sql_ms == 10 {
            lines.push(bar(&format!("{who}, to the plain transaction"), row.over_baseline, 1.03));
        }
    }
    lines
}

pub(crate) fn throughput(rows: &[throughput::Row]) -> Vec<String> {
    let mut lines = vec!["Goals:".to_owned()];
    for row in rows.iter().filter(|row| row.clients == 64 && row.protocol.is_etx()) {
        if row.protocol.databases() == 2 {
            let Estimate { value, low, high } = row.ratio;
            let verdict = match (high >= 0.95, value >= 0.95) {
                (_, true) => "held",
                (true, false) => "missed, within the noise",
                (false, false) => "MISSED",
            };
            let who = row.protocol.name();
            lines.push(format!(
                "64 clients, {who}: {value:.3} ({low:.3} to {high:.3}) of 2PC presumed abort, at least 0.950: {verdict}"
            ));
        }
    }
    lines
}
