//! Transactions against scripted servers. Tests against real servers: `crates/cli/tests/transactions`.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use jeton_client::ErrorCode;
use jeton_client::transactions::{AttemptError, Error, Options, Outcome, Transactions};
use jeton_client::{Backoff, Id};
use serde_json::json;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

/// What a scripted server does with a request.
#[derive(Clone, Copy)]
enum Act {
    Respond(u16, &'static str),
    /// Reads it and does not respond.
    Hang,
    /// Reads it and closes the connection.
    Close,
}

const DONE: Act = Act::Respond(200, r#"{"id":"x","outcome":"done","result":{"left":60}}"#);
const NOT_YET: Act = Act::Respond(409, r#"{"type":"/problems/outcome-unknown","detail":"retry"}"#);
const BUSY: Act = Act::Respond(503, r#"{"type":"/problems/busy","detail":"too much"}"#);
const MISMATCH: Act = Act::Respond(422, r#"{"type":"/problems/id-mismatch","detail":"another"}"#);
const EXPIRED: Act = Act::Respond(410, r#"{"type":"/problems/id-expired","detail":"too old"}"#);

/// A server that executes these acts in order, and repeats the last one.
struct ScriptedServer {
    url: String,
    /// Heads in lower case, and bodies.
    requests: Arc<Mutex<Vec<String>>>,
}

impl ScriptedServer {
    async fn new(acts: &[Act]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let requests = Arc::new(Mutex::new(Vec::new()));
        let (acts, log) = (acts.to_vec(), Arc::clone(&requests));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, acts.clone(), Arc::clone(&log)));
            }
        });
        Self { url, requests }
    }

    fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }
}

async fn serve(stream: TcpStream, acts: Vec<Act>, log: Arc<Mutex<Vec<String>>>) {
    let mut stream = BufReader::new(stream);
    loop {
        let (mut head, mut length) = (String::new(), 0);
        while !head.ends_with("\r\n\r\n") {
            let mut line = String::new();
            if stream.read_line(&mut line).await.unwrap_or(0) == 0 {
                return;
            }
            let line = line.to_ascii_lowercase();
            if let Some(value) = line.strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
            head += &line;
        }
        let mut body = vec![0; length];
        stream.read_exact(&mut body).await.unwrap();
        let number = {
            let mut log = log.lock().unwrap();
            log.push(head + &String::from_utf8(body).unwrap());
            log.len() - 1
        };
        match acts[number.min(acts.len() - 1)] {
            Act::Respond(status, body) => {
                let response = format!("HTTP/1.1 {status} X\r\ncontent-length: {}\r\n\r\n{body}", body.len());
                stream.write_all(response.as_bytes()).await.unwrap();
            }
            Act::Hang => std::future::pending().await,
            Act::Close => return,
        }
    }
}

/// The URL of a port without a listener.
async fn unreachable_url() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    format!("http://{}", listener.local_addr().unwrap())
}

fn client(urls: &[&str]) -> Transactions {
    Transactions::new(quick(urls)).unwrap()
}

fn quick(urls: &[&str]) -> Options {
    let backoff = Backoff { base: Duration::from_millis(2), cap: Duration::from_millis(20) };
    Options { widen_after: Duration::from_millis(30), backoff, ..Options::to(urls.iter().copied()) }
}

fn done() -> Outcome {
    Outcome::Done(json!({"left": 60}))
}

fn header<'a>(request: &'a str, name: &str) -> Option<&'a str> {
    request.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
}

#[tokio::test]
async fn a_session_numbers_and_acknowledges_requests() {
    let server = ScriptedServer::new(&[DONE]).await;
    let options = Options { token: Some("jeton_x".into()), ..quick(&[&server.url]) };
    let session = Transactions::new(options).unwrap().session();
    let first = session.execute("transfer", &json!({"amount": 40}));
    let id = first.id().clone();
    assert_eq!(first.await.unwrap(), done());
    // A request that is never sent leaves a gap, and nothing above a gap is acknowledged.
    drop(session.execute("transfer", &json!({})));
    assert_eq!(session.execute("transfer", &json!({})).await.unwrap(), done());
    assert_eq!(session.execute("transfer", &json!({})).await.unwrap(), done());

    let requests = server.requests();
    let uuid = id.as_str().strip_suffix(":0").unwrap();
    assert!(requests[0].starts_with("post /v1/transactions/transfer http/1.1\r\n"), "{}", requests[0]);
    assert!(requests[0].ends_with("\r\n\r\n{\"amount\":40}"), "{}", requests[0]);
    assert_eq!(header(&requests[0], "authorization"), Some("bearer jeton_x"));
    assert_eq!(header(&requests[0], "content-type"), Some("application/json"));
    let headers =
        |name: &str| -> Vec<Option<&str>> { requests.iter().map(|request| header(request, name)).collect() };
    let key = |number: u32| format!("\"{uuid}:{number}\"");
    let keys = [key(0), key(2), key(3)];
    assert_eq!(headers("idempotency-key"), keys.iter().map(|key| Some(key.as_str())).collect::<Vec<_>>());
    assert_eq!(headers("jeton-first-time"), [Some("true"); 3]);
    assert_eq!(headers("jeton-acknowledged"), [None, Some("0"), Some("0")]);
}

#[tokio::test]
async fn retries_have_the_same_id_and_no_first_time_header() {
    let server = ScriptedServer::new(&[NOT_YET, BUSY, Act::Close, Act::Respond(502, "<html>"), DONE]).await;
    let execute = client(&[&server.url]).session().execute("transfer", &json!({"amount": 40}));
    assert_eq!(execute.await.unwrap(), done());
    let requests = server.requests();
    assert_eq!(requests.len(), 5);
    let first_times: Vec<_> = requests.iter().map(|request| header(request, "jeton-first-time")).collect();
    assert_eq!(first_times, [Some("true"), None, None, None, None]);
    let id = header(&requests[0], "idempotency-key");
    assert!(requests.iter().all(|request| header(request, "idempotency-key") == id));
}

#[tokio::test]
async fn a_chosen_id_has_no_first_time_header() {
    let server = ScriptedServer::new(&[DONE]).await;
    let id = Id::new("01890a5d-ac96-774b-bcce-b302099a8057").unwrap();
    assert_eq!(client(&[&server.url]).execute_with_id(id, "transfer", &json!({})).await.unwrap(), done());
    let requests = server.requests();
    assert_eq!(header(&requests[0], "jeton-first-time"), None);
    assert_eq!(header(&requests[0], "idempotency-key"), Some("\"01890a5d-ac96-774b-bcce-b302099a8057\""));
}

#[tokio::test]
async fn the_server_that_responded_is_preferred_afterwards() {
    let [silent, busy, quick] = [
        ScriptedServer::new(&[Act::Hang]).await,
        ScriptedServer::new(&[BUSY]).await,
        ScriptedServer::new(&[DONE]).await,
    ];
    let transactions = client(&[&silent.url, &busy.url, &quick.url]);
    let session = transactions.session();
    assert_eq!(session.execute("transfer", &json!({})).await.unwrap(), done());
    assert_eq!((silent.requests().len(), quick.requests().len()), (1, 1));
    assert_eq!(session.execute("transfer", &json!({})).await.unwrap(), done());
    // The first attempt goes to it; on a slow machine the others may follow.
    assert_eq!(header(&quick.requests()[1], "jeton-first-time"), Some("true"));
}

#[tokio::test]
async fn an_unreachable_server_causes_no_delay() {
    let quick = ScriptedServer::new(&[DONE]).await;
    let options = Options {
        widen_after: Duration::from_secs(3600),
        ..self::quick(&[&unreachable_url().await, &quick.url])
    };
    let session = Transactions::new(options).unwrap().session();
    let execute = session.execute("transfer", &json!({})).deadline(Duration::from_secs(30));
    assert_eq!(execute.await.unwrap(), done());
}

#[tokio::test]
async fn errors_at_the_deadline_say_if_it_may_take_effect() {
    let deadline = Duration::from_millis(100);
    for act in [Act::Hang, NOT_YET, Act::Close] {
        let server = ScriptedServer::new(&[act]).await;
        let execute = client(&[&server.url]).session().execute("transfer", &json!({})).deadline(deadline);
        let id = execute.id().clone();
        let error = execute.await.unwrap_err();
        assert!(matches!(&error, Error::Unknown { id: other, .. } if *other == id), "{error:?}");
        assert!(!error.is_certain());
    }
    // The backoff exceeds the deadline, so no attempt can be in flight at the deadline, on a slow machine
    // either.
    let never = Duration::from_secs(10_000_000_000);
    let busy = ScriptedServer::new(&[BUSY]).await;
    for url in [&busy.url, &unreachable_url().await] {
        let options = Options { backoff: Backoff { base: never, cap: never }, ..quick(&[url]) };
        let session = Transactions::new(options).unwrap().session();
        let execute = session.execute("transfer", &json!({})).deadline(Duration::from_secs(60));
        let error = execute.await.unwrap_err();
        assert!(matches!(error, Error::Unreachable { .. }) && error.is_certain(), "{error:?}");
    }
}

#[tokio::test]
async fn a_refusal_ends_the_retries() {
    let refuse = async |acts: &[Act]| {
        let server = ScriptedServer::new(acts).await;
        client(&[&server.url]).session().execute("transfer", &json!({})).await.unwrap_err()
    };
    let error = refuse(&[MISMATCH]).await;
    assert!(matches!(error, Error::Refused { .. }) && error.is_certain(), "{error:?}");
    assert_eq!(error.code(), Some(ErrorCode::IdMismatch));
    let error = refuse(&[EXPIRED]).await;
    assert!(matches!(error, Error::Expired { .. }) && !error.is_certain(), "{error:?}");
    // The server that closed the connection may still execute it.
    let error = refuse(&[Act::Close, Act::Respond(404, r#"{"type":"/problems/unknown-procedure"}"#)]).await;
    assert!(matches!(&error, Error::Unknown { last: AttemptError::Server(_), .. }), "{error:?}");
    assert_eq!(error.code(), Some(ErrorCode::UnknownProcedure));
}

#[tokio::test]
async fn invalid_requests_are_not_sent() {
    let server = ScriptedServer::new(&[DONE]).await;
    let session = client(&[&server.url]).session();
    let error = session.execute("no/procedure", &json!({})).await.unwrap_err();
    assert!(matches!(error, Error::Invalid(_)));
    assert!(server.requests().is_empty());
    assert!(matches!(Transactions::to(["ftp://127.0.0.1:1"]), Err(Error::Invalid(_))));
}

#[tokio::test]
async fn an_old_session_continues_under_a_new_id() {
    let server = ScriptedServer::new(&[DONE]).await;
    let options = Options { renew_after: Duration::from_nanos(1), ..quick(&[&server.url]) };
    let session = Transactions::new(options).unwrap().session();
    let [one, other] = [(); 2].map(|()| session.execute("transfer", &json!({})).id().to_string());
    assert!(one.ends_with(":0") && other.ends_with(":0") && one != other, "{one} {other}");
}
