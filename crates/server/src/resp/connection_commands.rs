//! Commands about the connection and the server, which need no engine.

use jeton_core::ErrorCode;
use jeton_resp::reply_writer::Version;
use jeton_resp::request_parser::Command;

use super::command_table::{self, COMMANDS, CommandSpec};
use super::keyspace::integer;
use super::reply::{self, Reply, SYNTAX};
use super::scan::matches;
use super::session::Session;
use crate::metrics::Metric;

/// The Redis version reported to clients that check it.
const REDIS_VERSION: &str = "7.2.0";

pub fn run(spec: &CommandSpec, command: &Command<'_>, session: &mut Session) -> Result<Reply, String> {
    let arguments: Vec<&[u8]> = command.iter().collect();
    if let Some(reply) = plain(spec, &arguments, session.service.millis()) {
        return Ok(reply);
    }
    match spec.name {
        "HELLO" => hello(command, session),
        "AUTH" => auth(command, session),
        "RESET" => {
            session.reset();
            Ok(Reply::Word("RESET"))
        }
        "CLIENT" => client(command, session),
        "COMMAND" => self::command(command),
        "CONFIG" => config(command, session),
        "INFO" => Ok(Reply::Text(info(command, session))),
        "QUIT" => Ok(Reply::Ok),
        other => unreachable!("{other} is not a connection command"),
    }
}

/// Executes the commands that do not change the connection. They are allowed in a transaction.
pub fn plain(spec: &CommandSpec, arguments: &[impl AsRef<[u8]>], millis: u64) -> Option<Reply> {
    let argument = |at: usize| arguments[at].as_ref();
    Some(match (spec.name, arguments.len()) {
        ("PING", 1) => Reply::Word("PONG"),
        ("PING", 2) | ("ECHO", _) => Reply::Bulk(argument(1).into()),
        ("PING", _) => Reply::Error(reply::arity_error(b"ping")),
        ("SELECT", _) => match integer(argument(1)) {
            Ok(0) => Reply::Ok,
            Ok(_) => Reply::error("ERR DB index is out of range"),
            Err(error) => Reply::error(error),
        },
        ("TIME", _) => {
            let parts = [millis / 1000, millis % 1000 * 1000];
            Reply::Array(parts.map(|part| Reply::Bulk(part.to_string().into_bytes())).into())
        }
        _ => return None,
    })
}

/// `HELLO [version [AUTH name token] [SETNAME name]]`.
fn hello(command: &Command<'_>, session: &mut Session) -> Result<Reply, String> {
    let version = match command.get(1) {
        None => session.version,
        Some(b"2") => Version::Resp2,
        Some(b"3") => Version::Resp3,
        Some(other) if integer(other).is_ok() => {
            return Err("NOPROTO unsupported protocol version".into());
        }
        Some(_) => return Err("ERR Protocol version is not an integer or out of range".into()),
    };
    let wrong = |option: &[u8]| format!("ERR Syntax error in HELLO option '{}'", reply::shown(option));
    let mut at = 2;
    let mut name = None;
    while let Some(option) = command.get(at) {
        if option.eq_ignore_ascii_case(b"AUTH") {
            let token = command.get(at + 2).ok_or_else(|| wrong(option))?;
            if session.service.access.has_tokens() {
                session.authenticate(token).map_err(reply::denied)?;
            } else {
                default_user(&command[at + 1])?;
            }
            at += 3;
        } else if option.eq_ignore_ascii_case(b"SETNAME") {
            let given = command.get(at + 1).ok_or_else(|| wrong(option))?;
            name = Some(client_name(given)?.to_vec());
            at += 2;
        } else {
            return Err(wrong(option));
        }
    }
    if !session.is_authenticated() {
        return Err(
            "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> \
             AUTH <user> <pass> option can be used to authenticate the client and select the RESP protocol \
             version at the same time"
                .into(),
        );
    }
    if let Some(name) = name {
        session.name = name;
    }
    session.version = version;
    Ok(Reply::Map(vec![
        ("server".into(), "jeton".into()),
        ("version".into(), REDIS_VERSION.into()),
        ("proto".into(), Reply::Integer(version_number(version))),
        ("id".into(), Reply::Integer(session.number as i64)),
        ("mode".into(), "standalone".into()),
        ("role".into(), "master".into()),
        ("modules".into(), Reply::Array(Vec::new())),
    ]))
}

fn version_number(version: Version) -> i64 {
    if version == Version::Resp3 { 3 } else { 2 }
}

/// Accepts only the default user, on a server without access tokens.
fn default_user(name: &[u8]) -> Result<Reply, String> {
    let error = "WRONGPASS invalid username-password pair or user is disabled.";
    if name == b"default" { Ok(Reply::Ok) } else { Err(error.into()) }
}

/// `AUTH [name] token`. The name is ignored.
fn auth(command: &Command<'_>, session: &mut Session) -> Result<Reply, String> {
    if command.len() > 3 {
        return Err(SYNTAX.into());
    }
    if session.service.access.has_tokens() {
        let token = &command[command.len() - 1];
        return session.authenticate(token).map(|()| Reply::Ok).map_err(reply::denied);
    }
    if command.len() == 3 {
        // As in Redis, whose default user accepts any password.
        return default_user(&command[1]);
    }
    Err("ERR AUTH <password> called without any password configured for the default user. Are you sure your \
         configuration is correct?"
        .into())
}

fn client_name(name: &[u8]) -> Result<&[u8], String> {
    const NAME_BYTES_MAX: usize = 256;
    if name.len() > NAME_BYTES_MAX || !name.iter().all(|byte| (b'!'..=b'~').contains(byte)) {
        return Err("ERR Client names cannot contain spaces, newlines or special characters.".into());
    }
    Ok(name)
}

fn client(command: &Command<'_>, session: &mut Session) -> Result<Reply, String> {
    const SUBCOMMANDS: &[(&str, i32)] = &[
        ("GETNAME", 2),
        ("ID", 2),
        ("INFO", 2),
        ("NO-EVICT", 3),
        ("NO-TOUCH", 3),
        ("SETINFO", 4),
        ("SETNAME", 3),
    ];
    Ok(match subcommand("CLIENT", SUBCOMMANDS, command)? {
        "ID" => Reply::Integer(session.number as i64),
        "GETNAME" if session.name.is_empty() => Reply::Null,
        "GETNAME" => Reply::Bulk(session.name.clone()),
        "SETNAME" => {
            session.name = client_name(&command[2])?.to_vec();
            Reply::Ok
        }
        "INFO" => {
            let (number, peer, name) = (session.number, &session.peer, session.name.escape_ascii());
            let resp = version_number(session.version);
            Reply::Text(format!("id={number} addr={peer} name={name} db=0 resp={resp}\n"))
        }
        "NO-EVICT" | "NO-TOUCH"
            if ![&b"on"[..], b"off"].iter().any(|word| command[2].eq_ignore_ascii_case(word)) =>
        {
            return Err(SYNTAX.into());
        }
        // Client library information and memory hints are accepted and ignored.
        _ => Reply::Ok,
    })
}

/// Finds the subcommand and checks the number of its arguments.
fn subcommand(
    name: &str,
    known: &[(&'static str, i32)],
    command: &Command<'_>,
) -> Result<&'static str, String> {
    let given = &command[1];
    let Some((sub, arity)) = known.iter().find(|(sub, _)| given.eq_ignore_ascii_case(sub.as_bytes())) else {
        return Err(format!("ERR unknown subcommand '{}'. Try {name} HELP.", reply::shown(given)));
    };
    if !command_table::takes(*arity, command.len()) {
        return Err(reply::arity_error(format!("{name}|{sub}").as_bytes()));
    }
    Ok(sub)
}

fn command(command: &Command<'_>) -> Result<Reply, String> {
    const SUBCOMMANDS: &[(&str, i32)] =
        &[("COUNT", 2), ("DOCS", -2), ("GETKEYS", -4), ("INFO", -2), ("LIST", -2)];
    let sub = if command.len() == 1 { "INFO" } else { subcommand("COMMAND", SUBCOMMANDS, command)? };
    let name = |spec: &CommandSpec| Reply::Bulk(spec.name.to_ascii_lowercase().into());
    // All commands, if the request names none.
    let specs: Vec<Option<&CommandSpec>> = match command.len() {
        1 | 2 => COMMANDS.iter().map(Some).collect(),
        arguments => (2..arguments).map(|at| CommandSpec::find(&command[at])).collect(),
    };
    Ok(match sub {
        "COUNT" => Reply::Integer(COMMANDS.len() as i64),
        "LIST" => Reply::Array(COMMANDS.iter().map(name).collect()),
        "INFO" => Reply::Array(specs.into_iter().map(|spec| spec.map_or(Reply::Null, describe)).collect()),
        "DOCS" => {
            let docs = |spec: &CommandSpec| {
                let fields =
                    vec![("summary".into(), spec.summary.into()), ("group".into(), spec.group.into())];
                (name(spec), Reply::Map(fields))
            };
            Reply::Map(specs.into_iter().flatten().map(docs).collect())
        }
        _ => {
            let spec = CommandSpec::find(&command[2]).ok_or("ERR Invalid command specified")?;
            if !spec.takes(command.len() - 2) {
                return Err("ERR Invalid number of arguments specified for command".into());
            }
            let keys: Vec<Reply> =
                spec.keys(command.len() - 2).map(|at| Reply::Bulk(command[2 + at].into())).collect();
            if keys.is_empty() {
                return Err("ERR The command has no key arguments".into());
            }
            Reply::Array(keys)
        }
    })
}

fn describe(spec: &CommandSpec) -> Reply {
    let words = |words: &[&'static str]| Reply::Set(words.iter().copied().map(Reply::Word).collect());
    let (first, last, step) = spec.keys;
    let [arity, first, last, step] =
        [spec.arity, first, last, step].map(|number| Reply::Integer(number.into()));
    let (name, flags) = (Reply::Bulk(spec.name.to_ascii_lowercase().into()), words(spec.flags));
    // No tips, key specifications or subcommands.
    let [tips, keys, subcommands] = [(); 3].map(|()| Reply::Set(Vec::new()));
    let categories = words(&spec.categories());
    Reply::Array(vec![name, arity, flags, first, last, step, categories, tips, keys, subcommands])
}

/// `CONFIG GET` for the settings that tools read at startup.
fn config(command: &Command<'_>, session: &Session) -> Result<Reply, String> {
    if subcommand("CONFIG", &[("GET", -3), ("SET", -4)], command)? == "SET" {
        return Err("ERR CONFIG SET is not supported: restart the server with other settings".into());
    }
    let options = &session.service.options;
    let (connections, memory) = (options.connections_max.to_string(), options.client_memory_max.to_string());
    let known = [
        ("appendfsync", "always"),
        ("appendonly", "yes"),
        ("client_memory_max", &memory),
        ("databases", "1"),
        ("maxclients", &connections),
        ("maxmemory", "0"),
        ("maxmemory-clients", &memory),
        ("maxmemory-policy", "noeviction"),
        ("save", ""),
        ("timeout", "0"),
    ];
    // A name without wildcards is returned in the case of the request.
    let requested = |name: &str| {
        let pattern = command.iter().skip(2).find(|at| matches(&at.to_ascii_lowercase(), name.as_bytes()))?;
        let literal = pattern.eq_ignore_ascii_case(name.as_bytes());
        Some(Reply::Bulk(if literal { pattern.to_vec() } else { name.into() }))
    };
    let found = known.into_iter().filter_map(|(name, value)| Some((requested(name)?, value.into())));
    Ok(Reply::Map(found.collect()))
}

fn info(command: &Command<'_>, session: &Session) -> String {
    let service = &session.service;
    let stats = service.engine.stats();
    let count = |what| service.metrics.get(what);
    let errors = |code| service.metrics.errors(code);
    let mut lines = vec![
        ("Server", format!("redis_version:{REDIS_VERSION}")),
        ("Server", "redis_mode:standalone".into()),
        ("Server", format!("jeton_version:{}", env!("CARGO_PKG_VERSION"))),
        ("Server", format!("process_id:{}", std::process::id())),
        ("Clients", format!("connected_clients:{}", count(Metric::RespOpen))),
        ("Clients", format!("maxclients:{}", service.options.connections_max)),
        ("Persistence", "loading:0".into()),
        ("Persistence", "aof_enabled:1".into()),
        (
            "Persistence",
            format!("aof_last_write_status:{}", stats.last_error.as_ref().map_or("ok", |_| "err")),
        ),
        ("Persistence", format!("jeton_storage_error:{}", stats.last_error.unwrap_or_default())),
        ("Persistence", format!("jeton_log_bytes:{}", stats.logged_bytes)),
        ("Persistence", format!("jeton_value_bytes:{}", stats.value_bytes)),
        ("Persistence", format!("jeton_id_bytes:{}", stats.ids.bytes)),
        ("Stats", format!("total_connections_received:{}", count(Metric::RespConnections))),
        ("Stats", format!("total_commands_processed:{}", count(Metric::Commands))),
        ("Stats", format!("rejected_connections:{}", count(Metric::TurnedAway))),
        ("Stats", format!("jeton_applied:{}", count(Metric::Applied))),
        ("Stats", format!("jeton_replayed:{}", count(Metric::Replayed))),
        ("Stats", format!("jeton_refused:{}", count(Metric::Refused))),
        ("Stats", format!("jeton_expired:{}", errors(ErrorCode::IdExpired))),
        ("Stats", format!("jeton_mismatch:{}", errors(ErrorCode::IdMismatch))),
        ("Stats", format!("jeton_busy:{}", errors(ErrorCode::Busy))),
        ("Replication", "role:master".into()),
        ("Replication", "connected_slaves:0".into()),
    ];
    lines.extend(stats.tables.iter().map(|table| {
        let filters = [&table.filters.0, &table.filters.1].into_iter().flatten();
        let bytes: usize = filters.map(|filter| filter.bytes).sum();
        ("Tables", format!("table_{}:filter_bytes={bytes},eras={}", table.name, table.eras))
    }));
    let is_selected = |section: &str| {
        let names = [section, "all", "everything", "default"];
        let is_named = |name: &[u8]| names.iter().any(|known| name.eq_ignore_ascii_case(known.as_bytes()));
        command.len() == 1 || command.iter().skip(1).any(is_named)
    };
    let mut text = String::new();
    for section in lines.chunk_by(|a, b| a.0 == b.0).filter(|section| is_selected(section[0].0)) {
        text += &format!("# {}\r\n", section[0].0);
        section.iter().for_each(|(_, line)| text += &format!("{line}\r\n"));
        text += "\r\n";
    }
    text
}
