//! Replays the corpus of the fuzz target `config`.

#[path = "../tests/fuzzed/mod.rs"]
mod fuzzed;
#[path = "../../../testing/fuzz/replay.rs"]
mod replay;

use fuzzed::{DURATION, FILE, SIZE, TOKENS};
use jeton_auth::{Grant, Limits, RANDOM_BYTES, Rate, Rights, TableRule, TokenStore};

const SETTINGS: &str = r#"
data = "jeton-data"
resp = "localhost:6380"
http = "[::1]:6381"
http_tls = "off"
tokens = "tokens.json"
http_hosts = "counters.example.org, b:81"
insecure = false
connections_max = 10_000
client_memory_max = "256 MiB"
request_timeout = "1h30m"
log_level = "debug"
"#;

const TRANSACTIONS: &str = r#"
shards = 2
[transactions]
cluster = 7
servers = ["http://127.0.0.1:6381"]
registers = "embedded"
window = "24h"
[databases.ledger]
kind = "postgres"
number = 0
url = "postgres://localhost/ledger"
[databases.stock]
kind = "mariadb"
number = 1
url_variable = "STOCK_URL"
[procedures.transfer]
about = "Moves money"
parameters = { from = "integer", to = "text", amount = { kind = "number", min = 1, max = 9 } }
returns = { left = "debit.balance", amount = ":amount", count = "rows" }
[[procedures.transfer.steps]]
name = "debit"
database = "ledger"
run = "UPDATE a SET balance = balance - :amount WHERE id = :from AND note <> ':x''' -- ? :y"
require = [{ that = "rows = 1", otherwise = "no account" }, { that = "balance >= -0.5", otherwise = "not enough" }]
[[procedures.transfer.steps]]
database = "stock"
run = "UPDATE `a:b` SET n = n + :amount /* :z */ WHERE id = :to;"
require = [{ that = "debit.name != 'it''s'", otherwise = "wrong" }]
"#;

fn tokens() -> String {
    let mut store = TokenStore::new();
    let tables = vec![TableRule { pattern: "clicks*".parse().unwrap(), rights: Rights::ALL }];
    let operations = Some(Rate { per_second: 100, burst: 200 });
    let limits = Limits { operations, tables: Some(1), counters: Some(1000) };
    let grant =
        Grant { tables, server: true, expires: Some(2_000_000_000_000), limits, ..Grant::new("admin") };
    store.add(grant, &[1; RANDOM_BYTES], 0).unwrap();
    store.rotate("admin", &[2; RANDOM_BYTES], 1, 1_000_000).unwrap();
    store.add(Grant::new("idle"), &[3; RANDOM_BYTES], 0).unwrap();
    store.to_json()
}

#[test]
fn text_of_operators_is_rejected_or_read_again() {
    let with = |choice: u8, text: &str| [&[choice], text.as_bytes()].concat();
    let seeds: replay::Seeds = vec![
        ("settings", with(FILE, SETTINGS)),
        ("transactions", with(FILE, TRANSACTIONS)),
        ("mistyped", with(FILE, "conections_max = 5")),
        ("renamed", with(FILE, "[transactions]\nworks_max = 1")),
        ("cut", with(FILE, "shards = ")),
        ("tokens", with(TOKENS, &tokens())),
        ("no-tokens", with(TOKENS, r#"{"version":1,"tokens":[]}"#)),
        ("duration", with(DURATION, " 1d2h3m4s5ms")),
        ("long-duration", with(DURATION, "213503982334d")),
        ("size", with(SIZE, "1_024 k")),
        ("large-size", with(SIZE, "17179869183GiB")),
    ];
    replay::seeds("config", &seeds);
    replay::each("config", fuzzed::config);
}
