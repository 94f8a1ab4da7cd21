//! Commands about the connection and the server: answered at once, without the engine.

use jeton_resp::reply::{Version, Writer};
use jeton_resp::request::Command;

use super::said::{self, SYNTAX, wrong_arity};
use super::session::Session;
use super::verb::{VERBS, Verb};
use crate::metrics::Count;

/// The version of Redis whose commands these are, for clients that look at it.
const REDIS_VERSION: &str = "7.2.0";

/// Answers a command.
pub fn answer(verb: &Verb, command: &Command<'_>, session: &mut Session, out: &mut Vec<u8>) {
    let done = match verb.name {
        "PING" => ping(command, session, out),
        "ECHO" => {
            Writer::new(out, session.version).bulk(&command[1]);
            Ok(())
        }
        "HELLO" => hello(command, session, out),
        "AUTH" => auth(command, session, out),
        "SELECT" => select(command, session, out),
        "RESET" => {
            session.reset();
            Writer::new(out, session.version).simple("RESET");
            Ok(())
        }
        "TIME" => {
            let millis = session.service.millis();
            let mut writer = Writer::new(out, session.version);
            writer.array(2);
            writer.bulk((millis / 1000).to_string().as_bytes());
            writer.bulk((millis % 1000 * 1000).to_string().as_bytes());
            Ok(())
        }
        "CLIENT" => client(command, session, out),
        "COMMAND" => about_commands(command, session, out),
        "CONFIG" => config(command, session, out),
        "INFO" => {
            let text = info(command, session);
            Writer::new(out, session.version).verbatim(*b"txt", text.as_bytes());
            Ok(())
        }
        other => unreachable!("{other} is not about the connection"),
    };
    if let Err(error) = done {
        Writer::new(out, session.version).error(&error);
    }
}

fn arity(command: &Command<'_>) -> String {
    match wrong_arity(command.name()) {
        said::Said::Error(text) => text,
        _ => unreachable!("it is an error"),
    }
}

fn ping(command: &Command<'_>, session: &Session, out: &mut Vec<u8>) -> Result<(), String> {
    let mut writer = Writer::new(out, session.version);
    match command.len() {
        1 => writer.simple("PONG"),
        2 => writer.bulk(&command[1]),
        _ => return Err(arity(command)),
    }
    Ok(())
}

/// `HELLO [version [AUTH name token] [SETNAME name]]`.
fn hello(command: &Command<'_>, session: &mut Session, out: &mut Vec<u8>) -> Result<(), String> {
    let version = match command.get(1) {
        None => session.version,
        Some(b"2") => Version::Resp2,
        Some(b"3") => Version::Resp3,
        Some(_) => return Err("NOPROTO unsupported protocol version".into()),
    };
    let mut at = 2;
    let mut name = None;
    while let Some(option) = command.get(at) {
        if option.eq_ignore_ascii_case(b"AUTH") {
            let token = command.get(at + 2).ok_or_else(|| format!("{SYNTAX} in HELLO option 'AUTH'"))?;
            session.authenticate(token).map_err(said::denied)?;
            at += 3;
        } else if option.eq_ignore_ascii_case(b"SETNAME") {
            let given = command.get(at + 1).ok_or_else(|| format!("{SYNTAX} in HELLO option 'SETNAME'"))?;
            name = Some(client_name(given)?.to_vec());
            at += 2;
        } else {
            return Err(format!("{SYNTAX} in HELLO option '{}'", option.escape_ascii()));
        }
    }
    if !session.is_known() {
        return Err(
            "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH <user> <pass> option can be used to authenticate the client and select the RESP protocol version at the same time"
                .into(),
        );
    }
    if let Some(name) = name {
        session.name = name;
    }
    session.version = version;
    let mut writer = Writer::new(out, version);
    writer.map(7);
    let mut text = |name: &str, value: &str| {
        writer.bulk(name.as_bytes());
        writer.bulk(value.as_bytes());
    };
    text("server", "jeton");
    text("version", REDIS_VERSION);
    writer.bulk(b"proto");
    writer.integer(if version == Version::Resp3 { 3 } else { 2 });
    writer.bulk(b"id");
    writer.integer(session.number as i64);
    for (name, value) in [("mode", "standalone"), ("role", "master")] {
        writer.bulk(name.as_bytes());
        writer.bulk(value.as_bytes());
    }
    writer.bulk(b"modules");
    writer.array(0);
    Ok(())
}

/// `AUTH token`, or with a name before it, which says nothing here.
fn auth(command: &Command<'_>, session: &mut Session, out: &mut Vec<u8>) -> Result<(), String> {
    let token = match command.len() {
        2 => &command[1],
        3 => &command[2],
        _ => return Err(SYNTAX.into()),
    };
    if !session.service.access.has_tokens() {
        return Err(
            "ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?"
                .into(),
        );
    }
    session.authenticate(token).map_err(said::denied)?;
    Writer::new(out, session.version).simple("OK");
    Ok(())
}

fn select(command: &Command<'_>, session: &Session, out: &mut Vec<u8>) -> Result<(), String> {
    let number = super::keyspace::integer(&command[1]).map_err(|_| "ERR invalid DB index".to_string())?;
    if number != 0 {
        return Err("ERR DB index is out of range".into());
    }
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
    let sub = command[1].to_ascii_uppercase();
    match (&sub[..], command.len()) {
        (b"ID", 2) => Writer::new(out, session.version).integer(session.number as i64),
        (b"GETNAME", 2) => match &session.name[..] {
            [] => Writer::new(out, session.version).null(),
            name => Writer::new(out, session.version).bulk(name),
        },
        (b"SETNAME", 3) => {
            session.name = client_name(&command[2])?.to_vec();
            Writer::new(out, session.version).simple("OK");
        }
        // Said by libraries about themselves; nobody asks for it here.
        (b"SETINFO", 4) | (b"NO-EVICT" | b"NO-TOUCH", 3) => {
            Writer::new(out, session.version).simple("OK");
        }
        (b"INFO", 2) => {
            let resp = if session.version == Version::Resp3 { 3 } else { 2 };
            let (number, peer, name) = (session.number, &session.peer, session.name.escape_ascii());
            let text = format!("id={number} addr={peer} name={name} db=0 resp={resp}\n");
            Writer::new(out, session.version).verbatim(*b"txt", text.as_bytes());
        }
        _ => return Err(subcommand("CLIENT", &command[1])),
    }
    Ok(())
}

fn subcommand(command: &str, given: &[u8]) -> String {
    let given = given[..given.len().min(128)].escape_ascii();
    format!("ERR unknown subcommand or wrong number of arguments for '{given}'. Try {command} HELP.")
}

fn about_commands(command: &Command<'_>, session: &Session, out: &mut Vec<u8>) -> Result<(), String> {
    let mut writer = Writer::new(out, session.version);
    let Some(sub) = command.get(1) else {
        writer.array(VERBS.len());
        VERBS.iter().for_each(|verb| describe(verb, &mut writer));
        return Ok(());
    };
    let named = || (2..command.len()).map(|at| Verb::find(&command[at]));
    match &sub.to_ascii_uppercase()[..] {
        b"COUNT" => writer.integer(VERBS.len() as i64),
        b"LIST" => {
            writer.array(VERBS.len());
            VERBS.iter().for_each(|verb| writer.bulk(verb.name.to_ascii_lowercase().as_bytes()));
        }
        b"INFO" if command.len() == 2 => {
            writer.array(VERBS.len());
            VERBS.iter().for_each(|verb| describe(verb, &mut writer));
        }
        b"INFO" => {
            writer.array(command.len() - 2);
            named().for_each(|verb| match verb {
                Some(verb) => describe(verb, &mut writer),
                None => writer.null_array(),
            });
        }
        b"DOCS" => {
            let verbs: Vec<&Verb> =
                if command.len() == 2 { VERBS.iter().collect() } else { named().flatten().collect() };
            writer.map(verbs.len());
            for verb in verbs {
                writer.bulk(verb.name.to_ascii_lowercase().as_bytes());
                writer.map(2);
                for (name, value) in [("summary", verb.summary), ("group", verb.group)] {
                    writer.bulk(name.as_bytes());
                    writer.bulk(value.as_bytes());
                }
            }
        }
        b"GETKEYS" if command.len() > 2 => {
            let verb = Verb::find(&command[2]).ok_or("ERR Invalid command specified")?;
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
        _ => return Err(subcommand("COMMAND", sub)),
    }
    Ok(())
}

fn describe(verb: &Verb, writer: &mut Writer<'_>) {
    writer.array(10);
    writer.bulk(verb.name.to_ascii_lowercase().as_bytes());
    writer.integer(verb.arity.into());
    writer.set(verb.flags.len());
    verb.flags.iter().for_each(|flag| writer.simple(flag));
    let (first, last, step) = verb.keys;
    [first, last, step].into_iter().for_each(|number| writer.integer(number.into()));
    writer.set(1);
    writer.simple(&format!("@{}", verb.group));
    // Hints, ways to find keys, subcommands: none.
    (0..3).for_each(|_| writer.array(0));
}

/// Settings that tools ask for before they begin.
fn config(command: &Command<'_>, session: &Session, out: &mut Vec<u8>) -> Result<(), String> {
    if !command[1].eq_ignore_ascii_case(b"GET") {
        return Err("ERR settings are not changed by CONFIG here; see `jeton config`".into());
    }
    if command.len() < 3 {
        return Err("ERR wrong number of arguments for 'config|get' command".into());
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
    let asked = |name: &str| {
        (2..command.len()).any(|at| command[at].eq_ignore_ascii_case(name.as_bytes()) || command[at] == *b"*")
    };
    let found: Vec<_> = known.into_iter().filter(|(name, _)| asked(name)).collect();
    let mut writer = Writer::new(out, session.version);
    writer.map(found.len());
    for (name, value) in found {
        writer.bulk(name.as_bytes());
        writer.bulk(value.as_bytes());
    }
    Ok(())
}

fn info(command: &Command<'_>, session: &Session) -> String {
    use std::fmt::Write;
    let service = &session.service;
    let wanted = |section: &str| {
        command.len() == 1
            || (1..command.len()).any(|at| {
                let asked = &command[at];
                asked.eq_ignore_ascii_case(section.as_bytes())
                    || asked.eq_ignore_ascii_case(b"all")
                    || asked.eq_ignore_ascii_case(b"everything")
                    || asked.eq_ignore_ascii_case(b"default")
            })
    };
    let mut text = String::new();
    let count = |what| service.metrics.get(what);
    let mut section = |name: &str, lines: &[(&str, String)]| {
        if wanted(name) {
            let _in_memory = write!(text, "# {name}\r\n");
            for (key, value) in lines {
                let _in_memory = write!(text, "{key}:{value}\r\n");
            }
            text.push_str("\r\n");
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
            ("connected_clients", count(Count::RespOpen).to_string()),
            ("maxclients", service.options.connections_max.to_string()),
        ],
    );
    let stats = service.engine.stats();
    section(
        "Persistence",
        &[
            ("loading", "0".into()),
            ("aof_enabled", "1".into()),
            ("aof_last_write_status", if stats.trouble.is_some() { "err" } else { "ok" }.into()),
            ("jeton_trouble", stats.trouble.unwrap_or_default()),
            ("jeton_log_bytes", stats.logged_bytes.to_string()),
            ("jeton_value_bytes", stats.value_bytes.to_string()),
            ("jeton_id_bytes", stats.ids.bytes.to_string()),
        ],
    );
    section(
        "Stats",
        &[
            ("total_connections_received", count(Count::RespConnections).to_string()),
            ("total_commands_processed", count(Count::Commands).to_string()),
            ("rejected_connections", count(Count::TurnedAway).to_string()),
            ("jeton_applied", count(Count::Applied).to_string()),
            ("jeton_replayed", count(Count::Replayed).to_string()),
            ("jeton_refused", count(Count::Refused).to_string()),
            ("jeton_expired", count(Count::Expired).to_string()),
            ("jeton_mismatch", count(Count::Mismatch).to_string()),
            ("jeton_busy", count(Count::Busy).to_string()),
        ],
    );
    section("Replication", &[("role", "master".into()), ("connected_slaves", "0".into())]);
    let tables: Vec<(String, String)> = stats
        .tables
        .iter()
        .map(|table| {
            let bytes: usize =
                [&table.filters.0, &table.filters.1].into_iter().flatten().map(|one| one.bytes).sum();
            (format!("table_{}", table.name), format!("filter_bytes={bytes},eras={}", table.eras))
        })
        .collect();
    let tables: Vec<(&str, String)> =
        tables.iter().map(|(name, value)| (name.as_str(), value.clone())).collect();
    section("Tables", &tables);
    text
}
