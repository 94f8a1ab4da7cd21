//! Connections between nodes: many requests at a time, lost connections, unauthenticated peers.

#![allow(clippy::unwrap_used, reason = "a failed helper fails the test")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use jeton_peer::{CallError, Endpoint, Handler, PeerClient, Secret, Tls, serve};
use jeton_testbed::Certificate;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio::time::Instant;

const SERVER: u128 = 1;
const CLIENT: u128 = 2;

fn endpoint(me: u128) -> Endpoint {
    let secret = Secret::new(*b"a secret of all nodes");
    let connect_timeout = Duration::from_secs(10);
    Endpoint { magic: *b"TEST", version: 7, secret, me, connect_timeout, tls: None }
}

/// Responds with the request, after a permit for requests that begin with `w`.
struct Echo {
    waits: Semaphore,
    arrived: AtomicUsize,
}

impl Handler for Echo {
    fn is_known(&self, caller: u128) -> bool {
        caller == CLIENT
    }

    async fn handle(&self, caller: u128, request: Bytes) -> Vec<u8> {
        assert_eq!(caller, CLIENT);
        self.arrived.fetch_add(1, Ordering::SeqCst);
        if request.starts_with(b"w") {
            self.waits.acquire().await.unwrap().forget();
        }
        request.to_vec()
    }
}

struct Server {
    echo: Arc<Echo>,
    address: String,
    task: JoinHandle<()>,
}

async fn server(endpoint: Endpoint) -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let echo = Arc::new(Echo { waits: Semaphore::new(0), arrived: AtomicUsize::new(0) });
    let task = tokio::spawn(serve(listener, endpoint, Arc::clone(&echo)));
    Server { echo, address, task }
}

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(60)
}

#[tokio::test]
async fn a_slow_request_does_not_delay_others() {
    let server = server(endpoint(SERVER)).await;
    let client = Arc::new(PeerClient::new(endpoint(CLIENT), server.address, SERVER));
    let slow = tokio::spawn({
        let client = Arc::clone(&client);
        async move { client.call(b"wait", soon()).await }
    });
    for number in 0..1000_u32 {
        let request = number.to_be_bytes();
        assert_eq!(client.call(&request, soon()).await.unwrap(), &request[..]);
    }
    let large = vec![7; 5 << 20];
    assert_eq!(client.call(&large, soon()).await.unwrap(), large);
    assert!(!slow.is_finished());
    server.echo.waits.add_permits(1);
    assert_eq!(slow.await.unwrap().unwrap(), &b"wait"[..]);
}

#[tokio::test]
async fn lost_and_unsent_requests_have_different_errors() {
    let first = server(endpoint(SERVER)).await;
    let client = Arc::new(PeerClient::new(endpoint(CLIENT), first.address.clone(), SERVER));
    let late = client.call(b"wait", Instant::now() + Duration::from_millis(50)).await;
    assert!(matches!(late, Err(CallError::NoResponse(_))), "{late:?}");
    let waiting = tokio::spawn({
        let client = Arc::clone(&client);
        async move { client.call(b"wait", soon()).await }
    });
    while first.echo.arrived.load(Ordering::SeqCst) < 2 {
        tokio::task::yield_now().await;
    }
    first.task.abort();
    let lost = waiting.await.unwrap();
    assert!(matches!(lost, Err(CallError::NoResponse(_))), "{lost:?}");
    let unsent = client.call(b"x", soon()).await;
    assert!(matches!(unsent, Err(CallError::Unreachable(_))), "{unsent:?}");
    // At the same address.
    let listener = TcpListener::bind(&first.address).await.unwrap();
    let again = tokio::spawn(serve(listener, endpoint(SERVER), first.echo));
    while client.call(b"x", soon()).await.is_err() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    again.abort();
}

#[tokio::test]
async fn requests_beyond_the_limit_are_busy() {
    let server = server(endpoint(SERVER)).await;
    let client = Arc::new(PeerClient::new(endpoint(CLIENT), server.address, SERVER));
    let large = vec![b'w'; 30 << 20];
    let calls: Vec<_> = (0..3)
        .map(|_| {
            let (client, large) = (Arc::clone(&client), large.clone());
            tokio::spawn(async move { client.call(&large, soon()).await })
        })
        .collect();
    let mut busy = 0;
    server.echo.waits.add_permits(3);
    for call in calls {
        busy += usize::from(matches!(call.await.unwrap(), Err(CallError::Busy)));
    }
    assert_eq!(busy, 1);
}

/// What the server sends after these bytes until it closes the connection.
async fn response(address: &str, bytes: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(bytes).await.unwrap();
    let mut received = Vec::new();
    let _or_reset = tokio::time::timeout_at(soon(), stream.read_to_end(&mut received)).await.unwrap();
    received
}

#[tokio::test]
async fn unauthenticated_peers_are_dropped() {
    let server = server(endpoint(SERVER)).await;
    let framed = |bytes: &[u8]| [&(bytes.len() as u32).to_le_bytes(), bytes].concat();
    let hello = |version: u16, callee: u128| {
        let numbers = [CLIENT.to_le_bytes(), callee.to_le_bytes()].concat();
        framed(&[&b"TEST"[..], &version.to_le_bytes(), &numbers, &[9; 32]].concat())
    };
    for bytes in [b"GET / HTTP/1.1\r\n\r\n".to_vec(), framed(&[0; 257]), hello(6, SERVER), hello(7, 5)] {
        assert_eq!(response(&server.address, &bytes).await, b"");
    }
    // To silence, a wrong proof and a truncated one it sends nothing after its hello.
    for rest in [vec![], framed(&[0; 32]), framed(&[0; 3])] {
        assert_eq!(response(&server.address, &[hello(7, SERVER), rest].concat()).await.len(), 4 + 64);
    }
    let other_secret = Endpoint { secret: Secret::new(*b"another"), ..endpoint(CLIENT) };
    let other_version = Endpoint { version: 6, ..endpoint(CLIENT) };
    for (wrong, callee) in
        [(other_secret, SERVER), (other_version, SERVER), (endpoint(3), SERVER), (endpoint(CLIENT), 5)]
    {
        let client = PeerClient::new(wrong, server.address.clone(), callee);
        let refused = client.call(b"x", soon()).await;
        assert!(matches!(refused, Err(CallError::Unreachable(_))), "{refused:?}");
    }
    assert_eq!(server.echo.arrived.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn encrypted_nodes_need_a_certificate_of_the_authority() {
    let folder = tempfile::tempdir().unwrap();
    let made = |name: &str| {
        let folder = folder.path().join(name);
        std::fs::create_dir(&folder).unwrap();
        let [certificate, key] = Certificate::of("127.0.0.1").unwrap().write(&folder).unwrap();
        Tls::open(&certificate, &certificate, &key).unwrap()
    };
    let tls = made("nodes");
    let with = |me, tls: Option<&Tls>| Endpoint { tls: tls.cloned(), ..endpoint(me) };
    let server = server(with(SERVER, Some(&tls))).await;
    let call = async |endpoint| {
        PeerClient::new(endpoint, server.address.clone(), SERVER).call(b"x", soon()).await.is_ok()
    };
    assert!(call(with(CLIENT, Some(&tls))).await);
    assert!(!call(with(CLIENT, Some(&made("others")))).await);
    assert!(!call(with(CLIENT, None)).await);
}
