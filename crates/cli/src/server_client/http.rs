//! HTTP, asked: one request on a connection, and a response that is read as it comes.

use std::io::{self, BufRead, BufReader, Read};
use std::time::Duration;

use anyhow::{Result, anyhow};

use super::ServerArgs;
use super::error_text::lost;
use super::transport::{self, Stream};

/// The longest line of a head.
const LINE_BYTES_MAX: u64 = 64 << 10;

/// The longest body that is read whole.
const BODY_BYTES_MAX: u64 = 64 << 20;

/// Asks a server.
pub struct Http<'a>(pub &'a ServerArgs);

/// A response whose head has come.
pub struct Response {
    pub status: u16,
    pub body: Body,
}

/// A body, read as it comes.
pub struct Body {
    stream: BufReader<Box<dyn Stream>>,
    rest: Rest,
}

enum Rest {
    Bytes(u64),
    /// What is left of the present chunk; the next follows.
    Chunk(u64),
    Over,
}

impl Http<'_> {
    /// Asks for something that has no end, from a server that says something at least so often.
    pub fn listen(&self, path: &str, silence: Duration) -> Result<Response> {
        self.send("GET", path, &[], None, silence)
    }

    fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<&str>,
        silence: Duration,
    ) -> Result<Response> {
        let (server, address) = (self.0, self.0.http());
        let mut stream =
            transport::connect(&address, "--http", server.tls_ca().as_deref(), server.timeout(), silence)?;
        let mut head = format!("{method} {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n");
        if let Some(token) = server.token()? {
            if token.bytes().any(|byte| !byte.is_ascii_graphic()) {
                return Err(anyhow!("the token has characters that no token has"));
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
        stream.write_all(request.as_bytes()).and_then(|()| stream.flush()).map_err(|why| lost(&why))?;
        read_head(BufReader::new(stream)).map_err(|why| lost(&why))
    }

    /// Sends a request, and reads the whole response.
    pub fn ask(&self, method: &str, path: &str, body: Option<&str>) -> Result<(u16, String)> {
        self.ask_within(method, path, body, self.0.timeout())
    }

    /// Sends a request that takes the server so much time at most, and reads the whole response.
    pub fn ask_within(
        &self,
        method: &str,
        path: &str,
        body: Option<&str>,
        silence: Duration,
    ) -> Result<(u16, String)> {
        self.ask_with(method, path, &[], body, silence)
    }

    /// The same, with these headers.
    pub fn ask_with(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<&str>,
        silence: Duration,
    ) -> Result<(u16, String)> {
        let Response { status, body } = self.send(method, path, headers, body, silence)?;
        let mut text = String::new();
        body.take(BODY_BYTES_MAX).read_to_string(&mut text).map_err(|why| lost(&why))?;
        Ok((status, text))
    }
}

fn read_head(mut stream: BufReader<Box<dyn Stream>>) -> io::Result<Response> {
    let wrong = || io::Error::new(io::ErrorKind::InvalidData, "this is no server over HTTP");
    let first = line(&mut stream)?;
    let status =
        first.strip_prefix("HTTP/1.").and_then(|rest| rest.get(2..5)?.parse().ok()).ok_or_else(wrong)?;
    let mut rest = Rest::Over;
    loop {
        let line = line(&mut stream)?;
        if line.is_empty() {
            break;
        }
        let (name, value) = line.split_once(':').ok_or_else(wrong)?;
        match name.to_ascii_lowercase().as_str() {
            "content-length" => rest = Rest::Bytes(value.trim().parse().map_err(|_| wrong())?),
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
        let wrong = || io::Error::new(io::ErrorKind::InvalidData, "a chunk without a length");
        if let Rest::Chunk(0) = self.rest {
            let mut length = line(&mut self.stream)?;
            // The end of the chunk before is an empty line.
            if length.is_empty() {
                length = line(&mut self.stream)?;
            }
            let length = length.split(';').next().unwrap_or_default();
            self.rest = match u64::from_str_radix(length, 16).map_err(|_| wrong())? {
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

/// A part of a path, so that nothing in it is taken for something else.
pub fn escaped(part: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    part.bytes()
        .map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Said(io::Cursor<Vec<u8>>);

    impl Read for Said {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            self.0.read(buffer)
        }
    }

    impl io::Write for Said {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn body_of(text: &str) -> io::Result<(u16, String)> {
        let stream: Box<dyn Stream> = Box::new(Said(io::Cursor::new(text.as_bytes().to_vec())));
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
    fn parts_of_a_path_stay_parts() {
        assert_eq!(escaped("a/b c?%"), "a%2Fb%20c%3F%25");
    }
}
