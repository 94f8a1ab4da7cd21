//! Commands about the connection and the server, which need no engine.

use jeton_core::ErrorCode;
use jeton_resp::reply_writer::{Version, Writer};
use jeton_resp::request_parser::Command;

use super::command_table::{self, COMMANDS, CommandSpec};
use super::reply::{self, Reply, SYNTAX, wrong_arity};
use super::scan::matches;
use super::session::Session;
use crate::metrics::Metric;

/// The Redis version reported to clients that check it.
const REDIS_VERSION: &str = "7.2.0";

pub fn run(verb: &CommandSpec, command: &Command<'_>, session: &mut Session, out: &mut Vec<u8>) {
    let arguments: Vec<&[u8]> = command.iter().collect();
    if let Some(reply) = plain(verb, &arguments, session.service.millis()) {
        return reply.write(&mut Writer::new(out, session.version));
    }
    let result = match verb.name {
        "HELLO" => hello(command, session, out),
        "AUTH" => auth(command, session, out),
        "RESET" => {
            session.reset();
            Writer::new(out, session.version).simple("RESET");
            Ok(())
        }
        "CLIENT" => client(command, session, out),
        "COMMAND" => self::command(command, session, out),
        "CONFIG" => config(command, session, out),
        "INFO" => {
            let text = info(command, session);
            Writer::new(out, session.version).verbatim(*b"txt", text.as_bytes());
            Ok(())
        }
        other => unreachable!("{other} is not a connection command"),
    };
    if let Err(error) = result {
        Writer::new(out, session.version).error(&error);
    }
}

/// Executes the commands that do not change the connection. They are allowed in a transaction.
pub fn plain(verb: &CommandSpec, arguments: &[impl AsRef<[u8]>], millis: u64) -> Option<Reply> {
    let argument = |at: usize| arguments[at].as_ref();
    Some(match (verb.name, arguments.len()) {
        ("PING", 1) => Reply::Word("PONG"),
        ("PING", 2) | ("ECHO", _) => Reply::Bulk(argument(1).into()),
        ("PING", _) => wrong_arity(b"ping"),
        ("SELECT", _) => match super::keyspace::integer(argument(1)) {
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
fn hello(command: &Command<'_>, session: &mut Session, out: &mut Vec<u8>) -> Result<(), String> {
    let version = match command.get(1) {
        None => session.version,
        Some(b"2") => Version::Resp2,
        Some(b"3") => Version::Resp3,
        Some(other) if super::keyspace::integer(other).is_ok() => {
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
    let mut writer = Writer::new(out, version);
    writer.map(7);
    write_pairs(&[("server", "jeton"), ("version", REDIS_VERSION)], &mut writer);
    writer.bulk(b"proto");
    writer.integer(if version == Version::Resp3 { 3 } else { 2 });
    writer.bulk(b"id");
    writer.integer(session.number as i64);
    write_pairs(&[("mode", "standalone"), ("role", "master")], &mut writer);
    writer.bulk(b"modules");
    writer.array(0);
    Ok(())
}

fn write_pairs<N: AsRef<[u8]>>(pairs: &[(N, &str)], writer: &mut Writer<'_>) {
    for (name, value) in pairs {
        writer.bulk(name.as_ref());
        writer.bulk(value.as_bytes());
    }
}

/// Accepts only the default user, on a server without access tokens.
fn default_user(name: &[u8]) -> Result<(), String> {
    if name == b"default" {
        Ok(())
    } else {
        Err("WRONGPASS invalid username-password pair or user is disabled.".into())
    }
}

/// `AUTH [name] token`. The name is ignored.
fn auth(command: &Command<'_>, session: &mut Session, out: &mut Vec<u8>) -> Result<(), String> {
    let token = match command.len() {
        2 => &command[1],
        3 => &command[2],
        _ => return Err(SYNTAX.into()),
    };
    if !session.service.access.has_tokens() {
        // As in Redis, whose default user accepts any password.
        if command.len() == 3 {
            return default_user(&command[1]).map(|()| Writer::new(out, session.version).simple("OK"));
        }
        return Err(
            "ERR AUTH <password> called without any password configured for the default user. Are you sure \
             your configuration is correct?"
                .into(),
        );
    }
    session.authenticate(token).map_err(reply::denied)?;
    Writer::new(out, session.version).simple("OK");
    Ok(())
}

fn client_name(name: &[u8]) -> Result<&[u8], String> {
    const NAME_BYTES_MAX: usize = 256;
    if name.len() > NAME_BYTES_MAX || !name.iter().all(|byte| (b'!'..=b'~').contains(byte)) {
        return Err("ERR Client names cannot contain spaces, newlines or special characters.".into());
    }
    Ok(name)
}

fn client(command: &Command<'_>, session: &mut Session, out: &mut Vec<u8>) -> Result<(), String> {
    const SUBCOMMANDS: &[(&str, i32)] = &[
        ("GETNAME", 2),
        ("ID", 2),
        ("INFO", 2),
        ("NO-EVICT", 3),
        ("NO-TOUCH", 3),
        ("SETINFO", 4),
        ("SETNAME", 3),
    ];
    let sub = subcommand("CLIENT", SUBCOMMANDS, command)?;
    let mut writer = Writer::new(out, session.version);
    match sub {
        "ID" => writer.integer(session.number as i64),
        "GETNAME" if session.name.is_empty() => writer.null(),
        "GETNAME" => writer.bulk(&session.name),
        "SETNAME" => {
            session.name = client_name(&command[2])?.to_vec();
            writer.simple("OK");
        }
        "INFO" => {
            let resp = if session.version == Version::Resp3 { 3 } else { 2 };
            let (number, peer, name) = (session.number, &session.peer, session.name.escape_ascii());
            let text = format!("id={number} addr={peer} name={name} db=0 resp={resp}\n");
            writer.verbatim(*b"txt", text.as_bytes());
        }
        "NO-EVICT" | "NO-TOUCH"
            if ![&b"on"[..], b"off"].iter().any(|word| command[2].eq_ignore_ascii_case(word)) =>
        {
            return Err(SYNTAX.into());
        }
        // Client library information and memory hints are accepted and ignored.
        _ => writer.simple("OK"),
    }
    Ok(())
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

fn command(command: &Command<'_>, session: &Session, out: &mut Vec<u8>) -> Result<(), String> {
    const SUBCOMMANDS: &[(&str, i32)] =
        &[("COUNT", 2), ("DOCS", -2), ("GETKEYS", -4), ("INFO", -2), ("LIST", -2)];
    let mut writer = Writer::new(out, session.version);
    let mut describe_all = || {
        writer.array(COMMANDS.len());
        COMMANDS.iter().for_each(|verb| describe(verb, &mut writer));
    };
    if command.len() == 1 {
        describe_all();
        return Ok(());
    }
    let named = || (2..command.len()).map(|at| CommandSpec::find(&command[at]));
    match subcommand("COMMAND", SUBCOMMANDS, command)? {
        "COUNT" => writer.integer(COMMANDS.len() as i64),
        "LIST" => {
            writer.array(COMMANDS.len());
            COMMANDS.iter().for_each(|verb| writer.bulk(verb.name.to_ascii_lowercase().as_bytes()));
        }
        "INFO" if command.len() == 2 => describe_all(),
        "INFO" => {
            writer.array(command.len() - 2);
            named().for_each(|verb| match verb {
                Some(verb) => describe(verb, &mut writer),
                None => writer.null(),
            });
        }
        "DOCS" => {
            let verbs: Vec<&CommandSpec> =
                if command.len() == 2 { COMMANDS.iter().collect() } else { named().flatten().collect() };
            writer.map(verbs.len());
            for verb in verbs {
                writer.bulk(verb.name.to_ascii_lowercase().as_bytes());
                writer.map(2);
                write_pairs(&[("summary", verb.summary), ("group", verb.group)], &mut writer);
            }
        }
        _ => {
            let verb = CommandSpec::find(&command[2]).ok_or("ERR Invalid command specified")?;
            if !verb.takes(command.len() - 2) {
                return Err("ERR Invalid number of arguments specified for command".into());
            }
            let keys: Vec<usize> = verb.keys(command.len() - 2).collect();
            if keys.is_empty() {
                return Err("ERR The command has no key arguments".into());
            }
            writer.array(keys.len());
            keys.iter().for_each(|at| writer.bulk(&command[2 + at]));
        }
    }
    Ok(())
}

fn describe(verb: &CommandSpec, writer: &mut Writer<'_>) {
    writer.array(10);
    writer.bulk(verb.name.to_ascii_lowercase().as_bytes());
    writer.integer(verb.arity.into());
    writer.set(verb.flags.len());
    verb.flags.iter().for_each(|flag| writer.simple(flag));
    let (first, last, step) = verb.keys;
    [first, last, step].into_iter().for_each(|number| writer.integer(number.into()));
    let categories = verb.categories();
    writer.set(categories.len());
    categories.iter().for_each(|category| writer.simple(category));
    // No tips, key specifications or subcommands.
    (0..3).for_each(|_| writer.set(0));
}

/// `CONFIG GET` for the settings that tools read at startup.
fn config(command: &Command<'_>, session: &Session, out: &mut Vec<u8>) -> Result<(), String> {
    if subcommand("CONFIG", &[("GET", -3), ("SET", -4)], command)? == "SET" {
        return Err("ERR CONFIG SET is not supported: restart the server with other settings".into());
    }
    let connections = session.service.options.connections_max.to_string();
    let known = [
        ("appendfsync", "always"),
        ("appendonly", "yes"),
        ("databases", "1"),
        ("maxclients", &connections),
        ("maxmemory", "0"),
        ("maxmemory-policy", "noeviction"),
        ("save", ""),
        ("timeout", "0"),
    ];
    // A name without wildcards is returned in the case of the request.
    let requested = |name: &'static str| {
        let at =
            (2..command.len()).find(|at| matches(&command[*at].to_ascii_lowercase(), name.as_bytes()))?;
        let literal = command[at].eq_ignore_ascii_case(name.as_bytes());
        Some(if literal { command[at].to_vec() } else { name.into() })
    };
    let found: Vec<_> =
        known.into_iter().filter_map(|(name, value)| Some((requested(name)?, value))).collect();
    let mut writer = Writer::new(out, session.version);
    writer.map(found.len());
    write_pairs(&found, &mut writer);
    Ok(())
}

fn info(command: &Command<'_>, session: &Session) -> String {
    let service = &session.service;
    let is_selected = |section: &str| {
        let names = [section, "all", "everything", "default"];
        let is_named = |name: &[u8]| names.iter().any(|known| name.eq_ignore_ascii_case(known.as_bytes()));
        command.len() == 1 || command.iter().skip(1).any(is_named)
    };
    let mut text = String::new();
    let count = |what| service.metrics.get(what);
    let mut section = |name: &str, lines: &[(&str, String)]| {
        if is_selected(name) {
            text += &format!("# {name}\r\n");
            lines.iter().for_each(|(key, value)| text += &format!("{key}:{value}\r\n"));
            text += "\r\n";
        }
    };
    section(
        "Server",
        &[
            ("redis_version", REDIS_VERSION.into()),
            ("redis_mode", "standalone".into()),
            ("jeton_version", env!("CARGO_PKG_VERSION").into()),
            ("process_id", std::process::id().to_string()),
        ],
    );
    section(
        "Clients",
        &[
            ("connected_clients", count(Metric::RespOpen).to_string()),
            ("maxclients", service.options.connections_max.to_string()),
        ],
    );
    let stats = service.engine.stats();
    section(
        "Persistence",
        &[
            ("loading", "0".into()),
            ("aof_enabled", "1".into()),
            ("aof_last_write_status", if stats.last_error.is_some() { "err" } else { "ok" }.into()),
            ("jeton_storage_error", stats.last_error.unwrap_or_default()),
            ("jeton_log_bytes", stats.logged_bytes.to_string()),
            ("jeton_value_bytes", stats.value_bytes.to_string()),
            ("jeton_id_bytes", stats.ids.bytes.to_string()),
        ],
    );
    section(
        "Stats",
        &[
            ("total_connections_received", count(Metric::RespConnections).to_string()),
            ("total_commands_processed", count(Metric::Commands).to_string()),
            ("rejected_connections", count(Metric::TurnedAway).to_string()),
            ("jeton_applied", count(Metric::Applied).to_string()),
            ("jeton_replayed", count(Metric::Replayed).to_string()),
            ("jeton_refused", count(Metric::Refused).to_string()),
            ("jeton_expired", service.metrics.errors(ErrorCode::IdExpired).to_string()),
            ("jeton_mismatch", service.metrics.errors(ErrorCode::IdMismatch).to_string()),
            ("jeton_busy", service.metrics.errors(ErrorCode::Busy).to_string()),
        ],
    );
    section("Replication", &[("role", "master".into()), ("connected_slaves", "0".into())]);
    let names: Vec<String> = stats.tables.iter().map(|table| format!("table_{}", table.name)).collect();
    let tables = stats.tables.iter().zip(&names).map(|(table, name)| {
        let filters = [&table.filters.0, &table.filters.1].into_iter().flatten();
        let bytes: usize = filters.map(|filter| filter.bytes).sum();
        (name.as_str(), format!("filter_bytes={bytes},eras={}", table.eras))
    });
    section("Tables", &tables.collect::<Vec<_>>());
    text
}
