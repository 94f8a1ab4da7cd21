//! The server under attack: a release build with tokens in a cgroup, and what it contains before the attack.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use jeton_resp::command;
use jeton_resp::reply_parser::{Limits, Parser, Progress, Value};
use jeton_testbed::{Server, Signal, bound_command, free_address};

use crate::cgroup::Cgroup;

/// Tokens: name, pattern of tables, rights. Attackers have the first four or none.
const TOKENS: [(&str, &str, &[&str]); 6] = [
    ("scanner", "default", &["read"]),
    ("reader", "att*", &["read"]),
    ("adder", "att*", &["add"]),
    ("admin", "att*", &["read", "add", "admin"]),
    ("good", "good", &["read", "add"]),
    ("owner", "*", &["read", "add", "admin"]),
];

/// Rows with values of 64,000 bytes that attackers may read.
const BIG_ROWS: usize = 1000;

/// Value of the counter that no attacker may change or read.
const GUARDED: i64 = 1_000;

/// How long the first rows may be refused as busy.
const BUSY_MAX: Duration = Duration::from_secs(60);

pub struct Target {
    pub resp: SocketAddr,
    pub http: SocketAddr,
    pub server: Server,
    pub cgroup: Option<Cgroup>,
    tokens: Vec<(&'static str, String)>,
    folder: PathBuf,
}

impl Target {
    pub fn start(folder: &Path, memory: u64) -> Result<Self> {
        let jeton = std::env::current_exe()?.with_file_name("jeton");
        let file = folder.join("tokens.json");
        let mut tokens = Vec::new();
        for (name, pattern, rights) in TOKENS {
            let mut create = Command::new(&jeton);
            create.args(["token", "create", "--name", name, "--table", pattern, "--tokens"]).arg(&file);
            create.args(rights.iter().flat_map(|right| ["--right", right]));
            let output = create.output().with_context(|| format!("cannot start {}", jeton.display()))?;
            ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            tokens.push((name, String::from_utf8(output.stdout)?.trim().to_owned()));
        }
        let (resp, http) = (free_address()?, free_address()?);
        let cgroup = Cgroup::create(memory);
        let mut command = bound_command("sh".as_ref(), None, Signal::TERM);
        let procs = match &cgroup {
            Ok(cgroup) => cgroup.processes(),
            Err(why) => {
                eprintln!("no cgroup ({why:#}): the memory of the server is measured and not limited");
                "/dev/null".into()
            }
        };
        command.args(["-c", "echo $$ > \"$0\" && exec \"$@\""]).arg(procs).arg(&jeton);
        command.args(["serve", "--resp", &resp.to_string(), "--http", &http.to_string(), "--data"]);
        command.arg(folder.join("data")).arg("--tokens").arg(&file).current_dir(folder);
        let mut server = Server::start("Jeton", command, Signal::TERM, folder.join("server.log"))?;
        server.await_ready(|| TcpStream::connect(http).map(drop).map_err(Into::into))?;
        let this = Self { resp, http, server, cgroup: cgroup.ok(), tokens, folder: folder.into() };
        this.fill().context("the server does not accept its first rows")?;
        Ok(this)
    }

    /// The token of this name; `None` for other names.
    pub fn token(&self, name: &str) -> Option<&str> {
        self.tokens.iter().find(|(known, _)| *known == name).map(|(_, token)| token.as_str())
    }

    pub fn client(&self, token: &str) -> Result<Client> {
        let mut client = Client::connect(self.resp)?;
        client.ask(&[b"AUTH", self.token(token).context("no such token")?.as_bytes()])?;
        Ok(client)
    }

    fn fill(&self) -> Result<()> {
        for (table, formats, policy) in [
            ("good", "\"uuid7\",\"sequenced\"", "refuse"),
            ("guard", "\"uuid7\"", "at-most-once"),
            ("att", "\"uuid7\",\"event\",\"sequenced\",\"opaque\"", "at-most-once"),
        ] {
            let body = format!("{{\"formats\":[{formats}],\"without_id\":\"{policy}\"}}");
            let head = "Content-Type: application/json\r\nConnection: close\r\n";
            let path = format!("/v1/tables/{table}");
            let request = self.request("PUT", &path, self.token("owner"), head, body.as_bytes());
            let reply = exchange(self.http, &request)?;
            ensure!(reply.starts_with("HTTP/1.1 20"), "{reply}");
        }
        let mut owner = self.client("owner")?;
        owner.ask(&[b"INCRBY", b"guard/x", GUARDED.to_string().as_bytes()])?;
        owner.ask_until_done(&[b"SET", b"att/{t}big", &[b'x'; 64_000]])?;
        for row in 0..BIG_ROWS {
            owner.ask_until_done(&[b"SET", format!("att/big{row:04}").as_bytes(), &[b'x'; 64_000]])?;
        }
        for row in 0..20_000 {
            owner.ask_until_done(&[b"INCR", format!("small{row}").as_bytes()])?;
        }
        Ok(())
    }

    /// An HTTP request.
    pub fn request(
        &self,
        method: &str,
        path: &str,
        token: Option<&str>,
        headers: &str,
        body: &[u8],
    ) -> Vec<u8> {
        let token = token.map_or(String::new(), |token| format!("Authorization: Bearer {token}\r\n"));
        let (host, length) = (self.http, body.len());
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: {host}\r\n{token}{headers}Content-Length: {length}\r\n\r\n"
        );
        [head.as_bytes(), body].concat()
    }

    /// What attackers changed without a right to.
    pub fn damage(&self) -> Result<Vec<String>> {
        let (mut owner, mut found) = (self.client("owner")?, Vec::new());
        let guarded = owner.ask(&[b"GET", b"guard/x"])?;
        if guarded.as_bytes() != Some(GUARDED.to_string().as_bytes()) {
            found.push(format!("the guarded counter is {guarded:?}"));
        }
        for key in ["guard/y", "default/pwned", "good/pwned"] {
            let value = owner.ask(&[b"GET", key.as_bytes()])?;
            if value != Value::Null {
                found.push(format!("{key} is {value:?}"));
            }
        }
        let expected = ["data", "server.log", "tokens.json"];
        for entry in std::fs::read_dir(&self.folder)? {
            let name = entry?.file_name().to_string_lossy().into_owned();
            // Files beside the token file: its lock, and the usage of tokens.
            if !expected.iter().any(|known| name.starts_with(known)) && !name.starts_with(".tokens") {
                found.push(format!("the file {name} was created"));
            }
        }
        if Path::new("/tmp/jeton-attack-backup").exists() {
            found.push("a backup was made outside of the server's directories".into());
        }
        Ok(found)
    }

    /// The maximum resident memory of the server, in bytes.
    pub fn resident_peak(&self) -> u64 {
        let status = format!("/proc/{}/status", self.server.process());
        let text = std::fs::read_to_string(status).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
        kib.unwrap_or(0) << 10
    }

    pub fn log_tail(&self) -> String {
        let text = std::fs::read_to_string(self.folder.join("server.log")).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(20)..].join("\n")
    }
}

/// Sends a request and reads the response until the server closes the connection.
fn exchange(address: SocketAddr, request: &[u8]) -> Result<String> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(30)))?;
    stream.write_all(request)?;
    let mut reply = Vec::new();
    stream.read_to_end(&mut reply)?;
    Ok(String::from_utf8_lossy(&reply).into_owned())
}

/// A RESP client that waits for each reply.
pub struct Client {
    stream: TcpStream,
    parser: Parser,
    input: Vec<u8>,
}

impl Client {
    pub fn connect(address: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect_timeout(&address, Duration::from_secs(5))?;
        stream.set_read_timeout(Some(Duration::from_secs(30)))?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, parser: Parser::new(Limits::default()), input: Vec::new() })
    }

    /// As [`ask`](Self::ask), again while the server is busy: it is when the disk of the machine is.
    fn ask_until_done(&mut self, words: &[&[u8]]) -> Result<Value> {
        let begun = Instant::now();
        loop {
            match self.ask(words) {
                Err(busy) if busy.to_string().starts_with("BUSY") && begun.elapsed() < BUSY_MAX => {
                    std::thread::sleep(Duration::from_millis(10));
                }
                done => return done,
            }
        }
    }

    /// The reply to a command. An error reply is an error.
    pub fn ask(&mut self, words: &[&[u8]]) -> Result<Value> {
        let mut request = Vec::new();
        command(&mut request, words);
        self.stream.write_all(&request)?;
        let mut buffer = [0; 16 << 10];
        loop {
            match self.parser.next(&self.input)? {
                Progress::Value { value, consumed } => {
                    self.input.drain(..consumed);
                    match value {
                        Value::Error(text) => bail!("{}", String::from_utf8_lossy(&text)),
                        value => return Ok(value),
                    }
                }
                Progress::Incomplete { consumed } => drop(self.input.drain(..consumed)),
            }
            let read = self.stream.read(&mut buffer)?;
            ensure!(read > 0, "the server closed the connection");
            self.input.extend_from_slice(&buffer[..read]);
        }
    }
}
