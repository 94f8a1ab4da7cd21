//! The scenarios of resource exhaustion.

use std::fs::File;
use std::io::Write;
use std::path::Path;

use futures_executor::block_on;
use jeton_engine::{Engine, EngineError};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::common::tiny;
use crate::load::{Client, Counts};
use crate::mounts::{mount, mount_tmpfs};

pub const ALL: &[&str] =
    &["full-disk", "full-disk-and-restart", "close-with-a-stuck-log", "read-only", "too-many-open-files"];

pub fn run(scenario: &str, folder: &Path) {
    match scenario {
        "full-disk" => full_disk(folder, false),
        "full-disk-and-restart" => full_disk(folder, true),
        "close-with-a-stuck-log" => close_with_a_stuck_log(folder),
        "read-only" => read_only(folder),
        "too-many-open-files" => too_many_open_files(folder),
        other => panic!("there is no scenario {other}"),
    }
}

/// Takes all space that is left.
fn fill(path: &Path) {
    let mut ballast = File::create(path).expect("a file");
    let block = vec![7; 64 << 10];
    while ballast.write_all(&block).is_ok() {}
    while ballast.write_all(&block[..512]).is_ok() {}
}

fn full_disk(folder: &Path, restart: bool) {
    mount_tmpfs("24m", folder);
    let store = folder.join("store");
    let mut client = Client::open(&store, Counts::default());
    for _ in 0..20 {
        client.add_until_accepted("before");
    }
    client.check("before");

    let ballast = folder.join("ballast");
    fill(&ballast);
    let refusal = client.add_until("full", |refusal| matches!(refusal, EngineError::Full(_)));
    let message = refusal.to_string();
    assert!(message.contains("writes are refused for now"), "{message}");
    println!("  error: {message}");
    client.check("while full");
    assert!(client.add(64).is_some(), "still full, still refused");

    if restart {
        // A restart in this state must not lose anything.
        let counts = client.close();
        std::fs::remove_file(&ballast).expect("removed");
        client = Client::open(&store, counts);
    } else {
        std::fs::remove_file(&ballast).expect("removed");
    }
    client.add_until_accepted("space again");
    client.check("after");
    client = Client::open(&store, client.close());
    client.check("after a restart");
}

/// A log whose preallocated blocks are missing, as on a copy-on-write file system: space was reserved, and
/// then there is none.
fn close_with_a_stuck_log(folder: &Path) {
    mount_tmpfs("24m", folder);
    let store = folder.join("store");
    let mut client = Client::open(&store, Counts::default());
    for _ in 0..3 {
        client.add_until_accepted("before");
    }
    let counts = client.close();
    for segment in std::fs::read_dir(store.join("log")).expect("segments") {
        drop_preallocated_blocks(&segment.expect("a segment").path());
    }
    client = Client::open(&store, counts);
    // The start has written one more block of the segment: use it up.
    client.add_until_accepted("before it is full");
    let ballast = folder.join("ballast");
    fill(&ballast);
    let begun = client.begin(200);
    let counts = client.close();

    let mut dropped = Vec::new();
    for (operation, response) in begun {
        match block_on(response) {
            Err(EngineError::Closed) => dropped.push(operation),
            // Sent after the log had found no space: it was never decided.
            Err(EngineError::Full(_)) => {}
            other => panic!("there is no space for it: {other:?}"),
        }
    }
    println!("  dropped: {} of 200", dropped.len());
    assert!(!dropped.is_empty(), "nothing was in flight");
    std::fs::remove_file(&ballast).expect("removed");
    client = Client::open(&store, counts);
    client.check("after closing");
    client.add_again(&dropped);
    client.add_until_accepted("space again");
    client.check("after");
    client = Client::open(&store, client.close());
    client.check("after a restart");
}

/// Releases the blocks of zeros at the end of a file. Its length stays.
fn drop_preallocated_blocks(path: &Path) {
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
    mount_tmpfs("24m", folder);
    let store = folder.join("store");
    let mut client = Client::open(&store, Counts::default());
    client.add_until_accepted("before");
    // A mount with files open for writing cannot become read-only: close, and open again.
    let counts = client.close();
    mount(&["-o", "remount,ro"], folder);
    let error = Engine::open(&store, tiny(1)).err().expect("it cannot be opened").to_string();
    println!("  error: {error}");
    assert!(error.to_lowercase().contains("read-only"), "{error}");
    mount(&["-o", "remount,rw"], folder);
    client = Client::open(&store, counts);
    client.add_until_accepted("after");
    client.check("after");
}

fn too_many_open_files(folder: &Path) {
    let store = folder.join("store");
    let mut client = Client::open(&store, Counts::default());
    for _ in 0..20 {
        client.add_until_accepted("before");
    }
    let before = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: Some(3), maximum: before.maximum }).expect("a limit");
    let refusal = client.add_until("out of files", |refusal| {
        matches!(refusal, EngineError::Full(_) | EngineError::Storage(_))
    });
    println!("  error: {refusal}");
    assert!(refusal.to_string().to_lowercase().contains("open files"), "{refusal}");
    setrlimit(Resource::Nofile, before).expect("no limit");
    client.add_until_accepted("files again");
    client.check("after");
    client = Client::open(&store, client.close());
    client.check("after a restart");
}
