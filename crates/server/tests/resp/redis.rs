//! A real redis-server for the duration of a test.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use crate::client::Client;
use crate::server::Server;

/// A Redis on a free port. It is killed when this is dropped.
pub struct Redis {
    process: Child,
    port: u16,
    _folder: TempDir,
}

impl Redis {
    pub fn start() -> Self {
        // Another process may take the free port before redis-server does.
        for _ in 0..10 {
            if let Some(redis) = Self::try_start() {
                return redis;
            }
        }
        panic!("redis-server does not start; `cargo xtask test` installs it");
    }

    fn try_start() -> Option<Self> {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let folder = tempfile::tempdir().unwrap();
        let mut process = Command::new("redis-server")
            .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"])
            // One database, as in Jeton.
            .args(["--databases", "1", "--dir"])
            .arg(folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("redis-server is installed: `cargo xtask test` does it");
        let output = process.stdout.take().expect("stdout is piped");
        let redis = Self { process, port, _folder: folder };
        let mut lines = BufReader::new(output).lines();
        let ready =
            lines.by_ref().map_while(Result::ok).any(|line| line.contains("Ready to accept connections"));
        // Drains further output, so that redis-server does not block on a full pipe.
        std::thread::spawn(move || lines.map_while(Result::ok).for_each(drop));
        ready.then_some(redis)
    }

    pub fn client(&self) -> Client {
        Client::connect(self.port)
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _may_have_exited = self.process.kill();
        let _reaped = self.process.wait();
    }
}

pub struct Both {
    pub redis: Redis,
    pub jeton: Server,
}

impl Both {
    pub fn start() -> Self {
        Self { redis: Redis::start(), jeton: Server::start() }
    }

    /// A connection to each, in a version of the protocol.
    pub fn pair(&self, version: u8) -> Pair {
        let mut pair = Pair { redis: self.redis.client(), jeton: self.jeton.client() };
        if version == 3 {
            // The replies name different servers and connection numbers.
            pair.each(|client| drop(client.run("HELLO 3")));
        }
        pair
    }

    pub fn flush(&self) {
        self.pair(2).each(|client| assert_eq!(client.run("FLUSHALL"), "OK"));
    }
}

pub struct Pair {
    pub redis: Client,
    pub jeton: Client,
}

impl Pair {
    pub fn each(&mut self, mut act: impl FnMut(&mut Client)) {
        act(&mut self.redis);
        act(&mut self.jeton);
    }

    /// Sends bytes to both servers and returns the raw replies, of Redis first.
    pub fn run(&mut self, bytes: &[u8]) -> [Vec<u8>; 2] {
        self.each(|client| client.send(bytes));
        [self.redis.read_raw(), self.jeton.read_raw()]
    }
}
