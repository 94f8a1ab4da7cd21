//! Renders a sample as lines of text.

use std::time::Duration;

use super::sample::{Sample, label};
use crate::number_format;
use crate::output;

/// Outcomes that are always shown; others only if they occurred.
const ALWAYS: [&str; 3] = ["applied", "replayed", "refused"];

/// Renders a sample. With a previous sample, counters are shown as rates.
pub fn frame(address: &str, before: Option<&Sample>, now: &Sample, passed: Duration) -> Vec<String> {
    let rate = |name: &str, labels: &str| {
        let grown = now.labelled(name, labels) - before.map_or(0.0, |before| before.labelled(name, labels));
        let per = if before.is_some() { passed.as_secs_f64().max(1e-3) } else { 1.0 };
        (grown.max(0.0) / per).round() as u64
    };
    let unit = if before.is_some() { "per second" } else { "so far" };
    let mut lines = vec![format!("jeton at {address}"), String::new(), format!("operations {unit}")];
    for (labels, _) in now.all("jeton_operations_total") {
        let outcome = label(labels, "outcome").unwrap_or(labels);
        if ALWAYS.contains(&outcome) || now.labelled("jeton_operations_total", labels) > 0.0 {
            lines.push(format!(
                "  {outcome:<14} {:>12}",
                number_format::grouped(rate("jeton_operations_total", labels))
            ));
        }
    }
    lines.push(format!("  {:<14} {:>12}", "read", number_format::grouped(rate("jeton_reads_total", ""))));
    lines.push(String::new());
    let open = |protocol: &str| now.labelled("jeton_connections", &format!("protocol=\"{protocol}\"")) as u64;
    lines.push(format!(
        "connections     {} RESP, {} HTTP",
        number_format::grouped(open("resp")),
        number_format::grouped(open("http"))
    ));
    let bytes = |name: &str| number_format::bytes(now.get(name) as u64);
    lines.push(format!(
        "on disk         {} of values, {} of ids; {} written to the log since the start",
        bytes("jeton_value_bytes"),
        bytes("jeton_index_bytes"),
        bytes("jeton_log_bytes_total")
    ));
    for (name, text) in [
        (
            "jeton_storage_error",
            "ERROR           storage error: see the log of the server, and jeton doctor there",
        ),
        ("jeton_maintenance_error", "ERROR           maintenance error: see the log of the server"),
        ("jeton_index_damaged", "ERROR           the id index is damaged: see the log of the server"),
    ] {
        if now.get(name) > 0.0 {
            lines.push(text.into());
        }
    }
    lines.push(String::new());
    lines.extend(tables(now));
    lines
}

fn tables(now: &Sample) -> Vec<String> {
    let rows: Vec<[String; 5]> = now
        .all("jeton_filter_bytes")
        .map(|(labels, bytes)| {
            let of = |name: &str| now.labelled(name, labels);
            let pressure = if of("jeton_filter_pressure") > 0.0 { " (above its target)" } else { "" };
            [
                label(labels, "table").unwrap_or("-").to_owned(),
                label(labels, "ids").unwrap_or("-").to_owned(),
                number_format::grouped(of("jeton_filter_ids") as u64),
                number_format::bytes(bytes as u64),
                format!(
                    "{} ({}){pressure}",
                    number_format::percent(of("jeton_filter_false_positive_rate")),
                    number_format::percent(of("jeton_filter_false_positive_rate_target"))
                ),
            ]
        })
        .collect();
    output::columns(&["TABLE", "IDS", "REMEMBERED", "FILTER", "ERROR (TARGET)"].map(String::from), &rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# HELP x y\njeton_operations_total{outcome=\"applied\"} 100\njeton_operations_total{outcome=\"busy\"} 0\n\
        jeton_reads_total 7\njeton_connections{protocol=\"resp\"} 3\njeton_storage_error 1\n\
        jeton_filter_bytes{table=\"clicks\",ids=\"dated\"} 4096\njeton_filter_ids{table=\"clicks\",ids=\"dated\"} 1234\n\
        jeton_filter_false_positive_rate{table=\"clicks\",ids=\"dated\"} 0.0001\njeton_filter_false_positive_rate_target{table=\"clicks\",ids=\"dated\"} 0.001\n";

    #[test]
    fn a_frame_has_rates_tables_and_errors() {
        let before = Sample::of(TEXT);
        let now = Sample::of(&TEXT.replace("} 100\n", "} 700\n"));
        let text = frame("here", Some(&before), &now, Duration::from_secs(2)).join("\n");
        for words in
            ["jeton at here", "applied                 300", "3 RESP, 0 HTTP", "storage error", "clicks"]
        {
            assert!(text.contains(words), "{words:?} is not in:\n{text}");
        }
        assert!(text.contains("1,234") && text.contains("4 kB") && text.contains("0.01 % (0.1 %)"), "{text}");
        assert!(!text.contains("busy"), "an outcome that never occurred is not shown:\n{text}");
        let once = frame("here", None, &now, Duration::ZERO).join("\n");
        assert!(once.contains("so far") && once.contains("700"), "{once}");
    }
}
