//! Jeton's own tables as a participant.
//!
//! A branch is a list of additions. They are collected here and sent with the prepare, which is `PUT
//! /v1/branches/{gid}`. From then on the database keeps them prepared, and any server that knows the name can
//! commit or abort them. So there is nothing to lose before the vote, and no connection belongs to a branch.
//!
//! How the guarantees of [`Resource`] are met:
//! - *A yes vote is durable.* A prepared branch is a log entry in every partition that it changes, and later
//!   operations leave its counters the reserved range.
//! - *A commit is known.* The database remembers the outcome of a branch for seven days and returns it to
//!   every later request. An unknown branch was never prepared.
//! - *An abort is final, with or without fencing.* The database remembers it, so a prepare that arrives after
//!   the abort is refused. Hence [`fence`](Resource::fence) does nothing: there is no session to terminate.
//!   If a suspected coordinator prepares a branch whose name no other server knows, recovery lists it and
//!   resolves it by the decision of its attempt. Until then it blocks no reads, and only those writes that
//!   would use its reserved range.
//! - [`forget`](Resource::forget) does nothing: the window of the database expires the outcomes.
//!
//! A statement is a sequence of words. A word may be quoted (`'` or `"`, doubled inside) or be `?`, a
//! parameter:
//!
//! - `ADD <table> <counter> <amount>`, followed by any of `MIN <least>`, `MAX <most>`, `COLUMN
//!   <family:qualifier>`. Bounds apply to the counter after the whole branch and are checked at the vote. A
//!   violated bound is a [`ResourceError::Statement`], which a retry does not change; a conflict with other
//!   prepared branches only is transient.
//! - `GET <table> <counter>`, with or without `COLUMN`: one row with the column `value`, the committed value
//!   plus the additions of this branch. It takes no lock: conditions at the commit are expressed by bounds.
//!
//! Decisions are never recorded here: counters and decisions would need one log.

mod branch;
mod http;
mod statement;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use jeton_client::Tls;
use jeton_etx::{
    AttemptId, Branch, CoordinatorId, Dialect, Outcome, PreparedBranch, Resource, ResourceError, Xid,
};
use serde::Deserialize;

use crate::settings::Settings;
use branch::JetonBranch;
use http::{Http, Reply, encoded};

/// A Jeton database that takes part in transactions.
pub struct Jeton {
    shared: Arc<Inner>,
    /// Makes the branch names of this process unique.
    begun: AtomicU64,
}

/// The state that the resource shares with its branches.
pub(crate) struct Inner {
    settings: Settings,
    http: Http,
}

/// The prepared branches, as the database lists them.
#[derive(Deserialize)]
struct List {
    branches: Vec<Listed>,
}

#[derive(Deserialize)]
struct Listed {
    branch: String,
    age_ms: u64,
    holds: Vec<String>,
}

impl Jeton {
    /// A database by the URL of its HTTP server, `http://host:6381`, or `https://host:6382` with a
    /// certificate that `tls` or else the operating system trusts. The token, if the server requires one,
    /// needs the right to add in the tables of the transactions, to read where a procedure reads, and to
    /// administer the server. Does not connect yet.
    pub fn new(
        url: &str,
        token: Option<&str>,
        tls: Option<&Tls>,
        settings: Settings,
    ) -> Result<Self, ResourceError> {
        let http = Http::new(url, token, tls, &settings)?;
        Ok(Self { shared: Arc::new(Inner { settings, http }), begun: AtomicU64::new(1) })
    }

    /// Checks that the database is reachable and permits listing the prepared branches.
    pub async fn check(&self) -> Result<(), ResourceError> {
        self.shared.list().await.map(drop)
    }
}

impl Inner {
    async fn ask(
        &self,
        method: &str,
        path: &str,
        body: Option<&serde_json::Value>,
    ) -> Result<Reply, ResourceError> {
        self.http.ask(&self.settings, method, path, body).await
    }

    async fn list(&self) -> Result<Vec<Listed>, ResourceError> {
        let reply = self.ask("GET", "/v1/branches", None).await?;
        if reply.status != 200 {
            return Err(self.failure(&reply));
        }
        let list: Result<List, _> = serde_json::from_value(reply.body);
        Ok(list
            .map_err(|error| self.settings.transient(format_args!("the list of branches: {error}")))?
            .branches)
    }

    async fn prepared(&self) -> Result<Vec<PreparedBranch>, ResourceError> {
        let ours = |listed: Listed| {
            let name = Xid::from_gid(&listed.branch).ok()?;
            let age = Some(Duration::from_millis(listed.age_ms));
            self.settings.is_own(&name).then_some(PreparedBranch { name, age })
        };
        Ok(self.list().await?.into_iter().filter_map(ours).collect())
    }

    async fn decide(&self, name: &Xid, outcome: Outcome) -> Result<(), ResourceError> {
        let gid = name.gid();
        let word = match outcome {
            Outcome::Commit => "commit",
            Outcome::Abort => "abort",
        };
        let reply = self.ask("POST", &format!("/v1/branches/{}/{word}", encoded(&gid)), None).await?;
        match (reply.status, reply.problem(), outcome) {
            (200, _, _) => Ok(()),
            (_, "branch-settled", Outcome::Commit) => {
                Err(self.settings.damage(gid, "it was aborted by hand"))
            }
            (_, "branch-settled", Outcome::Abort) => {
                Err(self.settings.damage(gid, "it was to be aborted and is committed"))
            }
            (_, "unknown-branch", _) => {
                let why = "it is neither prepared nor known to be committed: it was aborted by hand, or its outcome has expired";
                Err(self.settings.damage(gid, why))
            }
            _ => Err(self.failure(&reply)),
        }
    }

    /// The error for a response other than 200.
    fn failure(&self, reply: &Reply) -> ResourceError {
        let (kind, why) = (reply.problem(), reply.detail());
        match reply.status {
            401 | 403 if kind != "quota" => {
                let remedy = "give a token that may add in these tables and administer the server";
                self.settings.setup(why, remedy)
            }
            // Another server suspected this one and aborted the branch. The next attempt has another name.
            _ if kind == "branch-settled" || kind == "outcome-unknown" => self.settings.transient(why),
            429 | 500.. => self.settings.transient(why),
            _ if !kind.is_empty() => self.settings.statement(kind, why),
            status => self.settings.setup(format_args!("{status}: {why}"), "give the URL of a Jeton server"),
        }
    }
}

#[async_trait]
impl Resource for Jeton {
    fn name(&self) -> &str {
        &self.shared.settings.name
    }

    fn dialect(&self) -> Dialect {
        Dialect::Question
    }

    /// Checks that the database is reachable, although the first request may be the vote: a branch that does
    /// not begin uses no attempt.
    async fn begin(&self, attempt: AttemptId) -> Result<Box<dyn Branch>, ResourceError> {
        self.shared.http.connect(&self.shared.settings).await?;
        let name = self.shared.settings.branch(attempt, self.begun.fetch_add(1, Ordering::Relaxed));
        Ok(Box::new(JetonBranch::new(Arc::clone(&self.shared), name)))
    }

    async fn prepared(&self) -> Result<Vec<PreparedBranch>, ResourceError> {
        self.shared.prepared().await
    }

    async fn locks(&self, branch: &Xid) -> Result<Vec<String>, ResourceError> {
        let gid = branch.gid();
        let listed = self.shared.list().await?.into_iter().find(|listed| listed.branch == gid);
        Ok(listed.map(|listed| listed.holds).unwrap_or_default())
    }

    async fn decide(&self, branch: &Xid, outcome: Outcome) -> Result<(), ResourceError> {
        self.shared.decide(branch, outcome).await
    }

    async fn forget(&self, _: u128) -> Result<(), ResourceError> {
        Ok(())
    }

    async fn fence(&self, _: CoordinatorId) -> Result<(), ResourceError> {
        Ok(())
    }
}
