//! The scenarios of resource exhaustion.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::process::Command;

use futures_executor::block_on;
use jeton_engine::{Engine, EngineError};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::load::{Client, options};

pub const ALL: &[&str] = &[
    "full-disk",
    "full-disk-and-restart",
    "closing-with-a-log-that-is-stuck",
    "read-only",
    "too-many-open-files",
];

pub fn run(scenario: &str, folder: &Path) {
    match scenario {
        "full-disk" => full_disk(folder, false),
        "full-disk-and-restart" => full_disk(folder, true),
        "closing-with-a-log-that-is-stuck" => closing_with_a_log_that_is_stuck(folder),
        "read-only" => read_only(folder),
        "too-many-open-files" => too_many_open_files(folder),
        other => panic!("there is no scenario {other}"),
    }
}

fn mount(arguments: &[&str], folder: &Path) {
    let status = Command::new("mount").args(arguments).arg(folder).status().expect("mount starts");
    assert!(status.success(), "mount: {status}");
}

/// Takes all space that is left.
fn fill(path: &Path) {
    let mut ballast = File::create(path).expect("a file");
    let block = vec![7; 64 << 10];
    while ballast.write_all(&block).is_ok() {}
    while ballast.write_all(&block[..512]).is_ok() {}
}

fn full_disk(folder: &Path, restart: bool) {
    mount(&["-t", "tmpfs", "-o", "size=24m", "none"], folder);
    let store = folder.join("store");
    let mut client = Client::open(&store);
    for _ in 0..20 {
        client.add_until_taken("before");
    }
    client.check("before");

    let ballast = folder.join("ballast");
    fill(&ballast);
    let refusal = client.add_until("full", |refusal| matches!(refusal, EngineError::Full(_)));
    let message = refusal.to_string();
    assert!(message.contains("writes are refused for now"), "{message}");
    println!("  told: {message}");
    client.check("while full");
    assert!(client.add(64).is_some(), "still full, still refused");

    if restart {
        // A restart in this state must not lose anything either.
        let ledger = client.close();
        std::fs::remove_file(&ballast).expect("removed");
        client = ledger.open(&store);
    } else {
        std::fs::remove_file(&ballast).expect("removed");
    }
    client.add_until_taken("room again");
    client.check("after");
    client = client.reopen(&store);
    client.check("after a restart");
}

/// A log whose preallocated blocks are missing, as on a copy-on-write file system: space was reserved, and
/// then there is none.
fn closing_with_a_log_that_is_stuck(folder: &Path) {
    mount(&["-t", "tmpfs", "-o", "size=24m", "none"], folder);
    let store = folder.join("store");
    let mut client = Client::open(&store);
    for _ in 0..3 {
        client.add_until_taken("before");
    }
    let ledger = client.close();
    for segment in std::fs::read_dir(store.join("log")).expect("segments") {
        empty_the_rest(&segment.expect("a segment").path());
    }
    client = ledger.open(&store);
    // Opening has written the block after the last: this uses it up.
    client.add_until_taken("before it is full");
    let ballast = folder.join("ballast");
    fill(&ballast);
    let begun = client.begin(200);
    let ledger = client.close();

    let mut given_up = Vec::new();
    for (operation, answer) in begun {
        match block_on(answer) {
            Err(EngineError::Closed) => given_up.push(operation),
            // Sent after the log had found no space, and never begun.
            Err(EngineError::Full(_)) => {}
            other => panic!("there is no room for it: {other:?}"),
        }
    }
    println!("  given up: {} of 200", given_up.len());
    assert!(!given_up.is_empty(), "nothing was under way");
    std::fs::remove_file(&ballast).expect("removed");
    client = ledger.open(&store);
    client.check("after closing");
    client.add_again(&given_up);
    client.add_until_taken("room again");
    client.check("after");
    client = client.reopen(&store);
    client.check("after a restart");
}

/// Releases the blocks of zeros at the end of a file. Its length stays.
fn empty_the_rest(path: &Path) {
    let bytes = std::fs::read(path).expect("a file");
    let used = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    // Written anew, block by block: a truncated file keeps what the file system had preallocated in larger
    // pieces.
    let part = path.with_extension("part");
    let mut file = File::create(&part).expect("a file");
    for block in bytes[..used].chunks(4096) {
        file.write_all(block).expect("written");
    }
    file.set_len(bytes.len() as u64).expect("as long as before");
    std::fs::rename(&part, path).expect("renamed");
}

fn read_only(folder: &Path) {
    mount(&["-t", "tmpfs", "-o", "size=24m", "none"], folder);
    let store = folder.join("store");
    let mut client = Client::open(&store);
    client.add_until_taken("before");
    // A mount with files open for writing cannot become read-only: close, and open again.
    let (next, check) = (client, "after");
    let engine = next.engine;
    drop(engine);
    mount(&["-o", "remount,ro"], folder);
    let error = Engine::open(&store, options()).err().expect("it cannot be opened").to_string();
    println!("  told: {error}");
    assert!(error.to_lowercase().contains("read-only"), "{error}");
    mount(&["-o", "remount,rw"], folder);
    Client::open(&store).add_until_taken(check);
}

fn too_many_open_files(folder: &Path) {
    let mut client = Client::open(&folder.join("store"));
    for _ in 0..20 {
        client.add_until_taken("before");
    }
    let before = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: Some(3), maximum: before.maximum }).expect("a limit");
    let refusal = client.add_until("out of files", |refusal| {
        matches!(refusal, EngineError::Full(_) | EngineError::Storage(_))
    });
    println!("  told: {refusal}");
    assert!(refusal.to_string().to_lowercase().contains("open files"), "{refusal}");
    setrlimit(Resource::Nofile, before).expect("no limit");
    client.add_until_taken("files again");
    client.check("after");
    client = client.reopen(&folder.join("store"));
    client.check("after a restart");
}
