//! A server process for one test.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::program::{Run, TIMEOUT, command};

/// A temporary directory.
pub fn folder() -> TempDir {
    tempfile::tempdir().expect("a directory for the test")
}

/// Runs the binary to its end in a directory, with these variables.
pub fn run_in(folder: &Path, variables: &[(&str, &str)], arguments: &[&str]) -> Run {
    let mut child = command(arguments)
        .current_dir(folder)
        .envs(variables.iter().copied())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    let (out, err) = (read(child.stdout.take()), read(child.stderr.take()));
    let deadline = Instant::now() + TIMEOUT;
    // A command that does not end fails the test.
    while child.try_wait().expect("the process is a child").is_none() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(2));
    }
    let _ended = child.kill();
    let code = child.wait().expect("the process is a child").code();
    Run { out: out.join().expect("text"), err: err.join().expect("text"), code }
}

/// Reads a pipe to its end on another thread.
fn read(pipe: Option<impl Read + Send + 'static>) -> std::thread::JoinHandle<String> {
    std::thread::spawn(move || {
        let mut text = String::new();
        pipe.expect("a pipe").read_to_string(&mut text).expect("the output is text");
        text
    })
}

/// A running server.
pub struct Server {
    child: Child,
    /// The banner that it printed.
    pub greeting: Vec<String>,
    pub folder: std::path::PathBuf,
    out: Option<BufReader<std::process::ChildStdout>>,
}

impl Server {
    /// Starts a server on free ports and waits until it is ready.
    pub fn start(folder: &Path, more: &[&str]) -> Self {
        Self::start_by(command, folder, more)
    }

    /// Like `start`, with a function that makes the command from its arguments.
    pub fn start_by(command: impl Fn(&[&str]) -> Command, folder: &Path, more: &[&str]) -> Self {
        let mut arguments = vec!["serve", "--data", "data", "--shards", "1", "--segment-bytes", "4 MiB"];
        for (flag, address) in [("--resp", "127.0.0.1:0"), ("--http", "127.0.0.1:0")] {
            if !more.contains(&flag) {
                arguments.extend([flag, address]);
            }
        }
        arguments.extend(more);
        let mut child = command(&arguments)
            .current_dir(folder)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary starts");
        let mut out = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut greeting = Vec::new();
        loop {
            let mut line = String::new();
            if out.read_line(&mut line).expect("the output is text") == 0 {
                let mut err = String::new();
                child.stderr.take().expect("a pipe").read_to_string(&mut err).expect("text");
                panic!("the server ended: {err}");
            }
            let last = line.trim_end().ends_with("  in a browser")
                || (line.starts_with("  tokens") && !is_new(&greeting));
            greeting.push(line.trim_end().to_owned());
            if last {
                break;
            }
        }
        Self { child, greeting, folder: folder.to_owned(), out: Some(out) }
    }

    /// The address in the banner line with this beginning.
    pub fn address(&self, begins: &str) -> String {
        let line = self.greeting.iter().find_map(|line| line.trim_start().strip_prefix(begins));
        let line = line.unwrap_or_else(|| panic!("no line begins with {begins:?}: {:?}", self.greeting));
        line.trim().rsplit('/').next().expect("an address").to_owned()
    }

    pub fn resp(&self) -> String {
        self.address("RESP   ")
    }

    pub fn http(&self) -> String {
        self.address("HTTP   ")
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Runs a client command.
    pub fn run(&self, arguments: &[&str]) -> Run {
        self.run_with(&[], arguments)
    }

    /// Runs a client command with these variables.
    pub fn run_with(&self, variables: &[(&str, &str)], arguments: &[&str]) -> Run {
        let (resp, http) = (self.resp(), self.http());
        let mut all = vec![("JETON_RESP", resp.as_str()), ("JETON_HTTP", http.as_str())];
        all.extend(variables);
        run_in(&self.folder, &all, arguments)
    }

    /// Runs a command that must succeed. Returns its output without the last line break.
    pub fn must(&self, arguments: &[&str]) -> String {
        let run = self.run(arguments);
        assert_eq!(run.code, Some(0), "{arguments:?}\n{}{}", run.out, run.err);
        run.out.trim_end().to_owned()
    }

    pub fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.child.id().cast_signed()).expect("a process");
        kill_process(pid, signal).expect("the process exists");
    }

    /// Standard error of the server.
    pub fn stderr(&mut self) -> BufReader<std::process::ChildStderr> {
        BufReader::new(self.child.stderr.take().expect("not taken yet"))
    }

    /// Waits until the server ends.
    pub fn wait(mut self) -> Run {
        let mut run = Run { out: String::new(), err: String::new(), code: None };
        if let Some(mut err) = self.child.stderr.take() {
            err.read_to_string(&mut run.err).expect("text");
        }
        if let Some(mut out) = self.out.take() {
            out.read_to_string(&mut run.out).expect("text");
        }
        run.code = self.child.wait().expect("it ends").code();
        run
    }

    /// Stops the server and waits until it ends.
    pub fn stop(self) -> Run {
        self.signal(Signal::TERM);
        self.wait()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended.
        let _gone = self.child.kill();
        let _gone = self.child.wait();
    }
}

fn is_new(greeting: &[String]) -> bool {
    greeting.iter().any(|line| line.ends_with(" (new)"))
}

/// Asserts that a text contains all words.
pub fn has(text: &str, words: &[&str]) {
    for words in words {
        assert!(text.contains(words), "{words:?} is not in:\n{text}");
    }
}

/// A server that replies to `HELLO` and `PING`, and passes every other command to `reply`. `None` closes the
/// connection.
pub fn fake_server(mut reply: impl FnMut(&[String]) -> Option<&'static str> + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("it is bound").to_string();
    // The thread ends with the test process.
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = BufReader::new(stream.expect("a connection"));
            while let Some(command) = read_command(&mut stream) {
                let answer = match command[0].as_str() {
                    "HELLO" => Some("%0\r\n"),
                    "PING" => Some("+PONG\r\n"),
                    _ => reply(&command),
                };
                let Some(answer) = answer else { break };
                stream.get_mut().write_all(answer.as_bytes()).expect("the client reads");
            }
        }
    });
    address
}

/// Reads the arguments of a command. `None` at the end of the connection.
fn read_command(stream: &mut impl BufRead) -> Option<Vec<String>> {
    let mut line = || {
        let mut line = String::new();
        stream.read_line(&mut line).ok().filter(|length| *length > 0).map(|_| line.trim_end().to_owned())
    };
    let count = line()?.strip_prefix('*')?.parse().ok()?;
    (0..count).map(|_| line().and_then(|_length| line())).collect()
}
