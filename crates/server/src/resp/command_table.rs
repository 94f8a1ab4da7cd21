//! The commands: their names, how many arguments they take, which of them are keys, and what clients ask about them.

/// A command that is known.
#[derive(Debug)]
pub struct CommandSpec {
    /// Its name, in capitals.
    pub name: &'static str,
    /// The number of arguments with the name; if negative, at least so many.
    pub arity: i32,
    /// What it does to keys and connections, in the words of Redis.
    pub flags: &'static [&'static str],
    /// The first key, the last one (from the end, if negative), and the step between them.
    pub keys: (i32, i32, i32),
    /// The group in the documentation.
    pub group: &'static str,
    /// What it does.
    pub summary: &'static str,
    /// How it is done.
    pub kind: Kind,
}

/// How a command is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// About the connection or the server, answered at once.
    Connection,
    /// Adds to a counter.
    Add(Delta),
    /// Sets a key, if it has no options; otherwise it is like any other change.
    Set,
    /// Reads one key.
    Get,
    /// Looks at keys, and answers from what they hold.
    Look,
    /// Appends to a key, in one operation.
    Append,
    /// Changes the expiry time of a key, in one operation.
    Expire,
    /// Looks at keys and changes them.
    Change,
    /// Goes through all keys.
    Walk,
    /// Begins, ends or gives up a transaction.
    Transaction,
    /// A verb with an id.
    Token(IdCommand),
}

/// What a counter is added to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delta {
    /// This.
    Fixed(i64),
    /// The argument.
    Plus,
    /// The argument, taken away.
    Minus,
}

/// A verb with an id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IdCommand {
    /// Adds to a counter.
    Add,
    /// Adds to many counters.
    AddMany,
    /// Sets a key.
    Set,
    /// Sets a counter to zero.
    Reset,
    /// Empties a key.
    Delete,
    /// Reads a key.
    Get,
    /// Tells what became of an id.
    Operation,
}

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

const ONE: (i32, i32, i32) = (1, 1, 1);
const ALL: (i32, i32, i32) = (1, -1, 1);
const NONE: (i32, i32, i32) = (0, 0, 0);

macro_rules! verbs {
    ($($name:literal $arity:literal $flags:ident $keys:expr, $group:literal, $kind:expr, $summary:literal;)*) => {
        /// All commands, by name.
        pub const VERBS: &[CommandSpec] = &[$(CommandSpec {
            name: $name, arity: $arity, flags: $flags, keys: $keys, group: $group, summary: $summary, kind: $kind,
        }),*];
    };
}

verbs! {
    "APPEND" 3 WRITE ONE, "string", Kind::Append, "Appends a string to the value of a key.";
    "AUTH" -2 NO_AUTH NONE, "connection", Kind::Connection, "Shows a token.";
    "CLIENT" -2 NO_FLAGS NONE, "connection", Kind::Connection, "Names the connection, and tells about it.";
    "COMMAND" -1 PLAIN_SLOW NONE, "server", Kind::Connection, "Tells which commands there are.";
    "CONFIG" -2 NO_FLAGS NONE, "server", Kind::Connection, "Tells settings that tools ask for.";
    "DBSIZE" 1 READ NONE, "server", Kind::Walk, "Counts the keys of the default table.";
    "DECR" 2 WRITE ONE, "string", Kind::Add(Delta::Fixed(-1)), "Takes one from a counter.";
    "DECRBY" 3 WRITE ONE, "string", Kind::Add(Delta::Minus), "Takes a number from a counter.";
    "DEL" -2 WRITE_SLOW ALL, "generic", Kind::Change, "Deletes keys, and tells how many there were.";
    "DISCARD" 1 QUEUE NONE, "transactions", Kind::Transaction, "Gives up a transaction.";
    "ECHO" 2 PLAIN NONE, "connection", Kind::Connection, "Sends back what it is sent.";
    "EXEC" 1 EXEC NONE, "transactions", Kind::Transaction, "Does all that was queued, at once.";
    "EXISTS" -2 READ ALL, "generic", Kind::Look, "Counts how many of the keys exist.";
    "EXPIRE" -3 WRITE_SMALL ONE, "generic", Kind::Expire, "Gives a key a time to live, in seconds.";
    "EXPIREAT" -3 WRITE_SMALL ONE, "generic", Kind::Expire, "Gives a key an end, in seconds since 1970.";
    "EXPIRETIME" 2 READ ONE, "generic", Kind::Look, "Tells the end of a key, in seconds since 1970.";
    "FLUSHALL" -1 WRITE_SLOW NONE, "server", Kind::Walk, "Deletes all keys of the default table, where that is allowed.";
    "FLUSHDB" -1 WRITE_SLOW NONE, "server", Kind::Walk, "Deletes all keys of the default table, where that is allowed.";
    "GET" 2 READ ONE, "string", Kind::Get, "Reads a key.";
    "GETDEL" 2 WRITE_SMALL ONE, "string", Kind::Change, "Reads a key and deletes it.";
    "GETEX" -2 WRITE_SMALL ONE, "string", Kind::Change, "Reads a key and changes its time to live.";
    "GETRANGE" 4 READ_SLOW ONE, "string", Kind::Look, "Reads a part of a key.";
    "GETSET" 3 WRITE ONE, "string", Kind::Change, "Sets a key and tells what it was.";
    "HELLO" -1 NO_AUTH NONE, "connection", Kind::Connection, "Chooses the version of the protocol.";
    "INCR" 2 WRITE ONE, "string", Kind::Add(Delta::Fixed(1)), "Adds one to a counter.";
    "INCRBY" 3 WRITE ONE, "string", Kind::Add(Delta::Plus), "Adds a number to a counter.";
    "INCREX" -2 WRITE ONE, "string", Kind::Change, "Adds to a counter within bounds, and tells what was added.";
    "INFO" -1 PLAIN_SLOW NONE, "server", Kind::Connection, "Tells how the server is doing.";
    "JADD" -3 WRITE ONE, "jeton", Kind::Token(IdCommand::Add), "Adds to a counter, once for each id.";
    "JDEL" -2 WRITE ONE, "jeton", Kind::Token(IdCommand::Delete), "Empties a key, once for each id.";
    "JGET" 2 READ ONE, "jeton", Kind::Token(IdCommand::Get), "Reads a key: a counter as an integer.";
    "JMADD" -5 WRITE_LARGE (3, -1, 2), "jeton", Kind::Token(IdCommand::AddMany), "Adds to many counters of one partition, once for each id.";
    "JOP" -2 READ_SLOW NONE, "jeton", Kind::Token(IdCommand::Operation), "Tells what became of an id.";
    "JRESET" -2 WRITE ONE, "jeton", Kind::Token(IdCommand::Reset), "Sets a counter to zero, once for each id.";
    "JSET" -3 WRITE ONE, "jeton", Kind::Token(IdCommand::Set), "Sets a key, once for each id.";
    "MGET" -2 READ ALL, "string", Kind::Look, "Reads keys.";
    "MSET" -3 WRITE_LARGE (1, -1, 2), "string", Kind::Change, "Sets keys; all at once, if one partition has them.";
    "MSETNX" -3 WRITE_LARGE (1, -1, 2), "string", Kind::Change, "Sets keys of one partition, if none of them exists.";
    "MULTI" 1 QUEUE NONE, "transactions", Kind::Transaction, "Begins a transaction.";
    "PERSIST" 2 WRITE_SMALL ONE, "generic", Kind::Expire, "Takes the end of a key away.";
    "PEXPIRE" -3 WRITE_SMALL ONE, "generic", Kind::Expire, "Gives a key a time to live, in milliseconds.";
    "PEXPIREAT" -3 WRITE_SMALL ONE, "generic", Kind::Expire, "Gives a key an end, in milliseconds since 1970.";
    "PEXPIRETIME" 2 READ ONE, "generic", Kind::Look, "Tells the end of a key, in milliseconds since 1970.";
    "PING" -1 FAST NONE, "connection", Kind::Connection, "Answers.";
    "PSETEX" 4 WRITE_LARGE ONE, "string", Kind::Change, "Sets a key for some milliseconds.";
    "PTTL" 2 READ ONE, "generic", Kind::Look, "Tells the time to live of a key, in milliseconds.";
    "QUIT" -1 NO_AUTH NONE, "connection", Kind::Connection, "Closes the connection.";
    "RESET" 1 NO_AUTH NONE, "connection", Kind::Connection, "Makes the connection as if it were new.";
    "SCAN" -2 READ_SLOW NONE, "generic", Kind::Walk, "Goes through the keys of the default table.";
    "SELECT" 2 PLAIN NONE, "connection", Kind::Connection, "Chooses the database: there is one, number 0.";
    "SET" -3 WRITE_LARGE ONE, "string", Kind::Set, "Sets a key.";
    "SETEX" 4 WRITE_LARGE ONE, "string", Kind::Change, "Sets a key for some seconds.";
    "SETNX" 3 WRITE ONE, "string", Kind::Change, "Sets a key, if it does not exist.";
    "STRLEN" 2 READ ONE, "string", Kind::Look, "Tells the length of a key.";
    "SUBSTR" 4 READ_SLOW ONE, "string", Kind::Look, "Reads a part of a key.";
    "TIME" 1 PLAIN NONE, "server", Kind::Connection, "Tells the time.";
    "TOUCH" -2 READ ALL, "generic", Kind::Look, "Counts how many of the keys exist.";
    "TTL" 2 READ ONE, "generic", Kind::Look, "Tells the time to live of a key, in seconds.";
    "TYPE" 2 READ ONE, "generic", Kind::Look, "Tells the type of a key.";
    "UNLINK" -2 WRITE_SMALL ALL, "generic", Kind::Change, "Deletes keys, and tells how many there were.";
}

/// The longest name.
const NAME_BYTES_MAX: usize = 16;

impl CommandSpec {
    /// The command of this name, in whatever case.
    pub fn find(name: &[u8]) -> Option<&'static Self> {
        let mut capitals = [0; NAME_BYTES_MAX];
        let capitals = capitals.get_mut(..name.len())?;
        capitals.copy_from_slice(name);
        capitals.make_ascii_uppercase();
        let capitals = &*capitals;
        let at = VERBS.binary_search_by(|verb| verb.name.as_bytes().cmp(capitals)).ok()?;
        Some(&VERBS[at])
    }

    /// Whether it can have so many arguments, the name included.
    pub fn takes(&self, arguments: usize) -> bool {
        takes(self.arity, arguments)
    }

    /// The categories that Redis puts it in, for lists of what somebody may do.
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

    /// Which of so many arguments are keys.
    pub fn keys(&self, arguments: usize) -> impl Iterator<Item = usize> + use<> {
        let (first, last, step) = self.keys;
        let end = if last < 0 { arguments as i32 + last } else { last };
        let none = first == 0;
        (first..=end).step_by(step.max(1) as usize).filter(move |_| !none).map(|at| at as usize)
    }
}

/// Whether what has this arity can have so many arguments.
pub fn takes(arity: i32, arguments: usize) -> bool {
    let least = arity.unsigned_abs() as usize;
    if arity < 0 { arguments >= least } else { arguments == least }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_in_order_and_found_in_any_case() {
        assert!(VERBS.is_sorted_by(|a, b| a.name < b.name));
        for verb in VERBS {
            assert!(verb.name.len() <= NAME_BYTES_MAX);
            assert_eq!(
                CommandSpec::find(verb.name.to_ascii_lowercase().as_bytes()).map(|found| found.name),
                Some(verb.name)
            );
        }
        assert!(CommandSpec::find(b"").is_none());
        assert!(CommandSpec::find(b"GETX").is_none());
        assert!(CommandSpec::find(&[b'A'; 100]).is_none());
    }

    #[test]
    fn keys_are_where_the_table_says() {
        let keys = |name: &str, arguments| {
            CommandSpec::find(name.as_bytes()).map(|verb| verb.keys(arguments).collect::<Vec<_>>())
        };
        assert_eq!(keys("GET", 2), Some(vec![1]));
        assert_eq!(keys("MGET", 4), Some(vec![1, 2, 3]));
        assert_eq!(keys("MSET", 5), Some(vec![1, 3]));
        assert_eq!(keys("JMADD", 7), Some(vec![3, 5]));
        assert_eq!(keys("PING", 1), Some(vec![]));
    }
}
