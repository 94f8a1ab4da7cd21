//! The effect of Redis commands on keys, as pure functions of the values and the time.
//!
//! The caller reads the keys before a command and writes the changed ones afterwards, on the condition that
//! no other client changed them in between.

use std::collections::HashMap;
use std::ops::RangeInclusive;

use jeton_core::{Cell, Change, Check, Operation, OperationError, Value};

use super::command_table::{CommandSpec, Kind};
use super::reply::{self, NOT_AN_INTEGER, OVERFLOW, Reply, SYNTAX};

/// Keys with their values before and after some commands.
#[derive(Debug, Default)]
pub struct Keyspace {
    keys: Vec<Key>,
    /// Names used by commands: `a` and `default/a` are the same key.
    names: HashMap<Vec<u8>, usize>,
    cells: HashMap<Cell, usize>,
}

#[derive(Debug)]
struct Key {
    /// The cell, if the commands may change it.
    cell: Option<Cell>,
    before: Option<Value>,
    now: Option<Value>,
}

impl Keyspace {
    /// Adds a key with its present value. A command that only reads needs no cell.
    pub fn insert(&mut self, name: &[u8], cell: Option<Cell>, value: Option<Value>) {
        if self.names.contains_key(name) {
            return;
        }
        let next = self.keys.len();
        let at = cell.as_ref().map_or(next, |cell| *self.cells.entry(cell.clone()).or_insert(next));
        if at == next {
            self.keys.push(Key { cell, now: value.clone(), before: value });
        }
        self.names.insert(name.into(), at);
    }

    fn key(&mut self, name: &[u8]) -> &mut Option<Value> {
        match self.names.get(name) {
            Some(at) => &mut self.keys[*at].now,
            None => unreachable!("the keys of a command are read before it runs"),
        }
    }

    /// The changed keys, each with its value before and after.
    pub fn changed(&self) -> impl Iterator<Item = (&Cell, Option<&Value>, Option<&Value>)> {
        let changed = self.keys.iter().filter(|key| key.before != key.now);
        changed.filter_map(|key| Some((key.cell.as_ref()?, key.before.as_ref(), key.now.as_ref())))
    }

    /// Bytes of the values of these keys.
    pub fn bytes_of(&mut self, names: &[Vec<u8>]) -> usize {
        names.iter().map(|name| self.key(name).as_ref().map_or(0, Value::heap_bytes)).sum()
    }

    /// All keys with their values before the commands.
    pub fn read(&self) -> impl Iterator<Item = (&Cell, Option<&Value>)> {
        self.keys.iter().filter_map(|key| Some((key.cell.as_ref()?, key.before.as_ref())))
    }

    /// Runs a command whose number of arguments has been checked.
    pub fn run(&mut self, spec: &CommandSpec, arguments: &[Vec<u8>], millis: u64) -> Reply {
        self.try_run(spec, arguments, millis).unwrap_or_else(Reply::Error)
    }

    fn try_run(&mut self, spec: &CommandSpec, arguments: &[Vec<u8>], millis: u64) -> Result<Reply, String> {
        let (name, first) = (spec.name, &arguments[1]);
        if let Kind::Add(delta) = spec.kind {
            return Ok(self.add(first, delta.of(arguments.get(2).map_or(&[], Vec::as_slice))?)?);
        }
        Ok(match name {
            "GET" => Reply::value(self.key(first).as_ref()),
            "JGET" => Reply::counter_or_text(self.key(first).as_ref()),
            "MGET" => Reply::Array(
                arguments[1..].iter().map(|name| Reply::value(self.key(name).as_ref())).collect(),
            ),
            "EXISTS" | "TOUCH" => {
                Reply::Integer(arguments[1..].iter().filter(|name| self.key(name).is_some()).count() as i64)
            }
            "TYPE" => Reply::Word(if self.key(first).is_some() { "string" } else { "none" }),
            "STRLEN" => Reply::Integer(self.key(first).as_ref().map_or(0, |value| value.text().len() as i64)),
            "GETRANGE" | "SUBSTR" => {
                let text = self.key(first).as_ref().map_or_else(Vec::new, Value::text);
                Reply::Bulk(part(&text, integer(&arguments[2])?, integer(&arguments[3])?).to_vec())
            }
            "TTL" | "PTTL" | "EXPIRETIME" | "PEXPIRETIME" => self.end(name, first, millis),
            "INCREX" => self.add_within(first, &arguments[2..])?,
            "SET" => {
                self.set(name, first, &arguments[2], &Options::parse(&arguments[3..], false)?, millis)?
            }
            "SETNX" => {
                let free = self.key(first).is_none();
                if free {
                    *self.key(first) = Some(Value::from_text(&arguments[2]));
                }
                Reply::Integer(free.into())
            }
            "SETEX" | "PSETEX" => {
                let option: &[u8] = if name == "SETEX" { b"EX" } else { b"PX" };
                let options = Options { end: Some((option, &arguments[2])), ..Options::default() };
                self.set(name, first, &arguments[3], &options, millis)?
            }
            "GETSET" => {
                let options = Options { get: true, ..Options::default() };
                self.set(name, first, &arguments[2], &options, millis)?
            }
            "GETDEL" => Reply::value(self.key(first).take().as_ref()),
            "GETEX" => self.get_until(first, &arguments[2..], millis)?,
            "APPEND" => {
                let key = self.key(first);
                let until = key.as_ref().and_then(Value::until);
                let mut text = key.as_ref().map_or_else(Vec::new, Value::text);
                text.extend_from_slice(&arguments[2]);
                let length = text.len() as i64;
                *key = Some(Value::from_text(&text).lasting(until));
                Reply::Integer(length)
            }
            "MSET" | "MSETNX" => self.set_many(name, &arguments[1..])?,
            "DEL" | "UNLINK" => Reply::Integer(
                arguments[1..].iter().filter(|name| self.key(name).take().is_some()).count() as i64,
            ),
            "EXPIRE" | "PEXPIRE" | "EXPIREAT" | "PEXPIREAT" | "PERSIST" => {
                let change = ExpiryChange::parse(name, arguments, millis)?;
                let key = self.key(first);
                let applies = key.as_ref().is_some_and(|value| change.applies_to(value));
                if applies {
                    *key = key.take().and_then(|value| value.lasting(change.until).at(millis));
                }
                Reply::Integer(applies.into())
            }
            _ => unreachable!("{name} is not a command on keys"),
        })
    }

    fn end(&mut self, name: &str, key: &[u8], millis: u64) -> Reply {
        let Some(value) = self.key(key) else { return Reply::Integer(-2) };
        let Some(until) = value.until() else { return Reply::Integer(-1) };
        let left = until.saturating_sub(millis);
        Reply::Integer(match name {
            "TTL" => (left.saturating_add(500) / 1000) as i64,
            "PTTL" => left as i64,
            "EXPIRETIME" => (until.saturating_add(500) / 1000) as i64,
            _ => until as i64,
        })
    }

    fn add(&mut self, key: &[u8], delta: i64) -> Result<Reply, &'static str> {
        let key = self.key(key);
        let before = key.as_ref().map_or(Some(0), Value::counter).ok_or(NOT_AN_INTEGER)?;
        let sum = before.checked_add(delta).ok_or(OVERFLOW)?;
        let until = key.as_ref().and_then(Value::until);
        *key = Some(Value::Counter(sum).lasting(until));
        Ok(Reply::Integer(sum))
    }

    /// `INCREX key [BYINT n] [LBOUND n] [UBOUND n]`: returns the value and the amount added, 0 if a bound was
    /// exceeded.
    fn add_within(&mut self, key: &[u8], options: &[Vec<u8>]) -> Result<Reply, &'static str> {
        let (mut delta, mut least, mut most) = (1, i64::MIN, i64::MAX);
        for pair in options.chunks(2) {
            let [option, number] = pair else { return Err(SYNTAX) };
            let number = integer(number)?;
            match &option.to_ascii_uppercase()[..] {
                b"BYINT" => delta = number,
                b"LBOUND" => least = number,
                b"UBOUND" => most = number,
                _ => return Err(SYNTAX),
            }
        }
        if least > most {
            return Err("ERR LBOUND is above UBOUND");
        }
        let before = self.key(key).as_ref().map_or(Some(0), Value::counter).ok_or(NOT_AN_INTEGER)?;
        let within = before.checked_add(delta).is_some_and(|sum| (least..=most).contains(&sum));
        if within {
            self.add(key, delta)?;
        }
        let (value, added) = if within { (before + delta, delta) } else { (before, 0) };
        Ok(Reply::Array(vec![Reply::Integer(value), Reply::Integer(added)]))
    }

    fn set(
        &mut self,
        name: &str,
        key: &[u8],
        value: &[u8],
        options: &Options<'_>,
        millis: u64,
    ) -> Result<Reply, String> {
        let until = options.until(millis, name)?;
        let key = self.key(key);
        let old = key.clone();
        let refused = options.present.is_some_and(|present| old.is_some() != present);
        if !refused {
            let until = if options.keep { old.as_ref().and_then(Value::until) } else { until };
            *key = Value::from_text(value).lasting(until).at(millis);
        }
        Ok(match (options.get, refused) {
            (true, _) => Reply::value(old.as_ref()),
            (false, true) => Reply::Null,
            (false, false) => Reply::Ok,
        })
    }

    fn get_until(&mut self, key: &[u8], options: &[Vec<u8>], millis: u64) -> Result<Reply, String> {
        let options = Options::parse(options, true)?;
        let key = self.key(key);
        if key.is_none() {
            return Ok(Reply::Null);
        }
        let until = options.until(millis, "GETEX")?;
        let reply = Reply::value(key.as_ref());
        if until.is_some() || options.persist {
            *key = key.take().and_then(|value| value.lasting(until).at(millis));
        }
        Ok(reply)
    }

    fn set_many(&mut self, name: &str, pairs: &[Vec<u8>]) -> Result<Reply, String> {
        if !pairs.len().is_multiple_of(2) {
            return Err(reply::arity_error(name.as_bytes()));
        }
        let only_new = name == "MSETNX";
        if only_new && pairs.chunks(2).any(|pair| self.key(&pair[0]).is_some()) {
            return Ok(Reply::Integer(0));
        }
        for pair in pairs.chunks(2) {
            *self.key(&pair[0]) = Some(Value::from_text(&pair[1]));
        }
        Ok(if only_new { Reply::Integer(1) } else { Reply::Ok })
    }
}

/// The expiry time of a value that does not expire, in the comparisons of `NX`, `XX`, `GT` and `LT`.
const NEVER: u64 = u64::MAX;

/// `EXPIRE`, `PEXPIRE`, `EXPIREAT`, `PEXPIREAT` or `PERSIST`.
pub struct ExpiryChange {
    /// The new expiry time in milliseconds since 1970; none removes it.
    until: Option<u64>,
    /// The range of present expiry times for which the command takes effect.
    present: RangeInclusive<u64>,
}

impl ExpiryChange {
    /// `arguments` begin with the name of the command, and their number has been checked.
    pub fn parse<A: AsRef<[u8]>>(name: &str, arguments: &[A], millis: u64) -> Result<Self, String> {
        if name == "PERSIST" {
            return Ok(Self { until: None, present: 0..=NEVER - 1 });
        }
        let (mut nx, mut xx, mut gt, mut lt) = (false, false, false, false);
        for option in &arguments[3..] {
            match &option.as_ref().to_ascii_uppercase()[..] {
                b"NX" => nx = true,
                b"XX" => xx = true,
                b"GT" => gt = true,
                b"LT" => lt = true,
                _ => return Err(format!("ERR Unsupported option {}", reply::shown(option.as_ref()))),
            }
        }
        if nx && (xx || gt || lt) {
            return Err("ERR NX and XX, GT or LT options at the same time are not compatible".into());
        }
        if gt && lt {
            return Err("ERR GT and LT options at the same time are not compatible".into());
        }
        let unit = if name.starts_with('P') { 1 } else { 1000 };
        let base = if name.ends_with("AT") { 0 } else { millis as i64 };
        let number = integer(arguments[2].as_ref())?;
        let until = number.checked_mul(unit).and_then(|until| until.checked_add(base));
        // A time before 1970 has passed as well.
        let until = u64::try_from(until.ok_or_else(|| invalid_expiry(name))?).unwrap_or(0);
        let min = match (nx, lt) {
            (true, _) => NEVER,
            (false, true) => until + 1,
            (false, false) => 0,
        };
        let max = match (gt, xx) {
            (true, _) => until.saturating_sub(1),
            (false, true) => NEVER - 1,
            (false, false) => NEVER,
        };
        Ok(Self { until: Some(until), present: min..=max })
    }

    fn applies_to(&self, value: &Value) -> bool {
        self.present.contains(&value.until().unwrap_or(NEVER))
    }

    /// The operation that a shard decides: it is refused if the command has no effect. Only the expiry time
    /// is logged, not the value.
    pub fn operation(&self, cell: Cell, millis: u64) -> Result<Operation, OperationError> {
        let (min, max) = (*self.present.start(), *self.present.end());
        let change = match self.until {
            Some(until) if until <= millis => Change::Delete,
            until => Change::Expire(until),
        };
        let check = Change::Check(Check::ExpiresWithin { min, max });
        Operation::batch(None, vec![(cell.clone(), check), (cell, change)])
    }
}

/// The change that stores a text: as a counter, if it is the text of one.
pub fn set(text: &[u8]) -> Change {
    match Value::from_text(text) {
        Value::Counter(value) => Change::Set(value),
        _ => Change::Put(text.into()),
    }
}

/// `APPEND` as an operation. Its first result is the new length; the check that follows always passes and
/// returns the counter, for the change feed.
pub fn append(cell: Cell, bytes: &[u8]) -> Result<Operation, OperationError> {
    let append = Change::Append(bytes.into());
    Operation::batch(None, vec![(cell.clone(), append), (cell, Change::Check(Check::Present))])
}

/// Parses an integer as Redis does.
pub fn integer(text: &[u8]) -> Result<i64, &'static str> {
    match Value::from_text(text) {
        Value::Counter(number) => Ok(number),
        _ => Err(NOT_AN_INTEGER),
    }
}

/// Options of `SET` and `GETEX`. They are parsed before the key is read, as in Redis.
#[derive(Default)]
struct Options<'a> {
    /// `XX`: the key must exist. `NX`: it must not.
    present: Option<bool>,
    get: bool,
    keep: bool,
    persist: bool,
    end: Option<(&'static [u8], &'a [u8])>,
}

impl<'a> Options<'a> {
    fn parse(words: &'a [Vec<u8>], getex: bool) -> Result<Self, &'static str> {
        const ENDS: [&[u8]; 4] = [b"EX", b"PX", b"EXAT", b"PXAT"];
        let mut options = Self::default();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let word = word.to_ascii_uppercase();
            let end = ENDS.into_iter().find(|end| *end == word);
            let free = |options: &Self, end| options.end.is_none_or(|(other, _)| other == end);
            match &word[..] {
                b"NX" if !getex && options.present != Some(true) => options.present = Some(false),
                b"XX" if !getex && options.present != Some(false) => options.present = Some(true),
                b"GET" if !getex => options.get = true,
                b"KEEPTTL" if !getex && options.end.is_none() => options.keep = true,
                b"PERSIST" if getex && options.end.is_none() => options.persist = true,
                _ => match end {
                    Some(end) if free(&options, end) && !options.keep && !options.persist => {
                        options.end = Some((end, words.next().ok_or(SYNTAX)?));
                    }
                    _ => return Err(SYNTAX),
                },
            }
        }
        Ok(options)
    }

    fn until(&self, millis: u64, command: &str) -> Result<Option<u64>, String> {
        self.end.map(|(option, number)| end(option, number, millis, command)).transpose()
    }
}

/// The expiry time of an option, in milliseconds since 1970.
fn end(option: &[u8], number: &[u8], millis: u64, command: &str) -> Result<u64, String> {
    let number = integer(number)?;
    let unit = if option.starts_with(b"P") { 1 } else { 1000 };
    let base = if option.ends_with(b"AT") { 0 } else { millis };
    let until = (number > 0).then(|| number.checked_mul(unit)?.checked_add_unsigned(base)).flatten();
    until.map(i64::unsigned_abs).ok_or_else(|| invalid_expiry(command))
}

fn invalid_expiry(command: &str) -> String {
    format!("ERR invalid expire time in '{}' command", command.to_ascii_lowercase())
}

/// The range `from..=to` of a text. Negative positions count from the end.
fn part(text: &[u8], from: i64, to: i64) -> &[u8] {
    let length = text.len() as i64;
    let place = |at: i64| if at < 0 { (length.saturating_add(at)).max(0) } else { at };
    if from < 0 && to < 0 && from > to {
        return &[];
    }
    let (from, to) = (place(from), place(to).min(length - 1));
    if from > to || length == 0 { &[] } else { &text[from as usize..=to as usize] }
}
