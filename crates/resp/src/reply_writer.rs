//! Writes replies in the protocol version that the client has chosen.
//!
//! Invariant: the client can always find the end of a reply. The caller writes as many values as it announced
//! in a header, and single-line texts never contain a line end.

use crate::number::{put_bulk, put_header};

/// Protocol version of a connection: RESP2 until the client sends `HELLO 3`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Version {
    /// Strings, integers, errors and arrays.
    #[default]
    Resp2,
    /// RESP2 with maps, sets, nulls and verbatim strings.
    Resp3,
}

/// Appends replies to a buffer.
#[derive(Debug)]
pub struct Writer<'a> {
    out: &'a mut Vec<u8>,
    version: Version,
}

impl<'a> Writer<'a> {
    pub fn new(out: &'a mut Vec<u8>, version: Version) -> Self {
        Self { out, version }
    }

    /// Writes a simple string such as `OK`. Line ends become spaces.
    pub fn simple(&mut self, text: &str) {
        self.line(b'+', text);
    }

    /// Writes a preformatted simple string such as `+OK\r\n`, for replies on the hot path.
    #[inline]
    pub fn preformatted(&mut self, line: &'static [u8]) {
        debug_assert!(
            line.starts_with(b"+") && line.ends_with(b"\r\n") && !line[..line.len() - 2].contains(&b'\n')
        );
        self.out.extend_from_slice(line);
    }

    /// Writes an error: a code in capitals, a space and a message. Line ends become spaces, as in Redis.
    pub fn error(&mut self, text: &str) {
        self.line(b'-', text);
    }

    #[inline]
    pub fn integer(&mut self, value: i64) {
        put_header(self.out, b':', value);
    }

    #[inline]
    pub fn bulk(&mut self, bytes: &[u8]) {
        put_bulk(self.out, b'$', bytes);
    }

    /// Writes a null in place of a string or number.
    pub fn null(&mut self) {
        self.out.extend_from_slice(match self.version {
            Version::Resp2 => b"$-1\r\n",
            Version::Resp3 => b"_\r\n",
        });
    }

    /// Writes the header of an array. `len` values must follow.
    pub fn array(&mut self, len: usize) {
        put_header(self.out, b'*', len as i64);
    }

    /// Writes the header of a map. `len` pairs of key and value must follow. An array of keys and values in
    /// RESP2.
    pub fn map(&mut self, len: usize) {
        match self.version {
            Version::Resp2 => self.array(len * 2),
            Version::Resp3 => put_header(self.out, b'%', len as i64),
        }
    }

    /// Writes the header of a set. `len` values must follow. An array in RESP2.
    pub fn set(&mut self, len: usize) {
        match self.version {
            Version::Resp2 => self.array(len),
            Version::Resp3 => put_header(self.out, b'~', len as i64),
        }
    }

    /// Writes a verbatim string with its three-letter format, such as `txt` or `mkd`. A bulk string of the
    /// text in RESP2.
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
            write(&mut writer);
            assert_eq!(out.escape_ascii().to_string(), format!("before{expected}"), "{version:?}");
        }
    }

    fn check_both(write: impl Fn(&mut Writer<'_>), expected: &str) {
        check(write, expected, expected);
    }

    #[test]
    fn types_of_both_versions() {
        check_both(|out| out.preformatted(b"+applied\r\n"), r"+applied\r\n");
        check_both(|out| out.simple("OK"), r"+OK\r\n");
        check_both(|out| out.error("ERR no such counter"), r"-ERR no such counter\r\n");
        check_both(|out| out.integer(-42), r":-42\r\n");
        check_both(|out| out.bulk(b"a\r\nb"), r"$4\r\na\r\nb\r\n");
        check_both(|out| out.bulk(b""), r"$0\r\n\r\n");
        check_both(|out| out.array(0), r"*0\r\n");
        check_both(|out| out.array(1000), r"*1000\r\n");
        // Line ends become spaces.
        check_both(|out| out.error("ERR a\r\nb\rc\nd"), r"-ERR a  b c d\r\n");
        check_both(|out| out.simple("\n"), r"+ \r\n");
    }

    #[test]
    fn types_of_resp3_and_their_resp2_forms() {
        check(|out| out.null(), r"$-1\r\n", r"_\r\n");
        check(|out| out.map(2), r"*4\r\n", r"%2\r\n");
        check(|out| out.set(2), r"*2\r\n", r"~2\r\n");
        check(|out| out.verbatim(*b"txt", b"a\nb"), r"$3\r\na\nb\r\n", r"=7\r\ntxt:a\nb\r\n");
    }
}
