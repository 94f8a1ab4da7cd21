//! The commands: names, arity, key positions, and the metadata of `COMMAND`.

use super::keyspace::integer;
use super::reply;

#[derive(Debug)]
pub struct CommandSpec {
    pub name: &'static str,
    /// Number of arguments, the name included. If negative, the minimum number.
    pub arity: i32,
    /// Flags of Redis, as `COMMAND` reports them.
    pub flags: &'static [&'static str],
    /// Positions of the first and last key (from the end if negative), and the step between keys.
    pub keys: (i32, i32, i32),
    /// Group of the command, as `COMMAND DOCS` reports it.
    pub group: &'static str,
    /// One-line description, as `COMMAND DOCS` reports it.
    pub summary: &'static str,
    pub kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Concerns the connection or the server; needs no engine.
    Connection,
    Add(Delta),
    Set,
    Get,
    /// Computes a reply from the values of keys.
    Read,
    Append,
    Expire,
    /// Changes keys depending on their values, in several steps.
    Change,
    Scan,
    /// `MULTI`, `EXEC` or `DISCARD`.
    Transaction,
    WithId(IdCommand),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delta {
    Fixed(i64),
    /// The second argument.
    Plus,
    /// The negated second argument.
    Minus,
}

impl Delta {
    /// `argument` is the second argument of the command.
    pub fn of(self, argument: &[u8]) -> Result<i64, &'static str> {
        match self {
            Self::Fixed(delta) => Ok(delta),
            Self::Plus => integer(argument),
            Self::Minus => integer(argument)?.checked_neg().ok_or("ERR decrement would overflow"),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IdCommand {
    Add,
    AddMany,
    Set,
    Reset,
    Delete,
    Get,
    /// Reports the status of an id.
    Operation,
}

/// Maximum arguments of a command that has no list of keys.
pub const ARGUMENTS_MAX: usize = 1024;

/// Maximum keys of a command.
pub const KEYS_MAX: usize = 20_000;

const READ: &[&str] = &["readonly", "fast"];
const READ_SLOW: &[&str] = &["readonly"];
const WRITE: &[&str] = &["write", "denyoom", "fast"];
const WRITE_LARGE: &[&str] = &["write", "denyoom"];
const WRITE_SMALL: &[&str] = &["write", "fast"];
const WRITE_SLOW: &[&str] = &["write"];
const PLAIN: &[&str] = &["loading", "stale", "fast"];
const PLAIN_SLOW: &[&str] = &["loading", "stale"];
const FAST: &[&str] = &["fast"];
const NO_FLAGS: &[&str] = &[];
const QUEUE: &[&str] = &["noscript", "loading", "stale", "fast", "allow_busy"];
const EXEC: &[&str] = &["noscript", "loading", "stale", "skip_slowlog"];
const NO_AUTH: &[&str] = &["noscript", "loading", "stale", "fast", "no_auth", "allow_busy"];

pub const ONE: (i32, i32, i32) = (1, 1, 1);
const ALL: (i32, i32, i32) = (1, -1, 1);
const NONE: (i32, i32, i32) = (0, 0, 0);

macro_rules! commands {
    ($($name:literal $arity:literal $flags:ident $keys:expr, $group:literal, $kind:expr, $summary:literal;)*) => {
        /// All commands, sorted by name.
        pub const COMMANDS: &[CommandSpec] = &[$(CommandSpec {
            name: $name, arity: $arity, flags: $flags, keys: $keys, group: $group, summary: $summary, kind: $kind,
        }),*];
    };
}

commands! {
    "APPEND" 3 WRITE ONE, "string", Kind::Append, "Appends a string to the value of a key.";
    "AUTH" -2 NO_AUTH NONE, "connection", Kind::Connection, "Authenticates the connection by a token.";
    "CLIENT" -2 NO_FLAGS NONE, "connection", Kind::Connection, "Names the connection and reports its state.";
    "COMMAND" -1 PLAIN_SLOW NONE, "server", Kind::Connection, "Lists the supported commands.";
    "CONFIG" -2 NO_FLAGS NONE, "server", Kind::Connection, "Reports settings that tools read.";
    "DBSIZE" 1 READ NONE, "server", Kind::Scan, "Counts the keys of the default table.";
    "DECR" 2 WRITE ONE, "string", Kind::Add(Delta::Fixed(-1)), "Subtracts one from a counter.";
    "DECRBY" 3 WRITE ONE, "string", Kind::Add(Delta::Minus), "Subtracts a number from a counter.";
    "DEL" -2 WRITE_SLOW ALL, "generic", Kind::Change, "Deletes keys and returns how many existed.";
    "DISCARD" 1 QUEUE NONE, "transactions", Kind::Transaction, "Discards the queued commands.";
    "ECHO" 2 PLAIN NONE, "connection", Kind::Connection, "Returns its argument.";
    "EXEC" 1 EXEC NONE, "transactions", Kind::Transaction, "Executes the queued commands atomically.";
    "EXISTS" -2 READ ALL, "generic", Kind::Read, "Counts how many of the keys exist.";
    "EXPIRE" -3 WRITE_SMALL ONE, "generic", Kind::Expire, "Sets the time to live of a key, in seconds.";
    "EXPIREAT" -3 WRITE_SMALL ONE, "generic", Kind::Expire, "Sets the expiry time of a key, in seconds since 1970.";
    "EXPIRETIME" 2 READ ONE, "generic", Kind::Read, "Returns the expiry time of a key, in seconds since 1970.";
    "FLUSHALL" -1 WRITE_SLOW NONE, "server", Kind::Scan, "Deletes all keys of the default table, if the server allows it.";
    "FLUSHDB" -1 WRITE_SLOW NONE, "server", Kind::Scan, "Deletes all keys of the default table, if the server allows it.";
    "GET" 2 READ ONE, "string", Kind::Get, "Reads a key.";
    "GETDEL" 2 WRITE_SMALL ONE, "string", Kind::Change, "Reads a key and deletes it.";
    "GETEX" -2 WRITE_SMALL ONE, "string", Kind::Change, "Reads a key and changes its time to live.";
    "GETRANGE" 4 READ_SLOW ONE, "string", Kind::Read, "Reads a part of a key.";
    "GETSET" 3 WRITE ONE, "string", Kind::Change, "Sets a key and returns its old value.";
    "HELLO" -1 NO_AUTH NONE, "connection", Kind::Connection, "Chooses the version of the protocol.";
    "INCR" 2 WRITE ONE, "string", Kind::Add(Delta::Fixed(1)), "Adds one to a counter.";
    "INCRBY" 3 WRITE ONE, "string", Kind::Add(Delta::Plus), "Adds a number to a counter.";
    "INCREX" -2 WRITE ONE, "string", Kind::Change, "Adds to a counter within bounds and returns the amount added.";
    "INFO" -1 PLAIN_SLOW NONE, "server", Kind::Connection, "Reports the state of the server.";
    "JADD" -3 WRITE ONE, "jeton", Kind::WithId(IdCommand::Add), "Adds to a counter, once for each id.";
    "JDEL" -2 WRITE ONE, "jeton", Kind::WithId(IdCommand::Delete), "Deletes a key, once for each id.";
    "JGET" 2 READ ONE, "jeton", Kind::WithId(IdCommand::Get), "Reads a key: a counter as an integer.";
    "JMADD" -5 WRITE_LARGE (3, -1, 2), "jeton", Kind::WithId(IdCommand::AddMany), "Adds to many counters with the same hash tag, once for each id.";
    "JOP" -2 READ_SLOW ONE, "jeton", Kind::WithId(IdCommand::Operation), "Reports the status of an id for a key.";
    "JRESET" -2 WRITE ONE, "jeton", Kind::WithId(IdCommand::Reset), "Sets a counter to zero, once for each id.";
    "JSET" -3 WRITE ONE, "jeton", Kind::WithId(IdCommand::Set), "Sets a key, once for each id.";
    "MGET" -2 READ ALL, "string", Kind::Read, "Reads keys.";
    "MSET" -3 WRITE_LARGE (1, -1, 2), "string", Kind::Change, "Sets keys; all at once, if they have the same hash tag.";
    "MSETNX" -3 WRITE_LARGE (1, -1, 2), "string", Kind::Change, "Sets keys with the same hash tag, if none of them exists.";
    "MULTI" 1 QUEUE NONE, "transactions", Kind::Transaction, "Starts queueing commands.";
    "PERSIST" 2 WRITE_SMALL ONE, "generic", Kind::Expire, "Removes the expiry time of a key.";
    "PEXPIRE" -3 WRITE_SMALL ONE, "generic", Kind::Expire, "Sets the time to live of a key, in milliseconds.";
    "PEXPIREAT" -3 WRITE_SMALL ONE, "generic", Kind::Expire, "Sets the expiry time of a key, in milliseconds since 1970.";
    "PEXPIRETIME" 2 READ ONE, "generic", Kind::Read, "Returns the expiry time of a key, in milliseconds since 1970.";
    "PING" -1 FAST NONE, "connection", Kind::Connection, "Checks the connection.";
    "PSETEX" 4 WRITE_LARGE ONE, "string", Kind::Change, "Sets a key for some milliseconds.";
    "PTTL" 2 READ ONE, "generic", Kind::Read, "Returns the time to live of a key, in milliseconds.";
    "QUIT" -1 NO_AUTH NONE, "connection", Kind::Connection, "Closes the connection.";
    "RESET" 1 NO_AUTH NONE, "connection", Kind::Connection, "Resets the connection to its initial state.";
    "SCAN" -2 READ_SLOW NONE, "generic", Kind::Scan, "Iterates over the keys of the default table.";
    "SELECT" 2 PLAIN NONE, "connection", Kind::Connection, "Selects the database; only 0 exists.";
    "SET" -3 WRITE_LARGE ONE, "string", Kind::Set, "Sets a key.";
    "SETEX" 4 WRITE_LARGE ONE, "string", Kind::Change, "Sets a key for some seconds.";
    "SETNX" 3 WRITE ONE, "string", Kind::Change, "Sets a key, if it does not exist.";
    "STRLEN" 2 READ ONE, "string", Kind::Read, "Returns the length of a value.";
    "SUBSTR" 4 READ_SLOW ONE, "string", Kind::Read, "Reads a part of a key.";
    "TIME" 1 PLAIN NONE, "server", Kind::Connection, "Returns the time of the server.";
    "TOUCH" -2 READ ALL, "generic", Kind::Read, "Counts how many of the keys exist.";
    "TTL" 2 READ ONE, "generic", Kind::Read, "Returns the time to live of a key, in seconds.";
    "TYPE" 2 READ ONE, "generic", Kind::Read, "Returns the type of a key.";
    "UNLINK" -2 WRITE_SMALL ALL, "generic", Kind::Change, "Deletes keys and returns how many existed.";
    "UNWATCH" 1 QUEUE NONE, "transactions", Kind::Connection, "Does nothing: no key is watched.";
}

const NAME_BYTES_MAX: usize = 16;

impl CommandSpec {
    /// Finds a command by its name, in any case.
    pub fn find(name: &[u8]) -> Option<&'static Self> {
        let mut capitals = [0; NAME_BYTES_MAX];
        let capitals = capitals.get_mut(..name.len())?;
        capitals.copy_from_slice(name);
        capitals.make_ascii_uppercase();
        let capitals = &*capitals;
        let at = COMMANDS.binary_search_by(|spec| spec.name.as_bytes().cmp(capitals)).ok()?;
        Some(&COMMANDS[at])
    }

    /// Whether the command accepts `arguments` arguments, the name included.
    pub fn takes(&self, arguments: usize) -> bool {
        takes(self.arity, arguments)
    }

    /// Checks the limits on the number of arguments and keys, before anything is copied or changed.
    pub fn check_size(&self, arguments: usize) -> Result<(), String> {
        if arguments <= ARGUMENTS_MAX {
            return Ok(());
        }
        let (_, last, step) = self.keys;
        if last >= 0 {
            return Err(format!("ERR this command has at most {ARGUMENTS_MAX} arguments"));
        }
        if (arguments - 1) / step.max(1) as usize > KEYS_MAX {
            return Err(format!("ERR a command names at most {KEYS_MAX} keys"));
        }
        Ok(())
    }

    pub fn categories(&self) -> Vec<&'static str> {
        let flag = |flag: &str| self.flags.contains(&flag);
        let is = |names: &[&str]| names.contains(&self.name);
        let all = [
            ("@keyspace", self.group == "generic" || is(&["DBSIZE", "FLUSHALL", "FLUSHDB"])),
            ("@read", flag("readonly")),
            ("@write", flag("write")),
            ("@string", matches!(self.group, "string" | "jeton")),
            ("@fast", flag("fast")),
            ("@slow", !flag("fast")),
            ("@dangerous", is(&["FLUSHALL", "FLUSHDB", "INFO"])),
            ("@connection", self.group == "connection" && !is(&["CLIENT"]) || is(&["COMMAND"])),
            ("@transaction", self.group == "transactions"),
        ];
        all.into_iter().filter(|(_, is_in)| *is_in).map(|(name, _)| name).collect()
    }

    /// Positions of the keys among `arguments` arguments.
    pub fn keys(&self, arguments: usize) -> impl Iterator<Item = usize> + use<> {
        let (first, last, step) = self.keys;
        let end = if last < 0 { arguments as i32 + last } else { last };
        let none = first == 0;
        (first..=end).step_by(step.max(1) as usize).filter(move |_| !none).map(|at| at as usize)
    }
}

/// Commands of Redis that are refused for a reason, and what to use instead. Sorted by name.
const REFUSED: &[(&str, &str)] = &[
    ("COPY", "read the value with GET and write it with SET"),
    ("EVAL", "use MULTI, or commands with an id"),
    ("EVALSHA", "use MULTI, or commands with an id"),
    ("INCRBYFLOAT", "sums of floating-point numbers are not exact; count the smallest unit with INCRBY"),
    ("KEYS", "it would block the server; use SCAN"),
    ("PSUBSCRIBE", "use GET /v1/watch over HTTP"),
    ("RENAME", "write the new key and delete the old one in MULTI, with a hash tag in both"),
    ("RENAMENX", "write the new key with SETNX and delete the old one in MULTI, with a hash tag in both"),
    ("SETRANGE", "write the whole value with SET"),
    ("SUBSCRIBE", "use GET /v1/watch over HTTP"),
    ("WATCH", "use commands with an id, SET with NX or XX, INCREX, or the bounds of JADD"),
];

/// The error of a command that is not in the table.
pub fn unknown<'a>(name: &[u8], arguments: impl Iterator<Item = &'a [u8]>) -> String {
    match REFUSED.iter().find(|(refused, _)| name.eq_ignore_ascii_case(refused.as_bytes())) {
        Some((refused, instead)) => format!("ERR {refused} is not supported: {instead}"),
        None => reply::unknown_command(name, arguments),
    }
}

/// Whether an arity allows `arguments` arguments.
pub fn takes(arity: i32, arguments: usize) -> bool {
    let least = arity.unsigned_abs() as usize;
    if arity < 0 { arguments >= least } else { arguments == least }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_sorted_and_found_in_any_case() {
        assert!(COMMANDS.is_sorted_by(|a, b| a.name < b.name));
        for spec in COMMANDS {
            assert!(spec.name.len() <= NAME_BYTES_MAX);
            let found = CommandSpec::find(spec.name.to_ascii_lowercase().as_bytes());
            assert_eq!(found.map(|found| found.name), Some(spec.name));
        }
        assert!(CommandSpec::find(b"").is_none());
        assert!(CommandSpec::find(b"GETX").is_none());
        assert!(CommandSpec::find(&[b'A'; 100]).is_none());
    }

    #[test]
    fn key_positions_match_the_table() {
        let keys = |name: &str, arguments| {
            CommandSpec::find(name.as_bytes()).map(|spec| spec.keys(arguments).collect::<Vec<_>>())
        };
        assert_eq!(keys("GET", 2), Some(vec![1]));
        assert_eq!(keys("MGET", 4), Some(vec![1, 2, 3]));
        assert_eq!(keys("MSET", 5), Some(vec![1, 3]));
        assert_eq!(keys("JMADD", 7), Some(vec![3, 5]));
        assert_eq!(keys("PING", 1), Some(vec![]));
    }
}
