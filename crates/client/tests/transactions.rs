//! Asking for transactions, against servers that say what the test wants. Against real ones: `crates/cli/tests/transactions`.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use jeton_client::transactions::{AttemptError, Error, Options, Outcome, Problem, Transactions};
use jeton_client::{Backoff, Id};
use serde_json::json;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

/// What a puppet does with a question.
#[derive(Clone, Copy)]
enum Act {
    Say(u16, &'static str),
    /// Reads it, and never says anything.
    Keep,
    /// Reads it, and hangs up.
    HangUp,
}

const DONE: Act = Act::Say(200, r#"{"id":"x","outcome":"done","result":{"left":60}}"#);
const NOT_YET: Act = Act::Say(409, r#"{"type":"/problems/no-answer-yet","detail":"ask again"}"#);
const BUSY: Act = Act::Say(503, r#"{"type":"/problems/busy","detail":"too much"}"#);
const MISMATCH: Act = Act::Say(422, r#"{"type":"/problems/id-mismatch","detail":"another"}"#);
const EXPIRED: Act = Act::Say(410, r#"{"type":"/problems/id-expired","detail":"too old"}"#);

/// A server that does as it is told, act after act; the last one again and again.
struct Puppet {
    url: String,
    /// The heads of what it was asked, in lower case, with their bodies.
    asked: Arc<Mutex<Vec<String>>>,
}

impl Puppet {
    async fn new(acts: &[Act]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (acts, heard) = (acts.to_vec(), Arc::clone(&asked));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, acts.clone(), Arc::clone(&heard)));
            }
        });
        Self { url, asked }
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

async fn serve(stream: TcpStream, acts: Vec<Act>, heard: Arc<Mutex<Vec<String>>>) {
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
            let mut heard = heard.lock().unwrap();
            heard.push(head + &String::from_utf8(body).unwrap());
            heard.len() - 1
        };
        match acts[number.min(acts.len() - 1)] {
            Act::Say(status, body) => {
                let answer = format!("HTTP/1.1 {status} X\r\ncontent-length: {}\r\n\r\n{body}", body.len());
                stream.write_all(answer.as_bytes()).await.unwrap();
            }
            Act::Keep => std::future::pending().await,
            Act::HangUp => return,
        }
    }
}

/// Nobody listens there.
async fn nowhere() -> String {
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

fn header<'a>(asked: &'a str, name: &str) -> Option<&'a str> {
    asked.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
}

#[tokio::test]
async fn requests_of_a_session_are_numbered_and_acknowledged() {
    let puppet = Puppet::new(&[DONE]).await;
    let options = Options { token: Some("jeton_x".into()), ..quick(&[&puppet.url]) };
    let session = Transactions::new(options).unwrap().session();
    let first = session.issue("transfer", &json!({"amount": 40}));
    let id = first.id().clone();
    assert_eq!(first.await.unwrap(), done());
    // One that is never asked for leaves a gap, and nothing above a gap is acknowledged.
    drop(session.issue("transfer", &json!({})));
    assert_eq!(session.issue("transfer", &json!({})).await.unwrap(), done());
    assert_eq!(session.issue("transfer", &json!({})).await.unwrap(), done());

    let asked = puppet.asked();
    let uuid = id.as_str().strip_suffix(":0").unwrap();
    assert!(asked[0].starts_with("post /v1/transactions/transfer http/1.1\r\n"), "{}", asked[0]);
    assert!(asked[0].ends_with("\r\n\r\n{\"amount\":40}"), "{}", asked[0]);
    assert_eq!(header(&asked[0], "authorization"), Some("bearer jeton_x"));
    assert_eq!(header(&asked[0], "content-type"), Some("application/json"));
    let said = |name: &str| -> Vec<Option<&str>> { asked.iter().map(|asked| header(asked, name)).collect() };
    let key = |number: u32| format!("\"{uuid}:{number}\"");
    let keys = [key(0), key(2), key(3)];
    assert_eq!(said("idempotency-key"), keys.iter().map(|key| Some(key.as_str())).collect::<Vec<_>>());
    assert_eq!(said("jeton-first-time"), [Some("true"); 3]);
    assert_eq!(said("jeton-acknowledged"), [None, Some("0"), Some("0")]);
}

#[tokio::test]
async fn it_is_asked_again_with_the_same_id_and_not_for_the_first_time() {
    let puppet = Puppet::new(&[NOT_YET, BUSY, Act::HangUp, Act::Say(502, "<html>"), DONE]).await;
    let issue = client(&[&puppet.url]).session().issue("transfer", &json!({"amount": 40}));
    assert_eq!(issue.await.unwrap(), done());
    let asked = puppet.asked();
    assert_eq!(asked.len(), 5);
    let first_times: Vec<_> = asked.iter().map(|asked| header(asked, "jeton-first-time")).collect();
    assert_eq!(first_times, [Some("true"), None, None, None, None]);
    let id = header(&asked[0], "idempotency-key");
    assert!(asked.iter().all(|asked| header(asked, "idempotency-key") == id));
}

#[tokio::test]
async fn an_id_from_elsewhere_is_never_called_new() {
    let puppet = Puppet::new(&[DONE]).await;
    let id = Id::new("01890a5d-ac96-774b-bcce-b302099a8057").unwrap();
    assert_eq!(client(&[&puppet.url]).issue_with(id, "transfer", &json!({})).await.unwrap(), done());
    let asked = puppet.asked();
    assert_eq!(header(&asked[0], "jeton-first-time"), None);
    assert_eq!(header(&asked[0], "idempotency-key"), Some("\"01890a5d-ac96-774b-bcce-b302099a8057\""));
}

#[tokio::test]
async fn if_the_first_server_is_silent_all_are_asked_and_who_answered_is_asked_first_from_then_on() {
    let [silent, busy, quick] =
        [Puppet::new(&[Act::Keep]).await, Puppet::new(&[BUSY]).await, Puppet::new(&[DONE]).await];
    let transactions = client(&[&silent.url, &busy.url, &quick.url]);
    let session = transactions.session();
    assert_eq!(session.issue("transfer", &json!({})).await.unwrap(), done());
    assert_eq!((silent.asked().len(), quick.asked().len()), (1, 1));
    assert_eq!(session.issue("transfer", &json!({})).await.unwrap(), done());
    assert_eq!((silent.asked().len(), quick.asked().len()), (1, 2));
}

#[tokio::test]
async fn a_server_that_is_not_there_costs_no_patience() {
    let quick = Puppet::new(&[DONE]).await;
    let options =
        Options { widen_after: Duration::from_secs(3600), ..self::quick(&[&nowhere().await, &quick.url]) };
    let session = Transactions::new(options).unwrap().session();
    let issue = session.issue("transfer", &json!({})).deadline(Duration::from_secs(30));
    assert_eq!(issue.await.unwrap(), done());
}

#[tokio::test]
async fn at_the_deadline_it_is_said_whether_it_may_take_effect() {
    let deadline = Duration::from_millis(100);
    for act in [Act::Keep, NOT_YET, Act::HangUp] {
        let puppet = Puppet::new(&[act]).await;
        let issue = client(&[&puppet.url]).session().issue("transfer", &json!({})).deadline(deadline);
        let id = issue.id().clone();
        let error = issue.await.unwrap_err();
        assert!(matches!(&error, Error::Unknown { id: told, .. } if *told == id), "{error:?}");
        assert!(!error.is_certain());
    }
    let busy = Puppet::new(&[BUSY]).await;
    for url in [&busy.url, &nowhere().await] {
        let error =
            client(&[url]).session().issue("transfer", &json!({})).deadline(deadline).await.unwrap_err();
        assert!(matches!(error, Error::Unreachable { .. }) && error.is_certain(), "{error:?}");
    }
}

#[tokio::test]
async fn refusals_end_it() {
    let refuse = async |acts: &[Act]| {
        let puppet = Puppet::new(acts).await;
        client(&[&puppet.url]).session().issue("transfer", &json!({})).await.unwrap_err()
    };
    let error = refuse(&[MISMATCH]).await;
    assert!(matches!(error, Error::Refused { .. }) && error.is_certain(), "{error:?}");
    assert_eq!(error.problem(), Some(&Problem::IdMismatch));
    let error = refuse(&[EXPIRED]).await;
    assert!(matches!(error, Error::Expired { .. }) && !error.is_certain(), "{error:?}");
    // The one that hung up may be at work.
    let error = refuse(&[Act::HangUp, Act::Say(404, r#"{"type":"/problems/unknown-procedure"}"#)]).await;
    assert!(matches!(&error, Error::Unknown { last: AttemptError::Said(_), .. }), "{error:?}");
    assert_eq!(error.problem(), Some(&Problem::UnknownProcedure));
}

#[tokio::test]
async fn what_cannot_be_sent_is_not() {
    let puppet = Puppet::new(&[DONE]).await;
    let session = client(&[&puppet.url]).session();
    let error = session.issue("no/procedure", &json!({})).await.unwrap_err();
    assert!(matches!(error, Error::Invalid(_)));
    assert!(puppet.asked().is_empty());
    assert!(matches!(Transactions::to(["https://127.0.0.1:1"]), Err(Error::Invalid(_))));
}

#[tokio::test]
async fn a_session_goes_on_under_a_new_id_when_it_is_old() {
    let puppet = Puppet::new(&[DONE]).await;
    let options = Options { renew_after: Duration::from_nanos(1), ..quick(&[&puppet.url]) };
    let session = Transactions::new(options).unwrap().session();
    let [one, other] = [(); 2].map(|()| session.issue("transfer", &json!({})).id().to_string());
    assert!(one.ends_with(":0") && other.ends_with(":0") && one != other, "{one} {other}");
}
