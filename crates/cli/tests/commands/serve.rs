//! `jeton serve`: banner, errors at start, shutdown.

use std::io::{BufRead, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;

use rustix::process::Signal;

use crate::program::{TIMEOUT, command};
use crate::server::{Server, folder, has, run_in};

#[test]
fn the_first_start_prints_commands_that_work() {
    let folder = folder();
    let server = Server::start(folder.path(), &[]);
    let greeting = server.greeting.join("\n");
    let data = folder.path().join("data");
    has(
        &greeting,
        &["is ready.", data.to_str().unwrap(), "(new)", "tokens     none", "redis-cli -p ", "curl -s "],
    );
    has(&greeting, &[&format!("  http://{}/  in a browser", server.http())]);

    // The printed commands: the id counts once, also over both protocols.
    let line =
        |begins: &str| server.greeting.iter().find(|line| line.trim_start().starts_with(begins)).unwrap();
    let id = line("redis-cli").rsplit(' ').next().unwrap();
    assert!(line("redis-cli").contains("JADD home 1 ID "));
    assert!(line("curl").contains(&format!("\"{id}\"")) && line("curl").contains("{\"delta\": 1}"));
    assert_eq!(server.must(&["add", "home", "1", "--id", id]), "1 applied");
    let url = line("curl").rsplit(' ').next().unwrap();
    let path = url.split_once(&server.http()).unwrap().1;
    let body = "{\"delta\": 1}";
    let request = format!(
        "POST {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: application/json\r\n\
         idempotency-key: \"{id}\"\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut stream = TcpStream::connect(server.http()).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    has(&answer, &["200 OK", "\"replayed\":true", "\"value\":1"]);

    let ended = server.stop();
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    has(&ended.err, &["stopped"]);

    let server = Server::start(folder.path(), &[]);
    let greeting = server.greeting.join("\n");
    assert!(!greeting.contains("redis-cli") && !greeting.contains("(new)"), "{greeting}");
    assert_eq!(server.must(&["get", "home"]), "1");
}

#[test]
fn a_directory_in_use_names_the_process() {
    let folder = folder();
    let server = Server::start(folder.path(), &[]);
    let second = ["serve", "--data", "data", "--resp", "127.0.0.1:0", "--http", "127.0.0.1:0"];
    run_in(folder.path(), &[], &second).fails(&[
        "is in use by",
        &format!("(process {})", server.pid()),
        &format!("fix: stop that process (kill {})", server.pid()),
    ]);
}

#[test]
fn an_address_in_use_is_reported_with_its_flag() {
    let folder = folder();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    for flag in ["--resp", "--http"] {
        let other = if flag == "--resp" { "--http" } else { "--resp" };
        run_in(folder.path(), &[], &["serve", flag, &address, other, "127.0.0.1:0"]).fails(&[
            &format!("cannot listen on {address}"),
            "why: ",
            flag,
        ]);
        assert!(!folder.path().join("jeton-data").exists(), "no directory is created");
    }
}

#[test]
fn an_unusable_store_is_reported_with_a_fix() {
    let folder = folder();
    std::fs::write(folder.path().join("file"), "").unwrap();
    let ports = ["--resp", "127.0.0.1:0", "--http", "127.0.0.1:0"];
    run_in(folder.path(), &[], &[&["serve", "--data", "file"][..], &ports].concat())
        .fails(&["the store in file cannot be opened", "fix: the path is a file, not a directory"]);

    let server = Server::start(folder.path(), &[]);
    server.must(&["add", "home", "1"]);
    server.stop();
    let log = folder.path().join("data/log");
    let mut segments: Vec<_> = std::fs::read_dir(&log).unwrap().map(|entry| entry.unwrap().path()).collect();
    segments.retain(|path| path.extension().is_some_and(|end| end == "log"));
    segments.sort();
    let mut bytes = std::fs::read(&segments[0]).unwrap();
    bytes[..64].fill(0xff);
    std::fs::write(&segments[0], bytes).unwrap();
    run_in(folder.path(), &[], &[&["serve", "--data", "data"][..], &ports].concat()).fails(&[
        "is damaged",
        "why: damaged: log/",
        "fix: keep the directory",
        "jeton restore",
    ]);
}

#[test]
fn remote_clients_need_tokens_or_insecure() {
    let folder = folder();
    for flag in ["--resp", "--http"] {
        run_in(folder.path(), &[], &["serve", flag, "0.0.0.0:0"]).fails(&[
            "would accept every client",
            "--insecure",
            "jeton token create",
        ]);
    }
    let server = Server::start(folder.path(), &["--resp", "0.0.0.0:0", "--insecure"]);
    assert!(server.resp().starts_with("0.0.0.0:"));
}

#[test]
fn an_idle_connection_does_not_delay_shutdown() {
    let folder = folder();
    let server = Server::start(folder.path(), &[]);
    let mut stream = TcpStream::connect(server.resp()).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    stream.write_all(b"PING\r\n").unwrap();
    let mut answer = [0; 7];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"+PONG\r\n");
    server.signal(Signal::INT);
    assert_eq!(server.wait().code, Some(0));
    assert_eq!(stream.read(&mut answer).unwrap_or(0), 0, "the connection is closed");
}

#[test]
fn a_second_signal_ends_the_server_at_once() {
    let folder = folder();
    let mut server = Server::start(folder.path(), &[]);
    // An incomplete request delays the shutdown.
    let mut stream = TcpStream::connect(server.http()).unwrap();
    stream
        .write_all(
            b"POST /v1/tables/default/counters/x:add HTTP/1.1\r\nhost: localhost\r\nexpect: 100-continue\r\n\
              content-type: application/json\r\ncontent-length: 100\r\n\r\n",
        )
        .unwrap();
    let mut answer = [0; 12];
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"HTTP/1.1 100", "the server waits for the body");
    let mut err = server.stderr();
    server.signal(Signal::TERM);
    let mut log = String::new();
    while !log.contains("a second signal") {
        assert!(err.read_line(&mut log).unwrap() > 0, "{log}");
    }
    server.signal(Signal::TERM);
    assert_eq!(server.wait().code, Some(128 + 15));
}

/// The binary with a soft and a hard limit of open files, set by a shell.
#[cfg(target_os = "linux")]
fn limited(soft: u32, hard: u32, arguments: &[&str]) -> Command {
    let script = format!("ulimit -Sn {soft} && ulimit -Hn {hard} && exec \"$0\" \"$@\"");
    let jeton = command(arguments);
    let mut command = Command::new("sh");
    command.args(["-c", &script]).arg(jeton.get_program()).args(jeton.get_args());
    for (name, value) in jeton.get_envs() {
        if value.is_none() {
            command.env_remove(name);
        }
    }
    command
}

/// Soft and hard limit of open files of a process.
#[cfg(target_os = "linux")]
fn open_files(pid: u32) -> (String, String) {
    let limits = std::fs::read_to_string(format!("/proc/{pid}/limits")).expect("it runs");
    let line = limits.lines().find(|line| line.starts_with("Max open files")).expect("there is one");
    let mut words = line.split_whitespace().skip(3).map(str::to_owned);
    (words.next().expect("the soft limit"), words.next().expect("the hard limit"))
}

#[cfg(target_os = "linux")]
#[test]
fn the_limit_of_open_files_is_raised() {
    let folder = folder();
    let jeton = |arguments: &[&str]| limited(300, 700, arguments);
    let mut server = Server::start_by(jeton, folder.path(), &["--connections-max", "5000"]);
    assert_eq!(open_files(server.pid()), ("700".into(), "700".into()));
    let mut log = String::new();
    let mut err = server.stderr();
    while !log.contains("5000 connections") {
        assert!(err.read_line(&mut log).unwrap() > 0, "no warning: {log}");
    }
    has(&log, &["WARN", "700"]);
    // doctor checks the limit of a server, not that of the shell.
    let doctor = |connections: &str| {
        let mut doctor = jeton(&["doctor", "--data", "new", "--connections-max", connections]);
        String::from_utf8(doctor.current_dir(folder.path()).output().unwrap().stdout).unwrap()
    };
    has(&doctor("50"), &["ok    open files   700 may be open"]);
    has(&doctor("5000"), &["warn  open files   700 may be open", "ulimit -Hn 10512"]);
}

#[test]
fn log_format_json_prints_json() {
    let folder = folder();
    let ended = Server::start(folder.path(), &["--log-format", "json"]).stop();
    let lines: Vec<serde_json::Value> =
        ended.err.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(lines.iter().any(|line| line["fields"]["message"] == "stopped"), "{}", ended.err);
}
