//! Commands about the connection and the server, which need no engine.

use jeton_core::units::format_duration;
use jeton_resp::reply_writer::Version;
use jeton_resp::request_parser::Command;

use super::command_table::{self, COMMANDS, CommandSpec};
use super::glob::Glob;
use super::info;
use super::keyspace::integer;
use super::reply::{self, Reply, SYNTAX};
use super::session::Session;

/// The Redis version reported to clients that check it.
pub const REDIS_VERSION: &str = "7.2.0";

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
        "INFO" => Ok(Reply::Text(info::text(command, session))),
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
        // No key is ever watched.
        ("UNWATCH", _) => Reply::Ok,
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
    client_attribute(name, "Client names")
}

/// Checks a name that `CLIENT LIST` reports.
fn client_attribute<'a>(text: &'a [u8], what: &str) -> Result<&'a [u8], String> {
    const NAME_BYTES_MAX: usize = 256;
    if text.len() > NAME_BYTES_MAX || !text.iter().all(|byte| (b'!'..=b'~').contains(byte)) {
        return Err(format!("ERR {what} cannot contain spaces, newlines or special characters."));
    }
    Ok(text)
}

/// `CLIENT LIST [TYPE type|ID id [id ...]]`: the connection of the client, and no others.
fn client_list(command: &Command<'_>, session: &Session) -> Result<Reply, String> {
    let is_listed = match command.get(2).map(<[u8]>::to_ascii_uppercase).as_deref() {
        None => true,
        Some(b"TYPE") if command.len() == 4 => match &command[3].to_ascii_lowercase()[..] {
            b"normal" => true,
            b"master" | b"replica" | b"slave" | b"pubsub" => false,
            _ => return Err(format!("ERR Unknown client type '{}'", reply::shown(&command[3]))),
        },
        Some(b"ID") if command.len() > 3 => {
            let ids = command.iter().skip(3).map(|id| integer(id).map_err(|_| "ERR Invalid client ID"));
            ids.collect::<Result<Vec<_>, _>>()?.contains(&(session.number as i64))
        }
        Some(_) => return Err(SYNTAX.into()),
    };
    Ok(Reply::Text(if is_listed { client_line(session, "list") } else { String::new() }))
}

/// The fields of Redis that are true of a connection.
fn client_line(session: &Session, subcommand: &str) -> String {
    let Session { number, peer, name, library: [library, version], .. } = session;
    let [name, library, version] = [name, library, version].map(|text| text.escape_ascii());
    let (age, resp) = (session.since.elapsed().as_secs(), version_number(session.version));
    let (multi, user) =
        (session.queued.as_ref().map_or(-1, |queued| queued.commands.len() as i64), session.user());
    format!(
        "id={number} addr={peer} name={name} age={age} idle=0 flags=N db=0 sub=0 psub=0 multi={multi} \
         cmd=client|{subcommand} user={user} redir=-1 resp={resp} lib-name={library} lib-ver={version}\n"
    )
}

fn client(command: &Command<'_>, session: &mut Session) -> Result<Reply, String> {
    const SUBCOMMANDS: &[(&str, i32)] = &[
        ("GETNAME", 2),
        ("ID", 2),
        ("INFO", 2),
        ("LIST", -2),
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
        "INFO" => Reply::Text(client_line(session, "info")),
        "LIST" => client_list(command, session)?,
        "SETINFO" => {
            let option = reply::shown(&command[2]);
            let known = ["lib-name", "lib-ver"].iter().position(|known| option.eq_ignore_ascii_case(known));
            let at = known.ok_or_else(|| format!("ERR Unrecognized option '{option}'"))?;
            session.library[at] = client_attribute(&command[3], &option)?.to_vec();
            Reply::Ok
        }
        "NO-EVICT" | "NO-TOUCH"
            if ![&b"on"[..], b"off"].iter().any(|word| command[2].eq_ignore_ascii_case(word)) =>
        {
            return Err(SYNTAX.into());
        }
        // Memory hints are accepted and ignored.
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
        &[("COUNT", 2), ("DOCS", -2), ("GETKEYS", -3), ("INFO", -2), ("LIST", -2)];
    let sub = if command.len() == 1 { "INFO" } else { subcommand("COMMAND", SUBCOMMANDS, command)? };
    let name = |spec: &CommandSpec| Reply::Bulk(spec.name.to_ascii_lowercase().into());
    // All commands, if the request names none.
    let specs: Vec<Option<&CommandSpec>> = match command.len() {
        1 | 2 => COMMANDS.iter().map(Some).collect(),
        arguments => (2..arguments).map(|at| CommandSpec::find(&command[at])).collect(),
    };
    Ok(match sub {
        "COUNT" => Reply::Integer(COMMANDS.len() as i64),
        "LIST" => {
            let filter = list_filter(command)?;
            Reply::Array(COMMANDS.iter().filter(|spec| filter(spec)).map(name).collect())
        }
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

type CommandFilter = Box<dyn Fn(&CommandSpec) -> bool>;

/// The filter of `COMMAND LIST [FILTERBY MODULE name|ACLCAT category|PATTERN pattern]`.
fn list_filter(command: &Command<'_>) -> Result<CommandFilter, String> {
    if command.len() == 2 {
        return Ok(Box::new(|_| true));
    }
    if command.len() != 5 || !command[2].eq_ignore_ascii_case(b"FILTERBY") {
        return Err(SYNTAX.into());
    }
    let argument = command[4].to_ascii_lowercase();
    match &command[3].to_ascii_uppercase()[..] {
        // There are no modules.
        b"MODULE" => Ok(Box::new(|_| false)),
        b"ACLCAT" => Ok(Box::new(move |spec| {
            spec.categories().iter().any(|category| category.as_bytes()[1..] == argument)
        })),
        b"PATTERN" => {
            let pattern = Glob::parse(&argument)?;
            Ok(Box::new(move |spec| pattern.matches(spec.name.to_ascii_lowercase().as_bytes())))
        }
        _ => Err(SYNTAX.into()),
    }
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
    let request_bytes = options.request_bytes_max.to_string();
    let [read_timeout, timeout] =
        [options.request_read_timeout, options.request_timeout].map(format_duration);
    let memory_max = session.service.engine.catalog().budget().limit().to_string();
    let port = session.service.resp_port().to_string();
    let known = [
        ("appendfsync", "always"),
        ("appendonly", "yes"),
        ("client_memory_max", &memory),
        ("cluster-enabled", "no"),
        ("connections_max", &connections),
        ("databases", "1"),
        ("maxclients", &connections),
        ("maxmemory", "0"),
        ("maxmemory-clients", &memory),
        ("maxmemory-policy", "noeviction"),
        ("memory_max", &memory_max),
        ("port", &port),
        ("request_bytes_max", &request_bytes),
        ("request_read_timeout", &read_timeout),
        ("request_timeout", &timeout),
        ("save", ""),
        ("timeout", "0"),
    ];
    let compiled = |pattern: &[u8]| Glob::parse(&pattern.to_ascii_lowercase());
    let patterns = command.iter().skip(2).map(compiled).collect::<Result<Vec<_>, _>>()?;
    // A name without wildcards is returned in the case of the request.
    let requested = |name: &str| {
        let matching = patterns.iter().position(|pattern| pattern.matches(name.as_bytes()))?;
        let pattern = &command[2 + matching];
        let literal = pattern.eq_ignore_ascii_case(name.as_bytes());
        Some(Reply::Bulk(if literal { pattern.to_vec() } else { name.into() }))
    };
    let found = known.into_iter().filter_map(|(name, value)| Some((requested(name)?, value.into())));
    Ok(Reply::Map(found.collect()))
}
