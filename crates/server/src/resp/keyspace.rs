//! What the commands of Redis do to keys: pure functions of what the keys hold and the time.
//!
//! A command looks at its keys, answers, and leaves behind what they are to hold. Whoever runs it reads the keys before, and writes what
//! changed afterwards, on the condition that nobody else changed them in between.

use jeton_core::{Cell, Value};

use super::said::{NOT_AN_INTEGER, OVERFLOW, SYNTAX, Said};

/// What some keys hold, and what commands make of it.
#[derive(Debug, Default)]
pub struct Keyspace {
    keys: Vec<Key>,
}

#[derive(Debug)]
struct Key {
    name: Vec<u8>,
    /// Where it is, if it may be changed.
    cell: Option<Cell>,
    before: Option<Value>,
    now: Option<Value>,
}

impl Keyspace {
    /// A key that was read.
    pub fn insert(&mut self, name: &[u8], cell: Cell, value: Option<Value>) {
        self.put(name, Some(cell), value);
    }

    /// A key that was read for a command that only looks.
    pub fn hold(&mut self, name: &[u8], value: Option<Value>) {
        self.put(name, None, value);
    }

    fn put(&mut self, name: &[u8], cell: Option<Cell>, value: Option<Value>) {
        if self.keys.iter().all(|key| key.name != name) {
            self.keys.push(Key { name: name.into(), cell, now: value.clone(), before: value });
        }
    }

    fn key(&mut self, name: &[u8]) -> &mut Option<Value> {
        match self.keys.iter_mut().find(|key| key.name == name) {
            Some(key) => &mut key.now,
            None => unreachable!("the keys of a command were read before it runs"),
        }
    }

    /// The keys that are to hold something else, and what.
    pub fn changed(&self) -> impl Iterator<Item = (&Cell, Option<&Value>)> {
        let changed = self.keys.iter().filter(|key| key.before != key.now);
        changed.filter_map(|key| Some((key.cell.as_ref()?, key.now.as_ref())))
    }

    /// All keys, and what they held.
    pub fn read(&self) -> impl Iterator<Item = (&Cell, Option<&Value>)> {
        self.keys.iter().filter_map(|key| Some((key.cell.as_ref()?, key.before.as_ref())))
    }

    /// Does a command that looks at keys or changes them. The name is in capitals; the number of arguments is right.
    pub fn run(&mut self, name: &str, arguments: &[Vec<u8>], millis: u64) -> Said {
        self.try_run(name, arguments, millis).unwrap_or_else(Said::error)
    }

    fn try_run(&mut self, name: &str, arguments: &[Vec<u8>], millis: u64) -> Result<Said, &'static str> {
        let first = &arguments[1];
        Ok(match name {
            "GET" => Said::value(self.key(first).as_ref()),
            "MGET" => {
                Said::Array(arguments[1..].iter().map(|name| Said::value(self.key(name).as_ref())).collect())
            }
            "EXISTS" | "TOUCH" => {
                Said::Integer(arguments[1..].iter().filter(|name| self.key(name).is_some()).count() as i64)
            }
            "TYPE" => Said::Word(if self.key(first).is_some() { "string" } else { "none" }),
            "STRLEN" => Said::Integer(self.key(first).as_ref().map_or(0, |value| value.text().len() as i64)),
            "GETRANGE" | "SUBSTR" => {
                let text = self.key(first).as_ref().map_or_else(Vec::new, Value::text);
                Said::Bulk(part(&text, integer(&arguments[2])?, integer(&arguments[3])?).to_vec())
            }
            "TTL" | "PTTL" | "EXPIRETIME" | "PEXPIRETIME" => self.end(name, first, millis),
            "INCR" => self.add(first, 1)?,
            "DECR" => self.add(first, -1)?,
            "INCRBY" => self.add(first, integer(&arguments[2])?)?,
            "DECRBY" => {
                let delta = integer(&arguments[2])?.checked_neg().ok_or("ERR decrement would overflow")?;
                self.add(first, delta)?
            }
            "INCREX" => self.add_within(first, &arguments[2..])?,
            "SET" => self.set(first, &arguments[2], &arguments[3..], millis)?,
            "SETNX" => {
                let free = self.key(first).is_none();
                if free {
                    *self.key(first) = Some(Value::from_text(&arguments[2]));
                }
                Said::Integer(free.into())
            }
            "SETEX" | "PSETEX" => {
                let unit = if name == "SETEX" { 1000 } else { 1 };
                let until = lifetime(&arguments[2], unit, millis, &name.to_ascii_lowercase())?;
                *self.key(first) = Some(Value::from_text(&arguments[3]).lasting(Some(until)));
                Said::Ok
            }
            "GETSET" => {
                let value = Some(Value::from_text(&arguments[2]));
                let old = std::mem::replace(self.key(first), value);
                Said::value(old.as_ref())
            }
            "GETDEL" => Said::value(self.key(first).take().as_ref()),
            "GETEX" => self.get_until(first, &arguments[2..], millis)?,
            "APPEND" => {
                let key = self.key(first);
                let until = key.as_ref().and_then(Value::until);
                let mut text = key.as_ref().map_or_else(Vec::new, Value::text);
                text.extend_from_slice(&arguments[2]);
                let length = text.len() as i64;
                *key = Some(Value::from_text(&text).lasting(until));
                Said::Integer(length)
            }
            "MSET" | "MSETNX" => self.set_many(name, &arguments[1..])?,
            "DEL" | "UNLINK" => Said::Integer(
                arguments[1..].iter().filter(|name| self.key(name).take().is_some()).count() as i64,
            ),
            "EXPIRE" | "PEXPIRE" | "EXPIREAT" | "PEXPIREAT" => self.expire(name, arguments, millis)?,
            "PERSIST" => {
                let key = self.key(first);
                let had = key.as_ref().and_then(Value::until).is_some();
                *key = key.take().map(Value::plain);
                Said::Integer(had.into())
            }
            _ => unreachable!("{name} is not about keys"),
        })
    }

    fn end(&mut self, name: &str, key: &[u8], millis: u64) -> Said {
        let Some(value) = self.key(key) else { return Said::Integer(-2) };
        let Some(until) = value.until() else { return Said::Integer(-1) };
        let left = until.saturating_sub(millis);
        Said::Integer(match name {
            "TTL" => (left.saturating_add(500) / 1000) as i64,
            "PTTL" => left as i64,
            "EXPIRETIME" => (until.saturating_add(500) / 1000) as i64,
            _ => until as i64,
        })
    }

    fn add(&mut self, key: &[u8], delta: i64) -> Result<Said, &'static str> {
        let key = self.key(key);
        let before = key.as_ref().map_or(Some(0), Value::counter).ok_or(NOT_AN_INTEGER)?;
        let sum = before.checked_add(delta).ok_or(OVERFLOW)?;
        let until = key.as_ref().and_then(Value::until);
        *key = Some(Value::Counter(sum).lasting(until));
        Ok(Said::Integer(sum))
    }

    /// `INCREX key [BYINT n] [LBOUND n] [UBOUND n]`: the value, and what was added; nothing, beyond a bound.
    fn add_within(&mut self, key: &[u8], options: &[Vec<u8>]) -> Result<Said, &'static str> {
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
        Ok(Said::Array(vec![Said::Integer(value), Said::Integer(added)]))
    }

    fn set(
        &mut self,
        key: &[u8],
        value: &[u8],
        options: &[Vec<u8>],
        millis: u64,
    ) -> Result<Said, &'static str> {
        let (mut wanted, mut get, mut keep, mut until) = (None, false, false, None);
        let mut options = options.iter();
        while let Some(option) = options.next() {
            match &option.to_ascii_uppercase()[..] {
                word @ (b"NX" | b"XX") if wanted.is_none() => wanted = Some(word == b"XX"),
                b"GET" => get = true,
                b"KEEPTTL" if until.is_none() => keep = true,
                word @ (b"EX" | b"PX" | b"EXAT" | b"PXAT") if until.is_none() && !keep => {
                    until = Some(end(word, options.next().ok_or(SYNTAX)?, millis, "set")?);
                }
                _ => return Err(SYNTAX),
            }
        }
        let key = self.key(key);
        let old = key.clone();
        let refused = wanted.is_some_and(|present| old.is_some() != present);
        if !refused {
            let until = if keep { old.as_ref().and_then(Value::until) } else { until };
            *key = Some(Value::from_text(value).lasting(until));
        }
        Ok(match (get, refused) {
            (true, _) => Said::value(old.as_ref()),
            (false, true) => Said::Null,
            (false, false) => Said::Ok,
        })
    }

    fn get_until(&mut self, key: &[u8], options: &[Vec<u8>], millis: u64) -> Result<Said, &'static str> {
        let change = match options {
            [] => None,
            [word] if word.eq_ignore_ascii_case(b"PERSIST") => Some(None),
            [word, number] => {
                let word = word.to_ascii_uppercase();
                match &word[..] {
                    b"EX" | b"PX" | b"EXAT" | b"PXAT" => Some(Some(end(&word, number, millis, "getex")?)),
                    _ => return Err(SYNTAX),
                }
            }
            _ => return Err(SYNTAX),
        };
        let key = self.key(key);
        let said = Said::value(key.as_ref());
        if let Some(until) = change {
            *key = key.take().and_then(|value| value.lasting(until).at(millis));
        }
        Ok(said)
    }

    fn set_many(&mut self, name: &str, pairs: &[Vec<u8>]) -> Result<Said, &'static str> {
        if !pairs.len().is_multiple_of(2) {
            return Err(if name == "MSET" {
                "ERR wrong number of arguments for 'mset' command"
            } else {
                "ERR wrong number of arguments for 'msetnx' command"
            });
        }
        let only_new = name == "MSETNX";
        if only_new && pairs.chunks(2).any(|pair| self.key(&pair[0]).is_some()) {
            return Ok(Said::Integer(0));
        }
        for pair in pairs.chunks(2) {
            *self.key(&pair[0]) = Some(Value::from_text(&pair[1]));
        }
        Ok(if only_new { Said::Integer(1) } else { Said::Ok })
    }

    fn expire(&mut self, name: &str, arguments: &[Vec<u8>], millis: u64) -> Result<Said, &'static str> {
        let unit = if name.starts_with('P') { 1 } else { 1000 };
        let base = if name.ends_with("AT") { 0 } else { i128::from(millis) };
        let until = i128::from(integer(&arguments[2])?) * unit + base;
        // What lies before 1970 is over as well.
        let until = u64::try_from(until.max(0)).ok().filter(|until| *until <= i64::MAX as u64);
        let until = until.ok_or("ERR invalid expire time in 'expire' command")?;
        let (mut absent, mut present, mut later, mut earlier) = (false, false, false, false);
        for option in &arguments[3..] {
            match &option.to_ascii_uppercase()[..] {
                b"NX" => absent = true,
                b"XX" => present = true,
                b"GT" => later = true,
                b"LT" => earlier = true,
                _ => return Err("ERR Unsupported option"),
            }
        }
        if absent && (present || later || earlier) {
            return Err("ERR NX and XX, GT or LT options at the same time are not compatible");
        }
        if later && earlier {
            return Err("ERR GT and LT options at the same time are not compatible");
        }
        let key = self.key(&arguments[1]);
        let Some(value) = key.clone() else { return Ok(Said::Integer(0)) };
        let old = value.until();
        let refused = (absent && old.is_some())
            || (present && old.is_none())
            || (later && old.is_none_or(|old| until <= old))
            || (earlier && old.is_some_and(|old| until >= old));
        if !refused {
            *key = value.lasting(Some(until)).at(millis);
        }
        Ok(Said::Integer((!refused).into()))
    }
}

/// An integer, as Redis reads it.
pub fn integer(text: &[u8]) -> Result<i64, &'static str> {
    match Value::from_text(text) {
        Value::Counter(number) => Ok(number),
        _ => Err(NOT_AN_INTEGER),
    }
}

/// The end that an option says, in milliseconds since 1970.
fn end(option: &[u8], number: &[u8], millis: u64, command: &str) -> Result<u64, &'static str> {
    match option {
        b"EX" => lifetime(number, 1000, millis, command),
        b"PX" => lifetime(number, 1, millis, command),
        b"EXAT" => lifetime(number, 1000, 0, command),
        _ => lifetime(number, 1, 0, command),
    }
}

fn lifetime(number: &[u8], unit: i64, from: u64, command: &str) -> Result<u64, &'static str> {
    let invalid = match command {
        "set" => "ERR invalid expire time in 'set' command",
        "getex" => "ERR invalid expire time in 'getex' command",
        "setex" => "ERR invalid expire time in 'setex' command",
        _ => "ERR invalid expire time in 'psetex' command",
    };
    let number = integer(number)?;
    let until = (number > 0).then(|| number.checked_mul(unit)?.checked_add_unsigned(from)).flatten();
    until.map(i64::unsigned_abs).ok_or(invalid)
}

/// A part of a text: from a place to another, both from the end if negative.
fn part(text: &[u8], from: i64, to: i64) -> &[u8] {
    let length = text.len() as i64;
    let place = |at: i64| if at < 0 { (length.saturating_add(at)).max(0) } else { at };
    if from < 0 && to < 0 && from > to {
        return &[];
    }
    let (from, to) = (place(from), place(to).min(length - 1));
    if from > to || length == 0 { &[] } else { &text[from as usize..=to as usize] }
}
