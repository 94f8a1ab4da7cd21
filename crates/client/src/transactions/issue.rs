//! A transaction that is asked for: drives its course over HTTP.

use std::collections::HashMap;
use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::{Request, header};
use serde::Serialize;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, sleep_until};

use super::error::{AttemptError, Error, Problem};
use super::response::{self, Outcome, ParsedResponse};
use super::retry::{AttemptResult, Policy, RetryAction, RetryOutcome, RetryState};
use super::session::RequestNumber;
use super::{Http, Transactions};
use crate::client::chance;
use crate::id::Id;

/// Longer answers are none of ours.
const ANSWER_BYTES_MAX: usize = 16 << 20;

/// A transaction that is asked for when this is awaited. To know its id before, for example to write it down, see [`id`](Self::id).
#[must_use = "nothing is sent before it is awaited"]
pub struct Issue {
    transactions: Transactions,
    id: Id,
    place: Option<RequestNumber>,
    procedure: String,
    body: Result<Bytes, Error>,
    deadline: Option<Duration>,
}

impl Issue {
    pub(super) fn new<P: Serialize + ?Sized>(
        transactions: Transactions,
        id: Id,
        place: Option<RequestNumber>,
        procedure: &str,
        parameters: &P,
    ) -> Self {
        let body = serde_json::to_vec(parameters).map(Bytes::from);
        let body = body.map_err(|why| Error::Invalid(format!("the parameters cannot be JSON: {why}")));
        let deadline = transactions.options().deadline;
        Self { transactions, id, place, procedure: procedure.to_owned(), body, deadline }
    }

    /// What the transaction is called. Whoever wants to ask for it again after a crash keeps this, with what was asked.
    pub fn id(&self) -> &Id {
        &self.id
    }

    /// How long to ask, instead of what the options say.
    pub fn deadline(self, deadline: Duration) -> Self {
        Self { deadline: Some(deadline), ..self }
    }

    async fn run(self) -> Result<Outcome, Error> {
        let body = self.body.clone()?;
        check(&self.id, &self.procedure)?;
        let outcome = self.send_with_retries(body).await;
        // What is certainly not done will not be asked for again either.
        if let Some(place) = &self.place
            && outcome.as_ref().err().is_none_or(Error::is_certain)
        {
            place.answered();
        }
        outcome
    }

    async fn send_with_retries(&self, body: Bytes) -> Result<Outcome, Error> {
        let transactions = &self.transactions;
        let begun = Instant::now();
        let policy = Policy { deadline: self.deadline, ..transactions.options().policy() };
        let (count, first) = (transactions.servers().len(), transactions.preferred());
        let mut course = RetryState::new(policy, Duration::ZERO, count, first, self.place.is_some());
        // When this future is dropped, so are the questions; the work on a server goes on.
        let mut asking: JoinSet<(u32, ParsedResponse, AttemptResult)> = JoinSet::new();
        let mut flying: HashMap<u32, AbortHandle> = HashMap::new();
        let (mut answer, mut last) = (None, AttemptError::TimedOut);
        loop {
            match course.step(begun.elapsed()) {
                RetryAction::Ask { attempt, server, is_first_time } => {
                    let question = self.question(server, is_first_time, body.clone())?;
                    let (http, url) = (transactions.http().clone(), transactions.servers()[server].clone());
                    let asked = asking.spawn(async move {
                        let (read, report) = ask(&http, &url, question).await;
                        (attempt, read, report)
                    });
                    flying.insert(attempt, asked);
                }
                RetryAction::Abandon { attempt } => {
                    if let Some(asked) = flying.remove(&attempt) {
                        asked.abort();
                    }
                    last = AttemptError::TimedOut;
                    course.report(begun.elapsed(), attempt, AttemptResult::Lost { sent: true }, chance());
                }
                RetryAction::Wait { until } => {
                    let waiting = async {
                        match until {
                            Some(until) => sleep_until(begun + until).await,
                            None => std::future::pending().await,
                        }
                    };
                    let heard = tokio::select! {
                        heard = asking.join_next(), if !asking.is_empty() => heard,
                        () = waiting => None,
                    };
                    // What was abandoned comes as an error, and was reported.
                    if let Some(Ok((attempt, read, report))) = heard {
                        flying.remove(&attempt);
                        match read {
                            ParsedResponse::Outcome(outcome) => answer = Some(outcome),
                            ParsedResponse::Failure(failure) => last = failure,
                        }
                        course.report(begun.elapsed(), attempt, report, chance());
                    }
                }
                RetryAction::Over(RetryOutcome::Answered { server }) => {
                    transactions.prefer(server);
                    return answer.ok_or_else(|| Error::Unknown { id: self.id.clone(), last });
                }
                RetryAction::Over(RetryOutcome::Failed { may_have_applied }) => {
                    return Err(self.error(may_have_applied, last));
                }
            }
        }
    }

    fn error(&self, may_have_applied: bool, last: AttemptError) -> Error {
        let id = self.id.clone();
        match last {
            AttemptError::Said(said) if said.problem == Problem::IdExpired => Error::Expired { id, said },
            // The id stands for something else, so this was never done, and never will be.
            AttemptError::Said(said) if said.problem == Problem::IdMismatch => Error::Refused { id, said },
            last if may_have_applied => Error::Unknown { id, last },
            AttemptError::Said(said) if said.problem != Problem::Busy => Error::Refused { id, said },
            last => Error::Unreachable { id, last },
        }
    }

    fn question(
        &self,
        server: usize,
        is_first_time: bool,
        body: Bytes,
    ) -> Result<Request<Full<Bytes>>, Error> {
        let uri = format!("{}/v1/transactions/{}", self.transactions.servers()[server], self.procedure);
        let mut question = Request::post(uri)
            .header(header::CONTENT_TYPE, "application/json")
            .header("idempotency-key", format!("\"{}\"", self.id));
        if is_first_time {
            question = question.header("jeton-first-time", "true");
        }
        if let Some(acknowledged) = self.place.as_ref().and_then(|place| place.acknowledged) {
            question = question.header("jeton-acknowledged", acknowledged.to_string());
        }
        if let Some(token) = &self.transactions.options().token {
            question = question.header(header::AUTHORIZATION, format!("Bearer {token}"));
        }
        question.body(Full::new(body)).map_err(|why| Error::Invalid(why.to_string()))
    }
}

impl IntoFuture for Issue {
    type Output = Result<Outcome, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}

/// What would go into a header or a path and does not belong there.
fn check(id: &Id, procedure: &str) -> Result<(), Error> {
    let is_id = |byte: u8| byte.is_ascii_hexdigit() || byte == b'-' || byte == b':';
    if !id.as_str().bytes().all(is_id) {
        let why = format!(
            "{id:?}: the id of a transaction is a UUID of version 7, which may be followed by a colon and a number"
        );
        return Err(Error::Invalid(why));
    }
    let is_plain =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_' || byte == b'-';
    if procedure.is_empty() || procedure.len() > 48 || !procedure.bytes().all(is_plain) {
        return Err(Error::Invalid(format!(
            "{procedure:?}: the name of a procedure is 1 to 48 of a-z, 0-9, _ and -"
        )));
    }
    Ok(())
}

async fn ask(http: &Http, server: &str, question: Request<Full<Bytes>>) -> (ParsedResponse, AttemptResult) {
    let lost =
        |why: &dyn std::error::Error| AttemptError::Lost { server: server.to_owned(), why: chain(why) };
    let response = match http.request(question).await {
        Ok(response) => response,
        Err(why) if why.is_connect() => {
            let failure = AttemptError::Connect { server: server.to_owned(), why: chain(&why) };
            return (ParsedResponse::Failure(failure), AttemptResult::Lost { sent: false });
        }
        Err(why) => return (ParsedResponse::Failure(lost(&why)), AttemptResult::Lost { sent: true }),
    };
    let status = response.status().as_u16();
    match Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await {
        Ok(body) => response::read(status, &body.to_bytes()),
        Err(why) => (ParsedResponse::Failure(lost(&*why)), AttemptResult::Lost { sent: true }),
    }
}

/// An error with its reasons: that of the system is at the end.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(error) = next {
        text += &format!(": {error}");
        next = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_become_another_request_is_not_sent() {
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
