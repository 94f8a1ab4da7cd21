//! A blocking HTTP client: one request per connection, with streaming responses.

use std::io::{self, BufRead, BufReader, Read};
use std::time::Duration;

use anyhow::{Result, anyhow};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use super::ServerArgs;
use super::error_text::lost;
use super::transport::{self, Stream};

/// Maximum length of a header line.
const LINE_BYTES_MAX: u64 = 64 << 10;

/// Maximum length of a buffered body.
const BODY_BYTES_MAX: u64 = 64 << 20;

/// A client of one server.
pub struct Http<'a>(pub &'a ServerArgs);

/// A response whose headers were read.
pub struct Response {
    pub status: u16,
    pub body: Body,
}

/// A streaming body.
pub struct Body {
    stream: BufReader<Box<dyn Stream>>,
    rest: Rest,
}

enum Rest {
    Bytes(u64),
    /// Remaining bytes of the current chunk.
    Chunk(u64),
    Over,
}

impl Http<'_> {
    /// Requests an endless response.
    pub fn listen(&self, path: &str, read_timeout: Duration) -> Result<Response> {
        self.send("GET", path, &[], None, read_timeout)
    }

    fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<&str>,
        read_timeout: Duration,
    ) -> Result<Response> {
        let (server, address) = (self.0, self.0.http());
        let mut stream = transport::connect(
            &address,
            "--http",
            server.tls_ca().as_deref(),
            server.timeout(),
            read_timeout,
        )?;
        let mut head = format!("{method} {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n");
        if let Some(token) = server.token()? {
            if token.bytes().any(|byte| !byte.is_ascii_graphic()) {
                return Err(anyhow!("the token contains invalid characters"));
            }
            head += &format!("authorization: Bearer {token}\r\n");
        }
        for (name, value) in headers {
            if value.bytes().any(|byte| byte.is_ascii_control()) {
                return Err(anyhow!("{value:?} cannot be sent in the header {name}"));
            }
            head += &format!("{name}: {value}\r\n");
        }
        if let Some(body) = body {
            head += &format!("content-type: application/json\r\ncontent-length: {}\r\n", body.len());
        }
        let request = format!("{head}\r\n{}", body.unwrap_or_default());
        stream.write_all(request.as_bytes()).and_then(|()| stream.flush()).map_err(|error| lost(&error))?;
        read_head(BufReader::new(stream)).map_err(|error| lost(&error))
    }

    /// Sends a request and reads the whole response.
    pub fn ask(&self, method: &str, path: &str, body: Option<&str>) -> Result<(u16, String)> {
        self.ask_within(method, path, body, self.0.timeout())
    }

    /// Like `ask`, with another read timeout.
    pub fn ask_within(
        &self,
        method: &str,
        path: &str,
        body: Option<&str>,
        read_timeout: Duration,
    ) -> Result<(u16, String)> {
        self.ask_with(method, path, &[], body, read_timeout)
    }

    /// Like `ask_within`, with headers.
    pub fn ask_with(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<&str>,
        read_timeout: Duration,
    ) -> Result<(u16, String)> {
        let Response { status, body } = self.send(method, path, headers, body, read_timeout)?;
        let mut text = String::new();
        body.take(BODY_BYTES_MAX).read_to_string(&mut text).map_err(|error| lost(&error))?;
        Ok((status, text))
    }
}

fn read_head(mut stream: BufReader<Box<dyn Stream>>) -> io::Result<Response> {
    let invalid = || io::Error::new(io::ErrorKind::InvalidData, "the server does not speak HTTP");
    let first = line(&mut stream)?;
    let status =
        first.strip_prefix("HTTP/1.").and_then(|rest| rest.get(2..5)?.parse().ok()).ok_or_else(invalid)?;
    let mut rest = Rest::Over;
    loop {
        let line = line(&mut stream)?;
        if line.is_empty() {
            break;
        }
        let (name, value) = line.split_once(':').ok_or_else(invalid)?;
        match name.to_ascii_lowercase().as_str() {
            "content-length" => rest = Rest::Bytes(value.trim().parse().map_err(|_| invalid())?),
            "transfer-encoding" => rest = Rest::Chunk(0),
            _ => {}
        }
    }
    Ok(Response { status, body: Body { stream, rest } })
}

fn line(stream: &mut impl BufRead) -> io::Result<String> {
    let mut line = String::new();
    stream.take(LINE_BYTES_MAX).read_line(&mut line)?;
    if !line.ends_with('\n') {
        return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the server closed the connection"));
    }
    line.truncate(line.trim_end().len());
    Ok(line)
}

impl Read for Body {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let invalid = || io::Error::new(io::ErrorKind::InvalidData, "a chunk without a length");
        if let Rest::Chunk(0) = self.rest {
            let mut length = line(&mut self.stream)?;
            // The previous chunk ends with an empty line.
            if length.is_empty() {
                length = line(&mut self.stream)?;
            }
            let length = length.split(';').next().unwrap_or_default();
            self.rest = match u64::from_str_radix(length, 16).map_err(|_| invalid())? {
                0 => Rest::Over,
                length => Rest::Chunk(length),
            };
        }
        let left = match &mut self.rest {
            Rest::Over => return Ok(0),
            Rest::Bytes(left) | Rest::Chunk(left) => left,
        };
        let most = usize::try_from(*left).unwrap_or(usize::MAX).min(buffer.len());
        if most == 0 {
            return Ok(0);
        }
        let bytes = self.stream.read(&mut buffer[..most])?;
        if bytes == 0 {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the server closed the connection"));
        }
        *left -= bytes as u64;
        Ok(bytes)
    }
}

/// Everything but the unreserved characters of RFC 3986.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Percent-encodes a path segment.
pub fn escaped(segment: &str) -> String {
    utf8_percent_encode(segment, RESERVED).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Canned(io::Cursor<Vec<u8>>);

    impl Read for Canned {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            self.0.read(buffer)
        }
    }

    impl io::Write for Canned {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn body_of(text: &str) -> io::Result<(u16, String)> {
        let stream: Box<dyn Stream> = Box::new(Canned(io::Cursor::new(text.as_bytes().to_vec())));
        let mut response = read_head(BufReader::new(stream))?;
        let mut body = String::new();
        response.body.read_to_string(&mut body)?;
        Ok((response.status, body))
    }

    #[test]
    fn bodies_are_read_by_length_and_by_chunks() {
        let counted = "HTTP/1.1 404 Not Found\r\nContent-Length: 3\r\n\r\nabcdef";
        assert_eq!(body_of(counted).unwrap(), (404, "abc".into()));
        let chunked =
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n2;x\r\nde\r\n0\r\n\r\n";
        assert_eq!(body_of(chunked).unwrap(), (200, "abcde".into()));
        for cut in
            ["HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nab", "HTTP/1.1 200 OK\r\n", "SSH-2.0\r\n", ""]
        {
            assert!(body_of(cut).is_err(), "{cut}");
        }
    }

    #[test]
    fn path_segments_are_percent_encoded() {
        assert_eq!(escaped("a/b c?%"), "a%2Fb%20c%3F%25");
    }
}
