//! The hardships, one by one.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::process::Command;

use jeton_engine::{Engine, Refusal};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::load::{Client, options};

pub const ALL: &[&str] = &["full-disk", "full-disk-and-restart", "read-only", "too-many-open-files"];

pub fn run(scenario: &str, folder: &Path) {
    match scenario {
        "full-disk" => full_disk(folder, false),
        "full-disk-and-restart" => full_disk(folder, true),
        "read-only" => read_only(folder),
        "too-many-open-files" => too_many_open_files(folder),
        other => panic!("there is no scenario {other}"),
    }
}

fn mount(arguments: &[&str], folder: &Path) {
    let status = Command::new("mount").args(arguments).arg(folder).status().expect("mount starts");
    assert!(status.success(), "mount: {status}");
}

/// Takes all room that is left.
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
    let refusal = client.add_until("full", |refusal| matches!(refusal, Refusal::Full(_)));
    let message = refusal.to_string();
    assert!(message.contains("writes are refused for now"), "{message}");
    println!("  told: {message}");
    client.check("while full");
    assert!(client.add(64).is_some(), "still full, still refused");

    if restart {
        // Whoever restarts in this state must not lose anything either, whether or not it opens.
        std::fs::remove_file(&ballast).expect("removed");
        client = client.reopen(&store);
    } else {
        std::fs::remove_file(&ballast).expect("removed");
    }
    client.add_until_taken("room again");
    client.check("after");
    client = client.reopen(&store);
    client.check("after a restart");
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
    let refusal =
        client.add_until("out of files", |refusal| matches!(refusal, Refusal::Full(_) | Refusal::Storage(_)));
    println!("  told: {refusal}");
    assert!(refusal.to_string().to_lowercase().contains("open files"), "{refusal}");
    setrlimit(Resource::Nofile, before).expect("no limit");
    client.add_until_taken("files again");
    client.check("after");
    client = client.reopen(&folder.join("store"));
    client.check("after a restart");
}
