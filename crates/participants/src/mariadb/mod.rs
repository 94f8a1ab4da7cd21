//! MariaDB as a participant.
//!
//! A branch is an XA transaction. If its decision is recorded in this database, it is a plain transaction,
//! because it is never prepared. A session holds a user lock with the label of its server and its own number,
//! by which other servers find and terminate it.
//!
//! MariaDB does not report whether a branch changed anything, so every branch that executed a statement gets
//! a commit marker and is prepared. A branch that changed nothing needs the marker too: without a change,
//! MariaDB drops a prepared branch together with its session.

mod connection;
mod decisions;
mod error;
mod recovery;
mod schema;
mod value;

use async_trait::async_trait;
use jeton_client::Tls;
use jeton_etx::{CoordinatorId, Dialect, Outcome, ResourceError, Vote, Xid};
use jeton_register_postgres::take_parameters;
use mysql_async::{Opts, OptsBuilder, SslOpts};

use crate::driver::{Driver, Session};
use crate::identifiers::session_label;
use crate::query_error::QueryError;
use crate::settings::Settings;
use crate::statement_class::{commits_by_itself, is_control};
use crate::xa_resource::XaResource;
use connection::Connection;

/// A MariaDB database that takes part in transactions. All servers of a cluster must use the same account.
pub type MariaDb = XaResource<MariaDbDriver>;

pub struct MariaDbDriver {
    options: Opts,
    #[cfg(feature = "mutations")]
    rolled_back: std::sync::Mutex<std::collections::HashSet<Xid>>,
}

#[async_trait]
impl Driver for MariaDbDriver {
    type Session = Connection;

    const DIALECT: Dialect = Dialect::Question;
    const INVALID_STATE: &'static str = "1399";
    const REFUSED_STATEMENT: &'static str = "1399";
    const BEGIN_WITH_STATEMENT: bool = false;
    const ERROR_FAILS_TRANSACTION: bool = false;
    const CURRENT_SCHEMA: &'static str = "DATABASE()";
    const TRUE: &'static str = "1";

    fn new(url: &str, settings: &Settings) -> Result<Self, ResourceError> {
        let (options, ssl) = parse(url).map_err(|error| {
            settings.setup(error, "use a URL such as mysql://account:password@host:3306/database")
        })?;
        let seconds = |time: std::time::Duration| time.as_secs().max(1);
        let session = format!(
            "SET SESSION autocommit = 1, completion_type = 'NO_CHAIN', innodb_lock_wait_timeout = {lock}, \
             lock_wait_timeout = {lock}, max_statement_time = {}, idle_transaction_timeout = {}",
            settings.statement_max.as_secs_f64(),
            seconds(settings.idle_max),
            lock = seconds(settings.lock_max),
        );
        let options = OptsBuilder::from_opts(options)
            // Connect to the given address, not to a local socket.
            .prefer_socket(false)
            .tcp_nodelay(true)
            .stmt_cache_size(256)
            // Count matched rows, as PostgreSQL does, not changed rows.
            .client_found_rows(true)
            .ssl_opts(ssl)
            .init(vec![session])
            .into();
        Ok(Self {
            options,
            #[cfg(feature = "mutations")]
            rolled_back: Default::default(),
        })
    }

    async fn connect(&self, settings: &Settings) -> Result<Connection, ResourceError> {
        Connection::open(&self.options, settings).await
    }

    fn refusal(statement: &str) -> Option<&'static str> {
        if is_control(statement) {
            Some("only the coordinator begins and ends a branch")
        } else if commits_by_itself(statement) {
            Some("this statement commits the transaction implicitly")
        } else {
            None
        }
    }

    fn begin_sql(xid: &Xid, decides_here: bool) -> String {
        if decides_here { "START TRANSACTION".into() } else { format!("XA START {}", xid_sql(xid)) }
    }

    fn rollback_sql(xid: &Xid, decides_here: bool) -> String {
        let xid = xid_sql(xid);
        if decides_here { "ROLLBACK".into() } else { format!("XA END {xid}; XA ROLLBACK {xid}") }
    }

    fn end_sql(xid: &Xid, outcome: Outcome) -> String {
        let verb = match outcome {
            Outcome::Commit => "COMMIT",
            Outcome::Abort => "ROLLBACK",
        };
        format!("XA {verb} {}", xid_sql(xid))
    }

    /// Writes the commit marker and prepares, in one statement.
    async fn prepare(
        session: &mut Connection,
        settings: &Settings,
        xid: &Xid,
        _has_changed: bool,
    ) -> Result<Vote, QueryError> {
        let marker = match mutated!(MarkerOmitted) {
            true => String::new(),
            false => format!("INSERT INTO etx_commit_marker (gid) VALUES ('{}');", xid.gid()),
        };
        let xid = xid_sql(xid);
        let prepare = format!("{marker} XA END {xid}; XA PREPARE {xid}");
        let prepare = if mutated!(LateErrorIgnored) { prepare } else { compound(&prepare) };
        session.run(settings, &prepare).await.map(|_| Vote::Yes)
    }

    #[cfg(feature = "mutations")]
    fn on_rolled_back(&self, xid: &Xid) {
        self.rolled_back.lock().unwrap_or_else(std::sync::PoisonError::into_inner).insert(*xid);
    }
}

/// Parses a URL. `require_ssl=true` encrypts; `ssl_ca` names a PEM file with the trusted authorities instead
/// of the built-in ones. The client library ignores its other parameters of TLS without `require_ssl`; here
/// that is an error.
fn parse(url: &str) -> Result<(Opts, Option<SslOpts>), String> {
    let (url, [file]) = take_parameters(url, ["ssl_ca"])?;
    let options = Opts::from_url(&url).map_err(|error| error.to_string())?;
    let Some(ssl) = options.ssl_opts().cloned() else {
        let (_, unused) = take_parameters(&url, ["verify_ca", "verify_identity", "built_in_roots"])?;
        return match unused.iter().chain([&file]).all(Option::is_none) {
            true => Ok((options, None)),
            false => Err("parameters of TLS need require_ssl=true".into()),
        };
    };
    let Some(file) = file else { return Ok((options, Some(ssl))) };
    let roots = std::fs::read(&file).map_err(|error| format!("ssl_ca {file}: {error}"))?;
    // The client library reports invalid certificates only when it connects.
    Tls::trusting(&roots).map_err(|error| format!("ssl_ca {file}: {error}"))?;
    Ok((options, Some(ssl.with_root_certs(vec![roots.into()]).with_disable_built_in_roots(true))))
}

/// The user lock of a session. User locks belong to the whole database server, which may serve several
/// resources.
fn lock_name(settings: &Settings, coordinator: CoordinatorId, connection: impl std::fmt::Display) -> String {
    format!("{}:{:02x}:{connection}", session_label(coordinator), settings.number)
}

/// Wraps statements into one compound statement. MariaDB then sends one response, which saves wakeups of the
/// client, and reports an error of any statement at once.
fn compound(statements: &str) -> String {
    format!("BEGIN NOT ATOMIC {statements}; END")
}

/// The XA identifier in SQL.
fn xid_sql(xid: &Xid) -> String {
    format!("'{}','{}',{}", xid.gtrid(), xid.bqual(), Xid::FORMAT)
}

#[cfg(test)]
mod tests {
    use jeton_testbed::Certificate;

    use super::*;

    #[test]
    fn parameters_of_tls_need_require_ssl() {
        let folder = tempfile::tempdir().unwrap();
        let [file, key] = Certificate::of("h").unwrap().write(folder.path()).unwrap();
        let (file, key) = (file.display(), key.display());
        let encrypts = |query: &str| parse(&format!("mysql://a@h/d{query}")).map(|(_, ssl)| ssl.is_some());
        assert_eq!(encrypts(""), Ok(false));
        assert_eq!(encrypts("?require_ssl=false"), Ok(false));
        assert_eq!(encrypts("?require_ssl=true"), Ok(true));
        assert_eq!(encrypts(&format!("?ssl_ca={file}&require_ssl=true")), Ok(true));
        for query in
            [&format!("?ssl_ca={file}"), "?verify_ca=true", "?verify_identity=true&require_ssl=false"]
        {
            assert!(encrypts(query).unwrap_err().contains("require_ssl"), "{query}");
        }
        for (file, reason) in [("missing.pem".into(), "missing.pem"), (key.to_string(), "contains none")] {
            let error = encrypts(&format!("?require_ssl=true&ssl_ca={file}")).unwrap_err();
            assert!(error.contains(reason), "{error}");
        }
    }
}
