//! The workload: tellers that transfer money, retry until they are answered, and record the answers.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::Result;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::http_client;
use jeton_testkit::Rng;

/// Accounts in each database, numbered from 0.
pub const ACCOUNTS: u64 = 100;

/// The opening balance of each account.
pub const OPENING: i64 = 1000;

/// Requests per session. Sessions are dated, and old ones are forgotten.
const SESSION_LENGTH: u32 = 50;

/// Delay before a teller sends to another server.
const RETRY_DELAY: Duration = Duration::from_millis(50);

/// First timeout of a teller with short timeouts. After it, two servers have the same request.
const SHORT_TIMEOUT: Duration = Duration::from_millis(200);

/// The procedures, and whether each moves money in PostgreSQL and in MariaDB.
pub const PROCEDURES: [(&str, bool, bool); 5] = [
    ("to_savings", true, true),
    ("from_savings", true, true),
    ("within", true, false),
    ("within_savings", false, true),
    ("balance", false, false),
];

/// A transfer that was requested.
#[derive(Debug, Clone)]
pub struct Transfer {
    pub session: u128,
    pub sequence: u32,
    pub procedure: &'static str,
    pub body: String,
    pub amount: i64,
    /// The answer, as it was received.
    pub answer: Option<String>,
    pub took: Duration,
    pub sent: Instant,
    /// Whether the answer was acknowledged: the server may then forget it.
    pub is_acknowledged: bool,
}

impl Transfer {
    /// A transfer to be sent now.
    pub fn new(session: u128, sequence: u32, procedure: &'static str, body: &Value, amount: i64) -> Self {
        Self {
            session,
            sequence,
            procedure,
            body: body.to_string(),
            amount,
            answer: None,
            took: Duration::ZERO,
            sent: Instant::now(),
            is_acknowledged: false,
        }
    }

    /// The request id, as the databases store it.
    pub fn key(&self) -> String {
        format!("{:032x}:{}", self.session, self.sequence)
    }

    pub fn is_done(&self) -> bool {
        let answer = self.answer.as_deref().and_then(|text| serde_json::from_str::<Value>(text).ok());
        answer.is_some_and(|answer| answer["outcome"] == "done")
    }
}

/// All tellers and their journals.
pub struct Workload {
    urls: Vec<String>,
    journal: Mutex<Vec<Transfer>>,
    is_over: AtomicBool,
    pub answered: AtomicU64,
}

impl Workload {
    pub fn new(urls: Vec<String>) -> Self {
        Self { urls, journal: Mutex::default(), is_over: AtomicBool::new(false), answered: AtomicU64::new(0) }
    }

    /// Starts `tellers` tellers, which run until [`stop`](Self::stop).
    pub fn begin(self: Arc<Self>, tellers: u64, seed: u64) -> JoinSet<()> {
        let mut running = JoinSet::new();
        for number in 0..tellers {
            running.spawn(self.clone().work(number, Rng::new(seed ^ (number + 1) << 32)));
        }
        running
    }

    /// Lets the tellers finish their current transfers.
    pub fn stop(&self) {
        self.is_over.store(true, Ordering::SeqCst);
    }

    pub fn journal(&self) -> Vec<Transfer> {
        self.journal.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    async fn work(self: Arc<Self>, number: u64, mut rng: Rng) {
        let acknowledges = number.is_multiple_of(2);
        let (mut session, mut sequence) = (new_session(&mut rng), 0);
        while !self.is_over.load(Ordering::SeqCst) {
            if sequence == SESSION_LENGTH {
                (session, sequence) = (new_session(&mut rng), 0);
            }
            let mut transfer = transfer(session, sequence, &mut rng);
            transfer.is_acknowledged = acknowledges;
            let place = {
                let mut journal = self.journal.lock().unwrap_or_else(PoisonError::into_inner);
                journal.push(transfer.clone());
                journal.len() - 1
            };
            let answer = self.issue(&transfer, number as usize).await;
            self.answered.fetch_add(1, Ordering::Relaxed);
            let mut journal = self.journal.lock().unwrap_or_else(PoisonError::into_inner);
            journal[place].took = transfer.sent.elapsed();
            journal[place].answer = Some(answer);
            sequence += 1;
        }
    }

    /// Retries until there is an answer, one server after the other.
    async fn issue(&self, transfer: &Transfer, first: usize) -> String {
        for attempt in first.. {
            let url = &self.urls[attempt % self.urls.len()];
            let response = issue_once(url, transfer, attempt == first);
            // Every fourth teller has a short timeout, which grows, so that it makes progress on a slow
            // machine.
            let response = if first % 4 == 3 {
                let timeout = SHORT_TIMEOUT * 2_u32.saturating_pow((attempt - first).min(8) as u32);
                tokio::time::timeout(timeout, response).await.unwrap_or(Ok((0, String::new())))
            } else {
                response.await
            };
            match response {
                Ok((200, answer)) => return answer,
                // A final error counts as an answer; the audit will show it.
                Ok((status @ (400..=408 | 410..=499), answer)) => return format!("{status} {answer}"),
                Ok(_) | Err(_) => tokio::time::sleep(RETRY_DELAY).await,
            }
        }
        unreachable!("a teller retries until it is answered")
    }
}

/// Sends a request to one server once.
pub async fn issue_once(url: &str, transfer: &Transfer, is_first_time: bool) -> Result<(u16, String)> {
    let key = format!("\"{}\"", transfer.key());
    let mut headers = vec![("idempotency-key", key), ("jeton-first-time", is_first_time.to_string())];
    if transfer.is_acknowledged && transfer.sequence > 0 {
        headers.push(("jeton-acknowledged", (transfer.sequence - 1).to_string()));
    }
    let url = format!("{url}/v1/transactions/{}", transfer.procedure);
    let (status, body) = http_client::post(&url, &headers, transfer.body.clone()).await?;
    Ok((status, String::from_utf8_lossy(&body).into_owned()))
}

/// A random transfer.
pub fn transfer(session: u128, sequence: u32, rng: &mut Rng) -> Transfer {
    let (procedure, _, _) = PROCEDURES[rng.below(PROCEDURES.len() as u64) as usize];
    let amount = if procedure == "balance" { 0 } else { 1 + rng.below(OPENING as u64 / 3) as i64 };
    let from = rng.below(ACCOUNTS);
    // Not to the same account.
    let to = (from + 1 + rng.below(ACCOUNTS - 1)) % ACCOUNTS;
    let body = match procedure {
        "balance" => json!({ "account": from }),
        _ => json!({ "from": from, "to": to, "amount": amount }),
    };
    Transfer::new(session, sequence, procedure, &body, amount)
}

/// A UUID of version 7.
pub fn new_session(rng: &mut Rng) -> u128 {
    let millis = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
    rng.uuid7(millis as u64)
}
