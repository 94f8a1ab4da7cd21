//! The limits of connections as a table in `docs/limits.md`, which is checked here.

use std::path::Path;

use jeton_core::units::{format_duration, format_size};
use jeton_resp::request_parser::Limits;

use crate::client_memory::{
    BUDGET_DIVISOR, CHUNK_BYTES, CONNECTION_BYTES_MAX, CONNECTION_DIVISOR, CONNECTIONS_MAX, READS_DIVISOR,
};
use crate::http::{import, request_context, watch};
use crate::resp::{command_table, connection, multi_step, pipeline};
use crate::service::Options;

const BEGIN: &str = "<!-- limits: written by cargo xtask fix -->\n";
const END: &str = "<!-- end of limits -->\n";

/// Limit, value or setting, where it applies, error or effect, metric.
type Row = [String; 5];

fn rows() -> Vec<Row> {
    let (options, parser) = (Options::default(), Limits::default());
    let size = |bytes: usize| format_size(bytes as u64);
    let seconds = format_duration(options.request_read_timeout);
    let setting = |name: &str, default: String| format!("`{name}` ({default})");
    let closed = "`ERR closed: …`, or the problem `busy` or `too-large`; the connection is closed";
    let [memory_metric, no_metric] = ["`jeton_client_memory_closed_total`", ""];
    let hits = |limit: &str| format!("`jeton_limit_hits_total{{limit=\"{limit}\"}}`");
    let mut rows: Vec<Row> = Vec::new();
    let mut add = |limit: &str, value: String, applies: &str, effect: &str, metric: &str| {
        rows.push([limit.into(), value, applies.into(), effect.into(), metric.into()]);
    };
    let default = format!("1/{BUDGET_DIVISOR} of the memory of the machine or cgroup");
    let all = "requests, bodies, replies, queued commands, imports, watches";
    add("memory of all clients", setting("client_memory_max", default), all, closed, memory_metric);
    let value =
        format!("1/{CONNECTION_DIVISOR} of `client_memory_max`, at most {}", size(CONNECTION_BYTES_MAX));
    add("memory of a connection", value, all, closed, memory_metric);
    let value = format!("1/{READS_DIVISOR} of `client_memory_max`");
    add("memory of values read and not yet in a reply", value, "reads", "reads wait", no_metric);
    let effect = "changes below it are not charged";
    add("step of a charge", size(CHUNK_BYTES), "connection", effect, no_metric);
    add("memory of a watch", size(watch::WATCH_BYTES), "watch", "charged as a whole", no_metric);
    let default = format!("{CONNECTIONS_MAX}, or `client_memory_max` / {}", size(2 * CHUNK_BYTES));
    let effect = "`ERR max number of clients reached`, or the problem `busy`";
    let metric = "`jeton_connections_rejected_total`";
    add("open connections", setting("connections_max", default), "protocol", effect, metric);

    let value = setting("request_bytes_max", size(options.request_bytes_max));
    let effect = "`ERR Protocol error: too big request`, or the problem `too-large`";
    add("bytes of a request, or of a line of an import", value, "RESP, HTTP", effect, &hits("request_bytes"));
    let value = setting("request_read_timeout", seconds.clone());
    let effect = "the connection is closed";
    let applies = "the whole of a started command, head, body, or line of an import that is not empty";
    add("time to send a request", value, applies, effect, &hits("request_read_timeout"));
    let value = setting("request_read_timeout", seconds);
    let applies = &format!("{} of a reply, or the rest of it", size(connection::OUT_BYTES_MAX));
    add("time to read a reply", value, applies, effect, &hits("reply_timeout"));
    let value = setting("request_timeout", format_duration(options.request_timeout));
    add("time to execute a request", value, "RESP, HTTP", "the outcome is unknown", &hits("request_timeout"));
    let value = size(connection::IDLE_BYTES_MAX);
    add("capacity of a buffer of an idle connection", value, "RESP", "it is released", no_metric);

    let value = parser.arguments.to_string();
    let error = "`ERR Protocol error: invalid multibulk length`";
    add("arguments of a command", value, "RESP", error, &hits("arguments"));
    let error = "`ERR Protocol error: invalid bulk length`";
    add("bytes of an argument", size(parser.argument_bytes), "RESP", error, &hits("argument_bytes"));
    let value =
        format!("{} of {}", parser.unauthenticated_arguments, size(parser.unauthenticated_argument_bytes));
    let error = "`ERR Protocol error: unauthenticated …`";
    add("arguments before authentication", value, "RESP", error, &hits("unauthenticated_arguments"));
    let error = "`ERR Protocol error: too big inline request`";
    add("bytes of an inline command", size(parser.inline_bytes), "RESP", error, &hits("inline_bytes"));
    let value = command_table::ARGUMENTS_MAX.to_string();
    let error = "`ERR this command has at most …`";
    add("arguments of a command without a list of keys", value, "RESP", error, &hits("command_size"));
    let value = command_table::KEYS_MAX.to_string();
    add("keys of a command", value, "RESP", "`ERR a command names at most …`", &hits("command_size"));
    let value = format!("{}, or 1/4 of the memory of a connection", size(multi_step::REPLY_BYTES_MAX));
    let error = "`ERR the reply is longer than …`; nothing changes";
    let applies = "`EXEC`, `MGET` of many keys";
    add("bytes of a reply, and of the values read for it", value, applies, error, &hits("reply_bytes"));
    let value = format!("1/{} of the memory of a connection", request_context::VALUES_FRACTION);
    add("values read by a request", value, "HTTP", "the problem `too-large`", &hits("reply_bytes"));
    let error = "`ERR a transaction has at most …`; `EXECABORT`";
    add(
        "commands of a transaction",
        pipeline::QUEUED_MAX.to_string(),
        "`MULTI`",
        error,
        &hits("transaction"),
    );
    let value = pipeline::QUEUED_KEYS_MAX.to_string();
    let applies = "`MULTI`, `MSETNX`";
    add("keys of a transaction", value, applies, "`ERR … names at most …`", &hits("transaction"));
    let value = "`request_bytes_max`".into();
    add("memory of the commands of a transaction", value, "`MULTI`", error, &hits("transaction"));
    let value = format!(
        "{} commands or requests, {} reads, {}",
        pipeline::BATCH_REQUESTS_MAX,
        pipeline::BATCH_READS_MAX,
        size(pipeline::BATCH_BYTES_MAX)
    );
    add("pipeline batch", value, "RESP", "the rest is the next batch", no_metric);
    let value = format!("{} lines, {}", import::BATCH_MAX, size(import::BATCH_BYTES_MAX));
    add("batch of an import", value, "HTTP", "the rest is the next batch", no_metric);
    rows
}

/// The text with a fresh table between its marks. `None` without marks.
fn with_table(text: &str) -> Option<String> {
    let (before, rest) = text.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    let mut table = String::from(
        "\n| limit | value or setting (default) | applies to | error or effect | metric |\n|---|---|---|---|---|\n",
    );
    for row in rows() {
        table += &format!("| {} |\n", row.join(" | "));
    }
    Some(format!("{before}{BEGIN}{table}\n{END}{after}"))
}

#[test]
fn docs_limits_md_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/limits.md");
    let text = std::fs::read_to_string(&path).unwrap();
    let fresh = with_table(&text).expect("docs/limits.md has the marks");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, fresh).unwrap();
    } else {
        assert!(text == fresh, "docs/limits.md is out of date: run cargo xtask fix");
    }
}
