//! Jeton's own tables as a participant.
//!
//! A branch is a list of additions. They are collected here and sent with the vote, which is `PUT /v1/branches/{gid}`: the database holds them from then on, and whoever knows
//! the name can commit or abort them. So before the vote there is nothing to lose, and no connection belongs to a branch.
//!
//! How what [`Resource`] asks for comes to hold:
//! - *Yes is a promise.* What is held is an entry of the log in every partition that it concerns, and nothing is done to its counters that would not leave it room.
//! - *A commit is known.* The database remembers how a branch ended, for seven days, and says so to whoever settles it again. What it knows nothing of was never held.
//! - *An abort is final, with or without a fence.* It is remembered too, so a vote that it overtook is refused when it comes. That is why [`fence`](Resource::fence) has nothing to do:
//!   there is no session to be ended, and a branch that an executor asks for after it was taken for dead, and of which nobody knew the name before, is listed like any
//!   other and settled by what stands about its try. It keeps nobody from reading, and from writing only what would not leave it room.
//! - Nothing is to be [forgotten](Resource::forget) by request: the database's own window does that.
//!
//! Statements are words with spaces between; a word may be quoted (`'` or `"`, doubled inside), or be `?`, a parameter:
//!
//! - `ADD <table> <counter> <amount>`, and then any of `MIN <least>`, `MAX <most>`, `COLUMN <family:qualifier>`. Bounds are those of the counter after the whole branch. They are seen at the
//!   vote: one that is violated is a [`ResourceError::Statement`], which will come again; one that only others' unsettled branches are in the way of passes.
//! - `GET <table> <counter>`, with or without `COLUMN`: one row with the column `value`, as it is committed, and what this branch has added. It locks nothing: what must still be so at
//!   the commit is said by bounds.
//!
//! Decisions are never kept here: counters and the rows of decisions would need one log.

mod branch;
mod http;
mod statement;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use jeton_etx::{
    AttemptId, Branch, CoordinatorId, Dialect, Outcome, RequestId, Resource, ResourceError, Xid,
};
use jeton_etx::{AttemptNumber, PreparedBranch};
use serde::Deserialize;

use crate::settings::Settings;
use branch::JetonBranch;
use http::{Http, Reply, encoded};

/// A Jeton database that takes part in transactions.
pub struct Jeton {
    shared: Arc<Inner>,
    /// Tells the branches of this process apart where nothing else does.
    begun: AtomicU64,
}

/// What branches and the resource have in common.
pub(crate) struct Inner {
    settings: Settings,
    http: Http,
}

/// What is held, as the database lists it.
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
    /// A database by the URL of its HTTP server, `http://host:6381`. The token, if the server wants one, must give the right to add in the tables concerned, to read where
    /// something is read, and to administer the server. Nothing is connected yet.
    pub fn new(url: &str, token: Option<&str>, settings: Settings) -> Result<Self, ResourceError> {
        let http = Http::new(url, token, &settings)?;
        Ok(Self { shared: Arc::new(Inner { settings, http }), begun: AtomicU64::new(1) })
    }

    /// Whether the database is there, and lets us list what is held.
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
            .map_err(|error| self.settings.passing(format_args!("the list of branches: {error}")))?
            .branches)
    }

    async fn prepared(&self) -> Result<Vec<PreparedBranch>, ResourceError> {
        let ours = |listed: Listed| {
            let name = Xid::from_gid(&listed.branch).ok()?;
            let age = Some(Duration::from_millis(listed.age_ms));
            self.settings.is_ours(&name).then_some(PreparedBranch { name, age })
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
                let why = "it is neither held nor known to be committed: it was aborted by hand, or decided too long ago";
                Err(self.settings.damage(gid, why))
            }
            _ => Err(self.failure(&reply)),
        }
    }

    /// What an answer that is not 200 means.
    fn failure(&self, reply: &Reply) -> ResourceError {
        let (kind, why) = (reply.problem(), reply.detail());
        match reply.status {
            401 | 403 if kind != "quota" => {
                let remedy = "give a token that may add in these tables and administer the server";
                self.settings.setup(why, remedy)
            }
            // Somebody who took us for dead aborted it. The next try has another name.
            _ if kind == "branch-settled" || kind == "outcome-unknown" => self.settings.passing(why),
            429 | 500.. => self.settings.passing(why),
            _ if !kind.is_empty() => self.settings.statement(kind, why),
            status => self.settings.setup(format_args!("{status}: {why}"), "give the URL of a Jeton server"),
        }
    }

    fn no_home(&self) -> ResourceError {
        let why = "decisions about transactions are not kept in a Jeton database";
        self.settings.setup(why, "keep them in the registers, or in PostgreSQL or MariaDB")
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

    fn keeps_decisions(&self) -> bool {
        false
    }

    async fn begin(&self, attempt: AttemptId) -> Result<Box<dyn Branch>, ResourceError> {
        let settings = &self.shared.settings;
        let name = Xid {
            cluster: settings.cluster,
            request: attempt.request,
            attempt: attempt.number,
            home: attempt.home,
            executor: attempt.executor,
            resource: settings.number,
            connection: self.begun.fetch_add(1, Ordering::Relaxed),
        };
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

    async fn write_decision(
        &self,
        _: RequestId,
        _: AttemptNumber,
        _: &[u8],
    ) -> Result<Vec<u8>, ResourceError> {
        Err(self.shared.no_home())
    }

    async fn read_decision(&self, _: RequestId, _: AttemptNumber) -> Result<Option<Vec<u8>>, ResourceError> {
        Err(self.shared.no_home())
    }

    async fn forget(&self, _: u128) -> Result<(), ResourceError> {
        Ok(())
    }

    async fn fence(&self, _: CoordinatorId) -> Result<(), ResourceError> {
        Ok(())
    }
}
