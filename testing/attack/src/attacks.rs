//! The attacks. `F1` to `F27` are findings of an attack on an earlier version.

use jeton_resp::command;
use jeton_testkit::Rng;

use crate::good_client::{millis, uuid7};
use crate::runner::Payload;
use crate::runner::Style::{self, Abandon, Drip, Hold, Read, Unread};
use crate::target::Target;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    Resp,
    Http,
}

/// Builds the bytes that each connection of a run sends.
type Build = fn(&Target, Option<&str>, &mut Rng) -> Payload;

pub struct Attack {
    pub name: &'static str,
    pub finding: &'static str,
    pub protocol: Protocol,
    /// One of these tokens is drawn for each run; `none` is no token.
    pub tokens: &'static [&'static str],
    pub seconds: u64,
    pub connections: usize,
    pub style: Style,
    pub payload: Build,
}

const ALL: &[&str] = &["none", "reader", "adder", "admin"];
const READERS: &[&str] = &["reader", "admin"];
const SCANNERS: &[&str] = &["scanner"];
const ADDERS: &[&str] = &["adder", "admin"];
const ADMIN: &[&str] = &["admin"];

const JSON: &str = "Content-Type: application/json\r\n";

const fn resp(
    (name, finding): (&'static str, &'static str),
    tokens: &'static [&'static str],
    (seconds, connections, style): (u64, usize, Style),
    payload: Build,
) -> Attack {
    Attack { name, finding, protocol: Protocol::Resp, tokens, seconds, connections, style, payload }
}

const fn http(
    names: (&'static str, &'static str),
    tokens: &'static [&'static str],
    how: (u64, usize, Style),
    payload: Build,
) -> Attack {
    Attack { protocol: Protocol::Http, ..resp(names, tokens, how, payload) }
}

pub const ATTACKS: &[Attack] = &[
    resp(("SCAN with the longest pattern", "F5"), SCANNERS, (6, 3, Read), |_, token, rng| {
        let pattern = format!("*[{}]", "a-".repeat(rng.index(2047)));
        commands(token, (0..20).map(|_| words(&["SCAN", "0", "MATCH", &pattern, "COUNT", "4000"])))
    }),
    resp(("SCAN with a pattern of 512 KiB", "F5"), SCANNERS, (4, 3, Read), |_, token, _| {
        let pattern = format!("*[{}]", "a".repeat(500 << 10));
        commands(token, (0..4).map(|_| words(&["SCAN", "0", "MATCH", &pattern, "COUNT", "4000"])))
    }),
    resp(("SCAN cursors abandoned", "sibling of F5"), SCANNERS, (5, 20, Abandon), |_, token, _| {
        commands(token, (0..50).map(|_| words(&["SCAN", "0", "COUNT", "10"])))
    }),
    resp(("HTTP to the port of RESP", "F1"), ALL, (3, 10, Read), |target, token, rng| {
        let first = ["POST / HTTP/1.1", "Host: x", "GET / HTTP/1.1"][rng.index(3)];
        let token = token.or(target.token("admin")).unwrap_or_default();
        raw(format!("{first}\r\nX: y\r\n\r\nAUTH {token}\r\nINCR guard/x\r\nSET default/pwned yes\r\n"))
    }),
    http(("Host and Origin of another site", "F2"), ALL, (3, 10, Read), |target, token, rng| {
        let request =
            target.request("POST", "/v1/tables/guard/counters/y:add", token, JSON, b"{\"delta\":1}");
        let text = String::from_utf8_lossy(&request).into_owned();
        let (host, to) = (format!("Host: {}\r\n", target.http), ["Host: evil.example\r\n", ""][rng.index(2)]);
        let origin = format!("{to}Origin: https://evil.example\r\n");
        raw(text.replace(&host, &origin).repeat(20)).counted(20)
    }),
    resp(("COMMAND INFO with 900,000 names", "F4"), ALL, (6, 8, Unread), |_, token, _| {
        let mut all = vec!["COMMAND", "INFO"];
        all.extend(vec!["GET"; 900_000]);
        commands(token, [words(&all)])
    }),
    resp(("COMMAND INFO with 1,000 names, not read", "F4"), ALL, (6, 50, Unread), |_, token, _| {
        let mut all = vec!["COMMAND", "INFO"];
        all.extend(vec!["GET"; 1_000]);
        commands(token, (0..50).map(|_| words(&all)))
    }),
    resp(("EXEC of large MGETs, not read", "F6"), READERS, (8, 200, Hold), |_, token, rng| {
        let mut get = vec!["MGET"];
        get.extend(vec!["att/{t}big"; [100, 1000, 4095][rng.index(3)]]);
        commands(token, [words(&["MULTI"]), words(&get), words(&["EXEC"])])
    }),
    resp(("large MGETs, not read", "F6"), READERS, (8, 50, Unread), |_, token, _| {
        let keys: Vec<String> = (0..250).map(|at| format!("att/big{at:04}")).collect();
        let mut get = vec!["MGET"];
        get.extend(keys.iter().map(String::as_str));
        commands(token, (0..20).map(|_| words(&get)))
    }),
    resp(("MULTI with 1,000 large commands, no EXEC", "F6"), ADDERS, (6, 100, Hold), |_, token, _| {
        let value = "x".repeat(60_000);
        let set = words(&["SET", "att/queued", &value]);
        commands(token, [words(&["MULTI"])].into_iter().chain((0..130).map(|_| set.clone())))
    }),
    http(("tables for 1e9 ids", "F15"), ADMIN, (4, 2, Read), |target, token, rng| {
        let body = br#"{"expected_ids":"1000000000","memory_cap":"64GiB"}"#;
        let path = format!("/v1/tables/att{}", rng.below(30));
        plain(target.request("PUT", &path, token, JSON, body))
    }),
    http(("tables that take what is left", "F15"), ADMIN, (4, 1, Read), |target, token, rng| {
        let body = format!("{{\"expected_ids\":\"{}\"}}", 1_000_000 << rng.below(5));
        let path = format!("/v1/tables/att{}", rng.below(30));
        plain(target.request("PUT", &path, token, JSON, body.as_bytes()))
    }),
    resp(("sessions of 5,000 new clients", "F18"), ADDERS, (6, 4, Read), |_, token, rng| {
        let epoch = millis();
        commands(
            token,
            (0..5000).map(|_| {
                let id = format!("sequenced:{:016x}/{epoch}/1", rng.next_u64());
                words(&["JADD", &format!("att/s{}", rng.below(999)), "1", "ID", &id])
            }),
        )
    }),
    http(("backup to any path", "F8"), ALL, (3, 4, Read), |target, token, _| {
        let body = br#"{"path":"/tmp/jeton-attack-backup/a/b"}"#;
        plain(target.request("POST", "/v1/admin/backup", token, JSON, body))
    }),
    resp(("DEL of 300,000 keys, MSET of 200,000", "F7"), ADMIN, (5, 4, Read), |_, token, _| {
        let keys: Vec<String> = (0..300_000).map(|at| format!("att/k{at}")).collect();
        let del: Vec<&str> = ["DEL"].into_iter().chain(keys.iter().map(String::as_str)).collect();
        let pairs = keys[..200_000].iter().flat_map(|key| [key.as_str(), "1"]);
        let set: Vec<&str> = ["MSET"].into_iter().chain(pairs).collect();
        commands(token, [words(&del), words(&set)])
    }),
    resp(("DEL and MSET of 20,000 keys", "F7"), ADMIN, (6, 4, Read), |_, token, _| {
        let keys: Vec<String> = (0..20_000).map(|at| format!("att/k{at}")).collect();
        let del: Vec<&str> = ["DEL"].into_iter().chain(keys.iter().map(String::as_str)).collect();
        let pairs = keys.iter().flat_map(|key| [key.as_str(), "1"]);
        let set: Vec<&str> = ["MSET"].into_iter().chain(pairs).collect();
        commands(token, [words(&set), words(&del)])
    }),
    resp(("AUTH with random tokens", "F10, F11"), &["none"], (4, 100, Read), |_, _, rng| {
        commands(None, (0..20).map(|_| words(&["AUTH", &format!("jeton_{:026x}", rng.next_u64())])))
    }),
    http(("bearers with random tokens", "F10, F11"), &["none"], (4, 100, Read), |target, _, rng| {
        let token = format!("jeton_{:026x}", rng.next_u64());
        plain(target.request("GET", "/v1/tables/good/counters/r1", Some(&token), "", b""))
    }),
    http(("no Host, gzip, head of 100 KB", "F12"), ALL, (3, 20, Read), |target, token, rng| {
        let long = format!("X: {}\r\n{JSON}", "y".repeat(100_000));
        let gzip = format!("{JSON}Content-Encoding: gzip\r\n");
        let headers = [&gzip, &long][rng.index(2)];
        let body = b"{\"delta\":1}";
        match rng.index(3) {
            0 => raw("GET /v1/tables HTTP/1.1\r\n\r\n".into()),
            _ => plain(target.request("POST", "/v1/tables/att/counters/z:add", token, headers, body)),
        }
    }),
    http(("bodies of 16 MiB", "F13"), ALL, (4, 10, Read), |target, token, _| {
        plain(target.request("POST", "/v1/batch", token, JSON, &vec![b' '; 16 << 20]))
    }),
    http(("bodies of 8 MiB, incomplete", "F13"), ALL, (6, 100, Hold), |target, token, _| {
        let mut request = target.request("POST", "/v1/batch", token, JSON, &vec![b' '; 8 << 20]);
        request.pop();
        plain(request)
    }),
    http(("heads of 60 KB, incomplete", "sibling of F12"), ALL, (8, 4000, Hold), |_, _, _| {
        raw(format!("GET / HTTP/1.1\r\nX: {}", "y".repeat(60_000)))
    }),
    resp(("arguments of 30 KB, incomplete", "sibling of F16"), ALL, (8, 4000, Hold), |_, token, _| {
        let auth = commands(token, []).bytes;
        let begun = format!("*2\r\n$4\r\nECHO\r\n$31000\r\n{}", "x".repeat(30_900));
        plain([auth, begun.into_bytes()].concat())
    }),
    http(("head, one byte at a time", "F16"), ALL, (35, 50, Drip), |target, token, _| {
        plain(target.request("GET", "/v1/tables", token, "", b""))
    }),
    http(("import line, one byte at a time", "F16"), ADDERS, (35, 50, Drip), |target, token, _| {
        let headers = "Content-Type: application/x-ndjson\r\n";
        plain(target.request("POST", "/v1/tables/att/import", token, headers, &[b'x'; 1000]))
    }),
    resp(("inline command, one byte at a time", "F16"), ALL, (35, 50, Drip), |_, _, _| raw("x".repeat(999))),
    resp(("idle connections", "limit"), &["none"], (6, 6000, Hold), |_, _, _| raw(String::new())),
    http(("idle connections over HTTP", "limit"), &["none"], (6, 6000, Hold), |_, _, _| raw(String::new())),
    http(("watches that are not read", "memory"), READERS, (8, 300, Hold), |target, token, _| {
        plain(target.request("GET", "/v1/watch?table=att", token, "", b""))
    }),
    http(("1,000 large rows, not read", "memory"), READERS, (8, 50, Hold), |target, token, rng| {
        let rows: Vec<String> = (0..1000).map(|at| format!("row=big{at:04}")).collect();
        let some = rows[..[100, 400, 1000][rng.index(3)]].join("&");
        let path = match rng.index(2) {
            0 => format!("/v1/tables/att/counters?{some}"),
            _ => "/v1/tables/att/counters?prefix=big&limit=60".into(),
        };
        plain(target.request("GET", &path, token, "", b""))
    }),
    http(("batches of 10,000", "memory"), ADDERS, (6, 60, Unread), |target, token, rng| {
        let row = "r".repeat([1, 512][rng.index(2)]);
        let items = (0..10_000).map(|at| {
            let id = uuid7(rng);
            format!("{{\"table\":\"att\",\"row\":\"{row}{at}\",\"delta\":1,\"id\":\"uuid7:{id}\"}}")
        });
        let body = format!("{{\"operations\":[{}]}}", items.collect::<Vec<_>>().join(","));
        plain(target.request("POST", "/v1/batch", token, JSON, body.as_bytes())).counted(10_000)
    }),
    http(
        ("lists of millions of small items", "sibling of F4"),
        ADDERS,
        (6, 20, Read),
        |target, token, rng| {
            let (method, path, member, item) = [
                ("POST", "/v1/batch", "operations", "1"),
                ("POST", "/v1/tables/att/operations", "changes", "{}"),
                ("PUT", "/v1/branches/attack-list", "operations", "{}"),
                ("PUT", "/v1/tables/att1", "formats", "\"\""),
                ("POST", "/v1/transactions/x", "a", "{\"a\":1}"),
            ][rng.index(5)];
            let items = vec![item; (7 << 20) / (item.len() + 1)].join(",");
            let body = format!("{{\"{member}\":[{items}]}}");
            let headers = format!("{JSON}Idempotency-Key: \"{}\"\r\n", uuid7(rng));
            plain(target.request(method, path, token, &headers, body.as_bytes()))
        },
    ),
    http(("errors that quote 7 MiB", "sibling of F4"), ADDERS, (6, 20, Unread), |target, token, rng| {
        let long = "\u{7f}".repeat(7 << 20);
        let line = format!("{{\"{long}\":1}}\n");
        let item = format!("{{\"operations\":[{{\"row\":\"{long}\",\"table\":\"{long}\"}}]}}");
        let (path, kind, body) = [
            ("/v1/tables/att/import", "application/x-ndjson", line.as_str()),
            ("/v1/batch", "application/json", item.as_str()),
            ("/v1/tables/att/operations", "application/json", line.as_str()),
        ][rng.index(3)];
        plain(target.request("POST", path, token, &format!("Content-Type: {kind}\r\n"), body.as_bytes()))
    }),
    http(("branches of 256 long rows, abandoned", "quota"), ADDERS, (6, 10, Read), |target, token, rng| {
        let requests = (0..10).map(|_| {
            let additions = (0..256).map(|_| {
                let row = rng.next_u64();
                format!("{{\"table\":\"att\",\"row\":\"{row:01000x}\",\"delta\":1}}")
            });
            let body = format!("{{\"operations\":[{}]}}", additions.collect::<Vec<_>>().join(","));
            let path = format!("/v1/branches/attack-{:016x}", rng.next_u64());
            target.request("PUT", &path, token, JSON, body.as_bytes())
        });
        plain(requests.collect::<Vec<_>>().concat()).counted(10)
    }),
    http(("sessions with large results", "sibling of F18"), ADDERS, (6, 4, Read), |target, token, rng| {
        let (client, epoch, row) = (rng.next_u64(), millis(), rng.next_u64());
        let changes = format!("{{\"row\":\"l{row:x}\",\"delta\":1}},").repeat(256);
        let requests = (1..100).map(|at| {
            let id = format!("sequenced:{client:x}/{epoch}/{at}");
            let body = format!("{{\"id\":\"{id}\",\"changes\":[{}]}}", changes.trim_end_matches(','));
            target.request("POST", "/v1/tables/att/operations", token, JSON, body.as_bytes())
        });
        plain(requests.collect::<Vec<_>>().concat()).counted(99)
    }),
    http(("10,000 CloudEvents", "memory"), ADDERS, (6, 30, Read), |target, token, rng| {
        let events = (0..10_000).map(|at| {
            let id = rng.next_u64();
            format!(
                "{{\"specversion\":\"1.0\",\"type\":\"t\",\"source\":\"/s\",\"id\":\"{id:0500x}\",\
                 \"time\":\"2026-11-19T00:00:00Z\",\"subject\":\"e{at}\"}}"
            )
        });
        let body = format!("[{}]", events.collect::<Vec<_>>().join(","));
        let headers = "Content-Type: application/cloudevents-batch+json\r\n";
        plain(target.request("POST", "/v1/tables/att/events", token, headers, body.as_bytes()))
            .counted(10_000)
    }),
    resp(("10,000 ids and rows of 250 bytes", "memory"), ADDERS, (6, 8, Read), |_, token, rng| {
        commands(
            token,
            (0..10_000).map(|_| {
                let (key, id) =
                    (format!("att/{:0500x}", rng.next_u64()), format!("{:0240x}", rng.next_u64()));
                words(&["JADD", &key, "1", "ID", &format!("opaque:{id}")])
            }),
        )
    }),
    resp(("ids and rows beyond their limits", "limit"), ADDERS, (3, 10, Read), |_, token, rng| {
        let long = "x".repeat(1 << rng.below(19));
        commands(
            token,
            [
                words(&["JADD", "att/a", "1", "ID", &format!("opaque:{long}")]),
                words(&["JADD", &format!("att/{long}"), "1", "ID", "opaque:i"]),
                words(&["INCRBY", "guard/x", "1"]),
                words(&["SET", "good/pwned", "1"]),
            ],
        )
    }),
    resp(("random bytes and TLS to RESP", "parser"), ALL, (4, 20, Read), |_, _, rng| garbage(rng)),
    http(("random bytes and TLS to HTTP", "parser"), ALL, (4, 20, Read), |_, _, rng| garbage(rng)),
    resp(("lengths without data", "parser"), ALL, (5, 500, Hold), |_, token, rng| {
        let claims = ["*1048576\r\n$524288\r\n", "*3\r\n$3\r\nSET\r\n$524288\r\nx", "*-2147483649\r\n"];
        let auth = commands(token, []).bytes;
        plain([&auth, claims[rng.index(3)].as_bytes()].concat())
    }),
    resp(("1,000,000 commands in a pipeline, not read", "memory"), ALL, (8, 20, Unread), |_, token, rng| {
        let name = [&["PING"][..], &["GET", "att/big0001"], &["INFO"]][rng.index(3)];
        commands(token, (0..50_000).map(|_| words(name)))
    }),
    http(("pipeline of requests, not read", "memory"), ALL, (8, 50, Unread), |target, token, rng| {
        let path = ["/openapi.json", "/metrics", "/v1/tables"][rng.index(3)];
        plain(target.request("GET", path, token, "", b"").repeat(2000)).counted(2000)
    }),
    http(("chunks of one byte", "parser"), ADDERS, (6, 20, Read), |_, token, _| {
        let token = token.unwrap_or_default();
        let head = "POST /v1/batch HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked";
        let chunks = "1\r\n \r\n".repeat(500_000);
        raw(format!("{head}\r\nAuthorization: Bearer {token}\r\n{JSON}\r\n{chunks}0\r\n\r\n"))
    }),
    http(("branches prepared and abandoned", "quota"), ADDERS, (5, 10, Read), |target, token, rng| {
        let requests = (0..50).map(|_| {
            let row = rng.below(100_000);
            let body = format!("{{\"operations\":[{{\"table\":\"att\",\"row\":\"b{row}\",\"delta\":1}}]}}");
            let path = format!("/v1/branches/attack-{:016x}", rng.next_u64());
            target.request("PUT", &path, token, JSON, body.as_bytes())
        });
        plain(requests.collect::<Vec<_>>().concat()).counted(50)
    }),
    http(("imports without end, not read", "memory"), ADDERS, (6, 30, Unread), |_, token, _| {
        let token = token.unwrap_or_default();
        let head = "POST /v1/tables/att/import HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked";
        let line = "{\"row\":\"i\",\"delta\":1,\"id\":\"opaque:1\"}\n".repeat(1000);
        let chunk = format!("{:x}\r\n{line}\r\n", line.len()).repeat(100);
        let ndjson = "Content-Type: application/x-ndjson\r\n";
        raw(format!("{head}\r\nAuthorization: Bearer {token}\r\n{ndjson}\r\n{chunk}")).counted(100_000)
    }),
    http(
        ("transactions, peers and paths that do not exist", "parser"),
        ALL,
        (3, 20, Read),
        |target, token, rng| {
            let paths = [
                "/v1/transactions/nosuch",
                "/v1/internal/transactions/x/attempts/1",
                "/v1/branches/x/commit",
                "/v1/transactions/x/resolve",
                "/v1/tables/guard/counters/x:reset",
                "/%2e%2e/%2e%2e/etc/passwd",
            ];
            let headers = format!("{JSON}Idempotency-Key: \"{}\"\r\n", uuid7(rng));
            let nested = format!("{{\"a\":{}", "[".repeat(20_000));
            let body = ["{}", &nested][rng.index(2)];
            let all = paths.map(|path| target.request("POST", path, token, &headers, body.as_bytes()));
            plain(all.concat()).counted(paths.len() as u64)
        },
    ),
];

/// A command with its arguments in RESP.
fn words(words: &[&str]) -> Vec<u8> {
    let mut bytes = Vec::new();
    command(&mut bytes, &words.iter().map(|word| word.as_bytes()).collect::<Vec<_>>());
    bytes
}

/// Commands after `AUTH`, if there is a token.
fn commands(token: Option<&str>, all: impl IntoIterator<Item = Vec<u8>>) -> Payload {
    let mut bytes = token.map_or_else(Vec::new, |token| words(&["AUTH", token]));
    let mut requests = 0;
    for one in all {
        bytes.extend_from_slice(&one);
        requests += 1;
    }
    Payload { bytes, requests }
}

fn plain(bytes: Vec<u8>) -> Payload {
    Payload { bytes, requests: 1 }
}

fn raw(text: String) -> Payload {
    plain(text.into_bytes())
}

impl Payload {
    fn counted(self, requests: u64) -> Self {
        Self { requests, ..self }
    }
}

/// A TLS `ClientHello`, or random bytes.
fn garbage(rng: &mut Rng) -> Payload {
    let mut bytes: Vec<u8> = (0..1 << rng.below(12)).flat_map(|_| rng.bytes()).collect();
    if rng.percent(50) {
        bytes.splice(0..0, *b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03");
    }
    plain(bytes)
}
