//! Peers that do not know the secret are refused.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use jeton_register::{LogId, WriteResult};
use jeton_register_raft::{RaftRegisters, Secret};

use crate::cluster::{Cluster, insist};

/// What a member sends after these bytes until it closes the connection.
fn response(cluster: &Cluster, bytes: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(cluster.member(1).address()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let _ = stream.write_all(bytes);
    let mut received = Vec::new();
    if let Err(error) = stream.read_to_end(&mut received) {
        assert_eq!(error.kind(), ErrorKind::ConnectionReset, "it closes the connection");
    }
    received
}

fn hello(version: u16) -> Vec<u8> {
    let mut hello = b"JRFT".to_vec();
    hello.extend_from_slice(&version.to_le_bytes());
    hello.extend_from_slice(&2u128.to_le_bytes());
    hello.extend_from_slice(&1u128.to_le_bytes());
    hello.extend_from_slice(&[9; 32]);
    framed(&hello)
}

fn framed(bytes: &[u8]) -> Vec<u8> {
    [&(bytes.len() as u32).to_le_bytes(), bytes].concat()
}

#[test]
fn unauthenticated_connections_are_closed() {
    let cluster = Cluster::started(true);
    assert_eq!(response(&cluster, b"GET / HTTP/1.1\r\n\r\n"), b"");
    assert_eq!(response(&cluster, &u32::MAX.to_le_bytes()), b"");
    assert_eq!(response(&cluster, &hello(1)), b"", "another version");
    // After its hello it sends nothing more: to silence, a wrong proof, or a truncated one.
    for rest in [vec![], framed(&[0; 32]), framed(&[0; 3])] {
        let received = response(&cluster, &[hello(2), rest].concat());
        assert_eq!(received.len(), 4 + 64);
    }
}

#[test]
fn member_with_another_secret_is_not_admitted() {
    let cluster = Cluster::started(true);
    cluster.await_whole();
    cluster.crash(3);
    let mut settings = cluster.settings(3);
    settings.secret = Secret::new("another secret of the tests");
    let outsider = RaftRegisters::open(settings).unwrap();
    let member = cluster.member(1);
    for slot in 1..=20 {
        assert_eq!(insist(&member, LogId::partition(1), slot, b"value"), WriteResult::Fresh);
        std::thread::sleep(Duration::from_millis(100));
    }
    assert!(!outsider.is_voter() && outsider.leader().is_none());
}
