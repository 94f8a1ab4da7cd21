//! Replies as a server writes them, in the version of the protocol that the client has chosen.
//!
//! What must hold: whatever is written, the client finds the end of it. Headers promise how many values follow, and
//! the caller keeps the promise; texts that end at the end of their line never contain one.

use std::io::Write as _;

use crate::number::{put_bulk, put_header};

/// The versions of the protocol; a connection begins with the second and changes by `HELLO`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Version {
    /// What every client knows: strings, integers, errors, arrays.
    #[default]
    Resp2,
    /// With maps, sets, booleans, doubles and messages that nobody asked for.
    Resp3,
}

/// From here on doubles are written with an exponent: their last digits would say nothing.
const EXPONENT_MIN: f64 = 1e16;

/// Appends replies to a buffer.
#[derive(Debug)]
pub struct Writer<'a> {
    out: &'a mut Vec<u8>,
    version: Version,
}

impl<'a> Writer<'a> {
    /// A writer that appends to `out`.
    pub fn new(out: &'a mut Vec<u8>, version: Version) -> Self {
        Self { out, version }
    }

    /// The version that is written.
    pub fn version(&self) -> Version {
        self.version
    }

    /// A short text such as `OK`. Line ends in it become spaces.
    pub fn simple(&mut self, text: &str) {
        self.line(b'+', text);
    }

    /// As [`simple`](Self::simple), for a text that is told all the time: given as it is written, such as `+OK\r\n`.
    #[inline]
    pub fn known(&mut self, line: &'static [u8]) {
        debug_assert!(
            line.starts_with(b"+") && line.ends_with(b"\r\n") && !line[..line.len() - 2].contains(&b'\n')
        );
        self.out.extend_from_slice(line);
    }

    /// An error: a code in capitals, a space, and what happened. Line ends in it become spaces, as in Redis.
    pub fn error(&mut self, text: &str) {
        self.line(b'-', text);
    }

    /// A whole number.
    #[inline]
    pub fn integer(&mut self, value: i64) {
        put_header(self.out, b':', value);
    }

    /// Any bytes.
    #[inline]
    pub fn bulk(&mut self, bytes: &[u8]) {
        put_bulk(self.out, b'$', bytes);
    }

    /// Nothing, where a string or a number would be.
    pub fn null(&mut self) {
        self.out.extend_from_slice(match self.version {
            Version::Resp2 => b"$-1\r\n",
            Version::Resp3 => b"_\r\n",
        });
    }

    /// Nothing, where an array would be.
    pub fn null_array(&mut self) {
        self.out.extend_from_slice(match self.version {
            Version::Resp2 => b"*-1\r\n",
            Version::Resp3 => b"_\r\n",
        });
    }

    /// The beginning of an array: `len` values must follow.
    pub fn array(&mut self, len: usize) {
        put_header(self.out, b'*', len as i64);
    }

    /// The beginning of a map: `len` pairs must follow, key and value by turns. Before RESP3 an array of both.
    pub fn map(&mut self, len: usize) {
        match self.version {
            Version::Resp2 => self.array(len * 2),
            Version::Resp3 => put_header(self.out, b'%', len as i64),
        }
    }

    /// The beginning of a set: `len` values must follow. Before RESP3 an array.
    pub fn set(&mut self, len: usize) {
        match self.version {
            Version::Resp2 => self.array(len),
            Version::Resp3 => put_header(self.out, b'~', len as i64),
        }
    }

    /// The beginning of a message that is no answer: `len` values must follow, the first of them the kind of the
    /// message. Before RESP3 an array, which only a client that subscribed to something expects.
    pub fn push(&mut self, len: usize) {
        match self.version {
            Version::Resp2 => self.array(len),
            Version::Resp3 => put_header(self.out, b'>', len as i64),
        }
    }

    /// Yes or no. Before RESP3 the integer 1 or 0.
    pub fn boolean(&mut self, value: bool) {
        match self.version {
            Version::Resp2 => self.integer(i64::from(value)),
            Version::Resp3 => self.out.extend_from_slice(if value { b"#t\r\n" } else { b"#f\r\n" }),
        }
    }

    /// A floating-point number, with as many digits as tell it from all others. Before RESP3 a bulk string.
    pub fn double(&mut self, value: f64) {
        self.text(b',', |out| {
            // Writing into a `Vec` does not fail.
            let _ = if value.is_nan() {
                out.write_all(b"nan")
            } else if value.fract() == 0.0 && value.abs() < EXPONENT_MIN {
                // Without a point, as Redis writes them.
                write!(out, "{value:.0}")
            } else {
                // As short as it is exact; with an exponent if it is very large or very small.
                write!(out, "{value:?}")
            };
        });
    }

    /// A whole number that may need more than 64 bits. Before RESP3 a bulk string.
    pub fn big_number(&mut self, value: i128) {
        self.text(b'(', |out| {
            // Writing into a `Vec` does not fail.
            let _ = write!(out, "{value}");
        });
    }

    /// A text to be shown to people as it is, with three letters that say how it is written: `txt`, `mkd`. Before
    /// RESP3 a bulk string of the text alone.
    pub fn verbatim(&mut self, format: [u8; 3], text: &[u8]) {
        match self.version {
            Version::Resp2 => self.bulk(text),
            Version::Resp3 => {
                put_header(self.out, b'=', text.len() as i64 + 4);
                self.out.extend_from_slice(&format);
                self.out.push(b':');
                self.out.extend_from_slice(text);
                self.out.extend_from_slice(b"\r\n");
            }
        }
    }

    /// A line of its own type in RESP3, a bulk string before.
    fn text(&mut self, kind: u8, write: impl FnOnce(&mut Vec<u8>)) {
        match self.version {
            Version::Resp2 => {
                let mut text = Vec::new();
                write(&mut text);
                self.bulk(&text);
            }
            Version::Resp3 => {
                self.out.push(kind);
                write(self.out);
                self.out.extend_from_slice(b"\r\n");
            }
        }
    }

    fn line(&mut self, kind: u8, text: &str) {
        self.out.reserve(text.len() + 3);
        self.out.push(kind);
        let start = self.out.len();
        self.out.extend_from_slice(text.as_bytes());
        for byte in &mut self.out[start..] {
            if matches!(byte, b'\r' | b'\n') {
                *byte = b' ';
            }
        }
        self.out.extend_from_slice(b"\r\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(write: impl Fn(&mut Writer<'_>), resp2: &str, resp3: &str) {
        for (version, expected) in [(Version::Resp2, resp2), (Version::Resp3, resp3)] {
            let mut out = b"before".to_vec();
            let mut writer = Writer::new(&mut out, version);
            assert_eq!(writer.version(), version);
            write(&mut writer);
            assert_eq!(out.escape_ascii().to_string(), format!("before{expected}"), "{version:?}");
        }
    }

    fn check_both(write: impl Fn(&mut Writer<'_>), expected: &str) {
        check(write, expected, expected);
    }

    #[test]
    fn a_known_text_is_written_as_it_is_given() {
        check_both(|writer| writer.known(b"+applied\r\n"), r"+applied\r\n");
    }

    #[test]
    fn what_both_versions_have() {
        check_both(|out| out.simple("OK"), r"+OK\r\n");
        check_both(|out| out.error("ERR no such counter"), r"-ERR no such counter\r\n");
        check_both(|out| out.integer(-42), r":-42\r\n");
        check_both(|out| out.bulk(b"a\r\nb"), r"$4\r\na\r\nb\r\n");
        check_both(|out| out.bulk(b""), r"$0\r\n\r\n");
        check_both(|out| out.array(0), r"*0\r\n");
        check_both(|out| out.array(1000), r"*1000\r\n");
    }

    #[test]
    fn what_only_the_third_has() {
        check(|out| out.null(), r"$-1\r\n", r"_\r\n");
        check(|out| out.null_array(), r"*-1\r\n", r"_\r\n");
        check(|out| out.map(2), r"*4\r\n", r"%2\r\n");
        check(|out| out.set(2), r"*2\r\n", r"~2\r\n");
        check(|out| out.push(2), r"*2\r\n", r">2\r\n");
        check(|out| out.boolean(true), r":1\r\n", r"#t\r\n");
        check(|out| out.boolean(false), r":0\r\n", r"#f\r\n");
        check(
            |out| out.big_number(i128::MIN),
            &format!(r"$40\r\n{}\r\n", i128::MIN),
            &format!(r"({}\r\n", i128::MIN),
        );
        check(|out| out.verbatim(*b"txt", b"a\nb"), r"$3\r\na\nb\r\n", r"=7\r\ntxt:a\nb\r\n");
    }

    #[test]
    fn doubles_are_short_and_exact() {
        for (value, text) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (3.0, "3"),
            (-17.0, "-17"),
            (0.1, "0.1"),
            (9_999_999_999_999_998.0, "9999999999999998"),
            (1e16, "1e16"),
            (1.5e300, "1.5e300"),
            (-2.5e-9, "-2.5e-9"),
            (f64::INFINITY, "inf"),
            (f64::NEG_INFINITY, "-inf"),
            (f64::NAN, "nan"),
            (-f64::NAN, "nan"),
        ] {
            check(
                |out| out.double(value),
                &format!(r"${}\r\n{text}\r\n", text.len()),
                &format!(r",{text}\r\n"),
            );
        }
    }

    #[test]
    fn a_line_has_no_line_in_it() {
        check_both(|out| out.error("ERR a\r\nb\rc\nd"), r"-ERR a  b c d\r\n");
        check_both(|out| out.simple("\n"), r"+ \r\n");
    }
}
