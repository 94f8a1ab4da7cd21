//! The execution of one transaction: runs the retry state machine over HTTP.

use std::collections::HashMap;
use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use jeton_core::ErrorCode;
use serde::Serialize;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, sleep_until};

use super::Transactions;
use super::error::{AttemptError, Error};
use super::response::{self, Outcome, ParsedResponse};
use super::session::RequestNumber;
use crate::http::{HttpClient, HttpError, Request, header};
use crate::id::Id;
use crate::retry::{AttemptResult, Policy, RetryAction, RetryOutcome, RetryState};
use crate::system::random_u64;

/// A transaction. It is sent when this is awaited; [`id`](Self::id) returns its id before.
#[must_use = "nothing is sent before it is awaited"]
pub struct Execute {
    transactions: Transactions,
    id: Id,
    /// `None` if the caller chose the id: then an earlier process may have sent the request.
    number: Option<RequestNumber>,
    procedure: String,
    body: Result<Bytes, Error>,
    deadline: Option<Duration>,
}

impl Execute {
    pub(super) fn new<P: Serialize + ?Sized>(
        transactions: Transactions,
        id: Id,
        number: Option<RequestNumber>,
        procedure: &str,
        parameters: &P,
    ) -> Self {
        let body = serde_json::to_vec(parameters).map(Bytes::from);
        let body = body.map_err(|error| Error::Invalid(format!("the parameters are not JSON: {error}")));
        let deadline = transactions.0.options.deadline;
        Self { transactions, id, number, procedure: procedure.to_owned(), body, deadline }
    }

    /// The id of the transaction. To retry after a crash of the client, store it together with the request.
    pub fn id(&self) -> &Id {
        &self.id
    }

    /// How long to retry, instead of the client's option.
    pub fn deadline(self, deadline: Duration) -> Self {
        Self { deadline: Some(deadline), ..self }
    }

    async fn run(self) -> Result<Outcome, Error> {
        let body = self.body.clone()?;
        check(&self.id, &self.procedure)?;
        let outcome = self.send_with_retries(body).await;
        // A definite failure will not be retried either.
        if let Some(number) = &self.number
            && outcome.as_ref().err().is_none_or(Error::is_certain)
        {
            number.answered();
        }
        outcome
    }

    async fn send_with_retries(&self, body: Bytes) -> Result<Outcome, Error> {
        let transactions = &self.transactions;
        let started = Instant::now();
        let is_new = self.number.is_some();
        let policy = Policy { deadline: self.deadline, ..transactions.0.options.policy() };
        let (count, first) = (transactions.0.servers.len(), transactions.0.preferred.load(Ordering::Relaxed));
        let mut retry = RetryState::new(policy, Duration::ZERO, count, first, !is_new);
        // Dropping this future cancels the requests, not the work of the servers.
        let mut requests: JoinSet<(u32, ParsedResponse, AttemptResult)> = JoinSet::new();
        let mut in_flight: HashMap<u32, AbortHandle> = HashMap::new();
        let (mut outcome, mut last) = (None, AttemptError::TimedOut);
        loop {
            match retry.step(started.elapsed()) {
                RetryAction::Send { attempt, server } => {
                    let request = self.request(server, is_new && attempt == 0, body.clone())?;
                    let (http, url) = (transactions.0.http.clone(), transactions.0.servers[server].clone());
                    let handle = requests.spawn(async move {
                        let (response, result) = send(&http, url, count == 1, request).await;
                        (attempt, response, result)
                    });
                    in_flight.insert(attempt, handle);
                }
                RetryAction::Abandon { attempt } => {
                    if let Some(handle) = in_flight.remove(&attempt) {
                        handle.abort();
                    }
                    last = AttemptError::TimedOut;
                    let result = AttemptResult::Lost { sent: true };
                    retry.report(started.elapsed(), attempt, result, random_u64());
                }
                RetryAction::Wait { until } => {
                    let timer = async {
                        match until {
                            Some(until) => sleep_until(started + until).await,
                            None => std::future::pending().await,
                        }
                    };
                    let response = tokio::select! {
                        response = requests.join_next(), if !requests.is_empty() => response,
                        () = timer => None,
                    };
                    // An abandoned request ends with an error; it was reported before.
                    if let Some(Ok((attempt, response, result))) = response {
                        in_flight.remove(&attempt);
                        match response {
                            Ok(response) => outcome = Some(response),
                            Err(error) => last = error,
                        }
                        retry.report(started.elapsed(), attempt, result, random_u64());
                    }
                }
                RetryAction::Finished(RetryOutcome::Answered { server, .. }) => {
                    transactions.0.preferred.store(server, Ordering::Relaxed);
                    return outcome.ok_or_else(|| Error::Unknown { id: self.id.clone(), last });
                }
                RetryAction::Finished(RetryOutcome::Failed { may_have_applied }) => {
                    return Err(self.error(may_have_applied, last));
                }
            }
        }
    }

    fn error(&self, may_have_applied: bool, last: AttemptError) -> Error {
        let id = self.id.clone();
        match last {
            AttemptError::Server(error) if error.code == Some(ErrorCode::IdExpired) => {
                Error::Expired { id, error }
            }
            last if may_have_applied => Error::Unknown { id, last },
            AttemptError::Server(error) if !error.is_busy() => Error::Refused { id, error },
            last => Error::Unreachable { id, last },
        }
    }

    fn request(&self, server: usize, is_first_time: bool, body: Bytes) -> Result<Request<Bytes>, Error> {
        let uri = format!("{}/v1/transactions/{}", self.transactions.0.servers[server], self.procedure);
        let mut request = Request::post(uri)
            .header(header::CONTENT_TYPE, "application/json")
            .header("idempotency-key", format!("\"{}\"", self.id));
        if is_first_time {
            request = request.header("jeton-first-time", "true");
        }
        if let Some(acknowledged) = self.number.as_ref().and_then(|number| number.acknowledged) {
            request = request.header("jeton-acknowledged", acknowledged.to_string());
        }
        if let Some(token) = &self.transactions.0.options.token {
            request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
        }
        request.body(body).map_err(|error| Error::Invalid(error.to_string()))
    }
}

impl IntoFuture for Execute {
    type Output = Result<Outcome, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}

/// Rejects ids and procedure names that would change the header or the path they are put into.
fn check(id: &Id, procedure: &str) -> Result<(), Error> {
    let is_id = |byte: u8| byte.is_ascii_hexdigit() || byte == b'-' || byte == b':';
    if !id.as_str().bytes().all(is_id) {
        return Err(Error::Invalid(format!(
            "{id:?}: the id of a transaction is a UUID of version 7, optionally with a colon and a number"
        )));
    }
    let is_name =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_' || byte == b'-';
    if procedure.is_empty() || procedure.len() > 48 || !procedure.bytes().all(is_name) {
        return Err(Error::Invalid(format!(
            "{procedure:?}: the name of a procedure is 1 to 48 of a-z, 0-9, _ and -"
        )));
    }
    Ok(())
}

async fn send(
    http: &HttpClient,
    server: String,
    is_only_server: bool,
    request: Request<Bytes>,
) -> (ParsedResponse, AttemptResult) {
    match http.send(request).await {
        Ok(response) => response::parse(response.status().as_u16(), response.body()),
        Err(error) => {
            let result = match error {
                // A certificate stays untrusted; another server may have a trusted one.
                HttpError::Untrusted(_) if is_only_server => {
                    AttemptResult::Refused { may_have_applied: false }
                }
                _ => AttemptResult::Lost { sent: error.may_have_been_sent() },
            };
            let error = match error {
                HttpError::Connect(reason) => AttemptError::Connect { server, reason },
                HttpError::Untrusted(reason) => AttemptError::Untrusted { server, reason },
                HttpError::Lost(reason) => AttemptError::Lost { server, reason },
                HttpError::TimedOut => AttemptError::TimedOut,
                HttpError::TooLong => AttemptError::UnexpectedReply(error.to_string()),
            };
            (Err(error), result)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_and_names_cannot_inject_headers_or_paths() {
        let id = |text: &str| Id::new(text).unwrap();
        let good = id("01890a5d-ac96-774b-bcce-b302099a8057:7");
        assert!(check(&good, "transfer-2").is_ok());
        for procedure in ["", "a/b", "a?b", "Transfer", "a b", "../x", &"a".repeat(49)] {
            assert!(check(&good, procedure).is_err(), "{procedure}");
        }
        for text in ["a\"", "a\r\nx: y", "zz"] {
            assert!(check(&id(text), "transfer").is_err(), "{text}");
        }
    }
}
