//! The CQL statements.

use scylla::client::session::Session;
use scylla::errors::PrepareError;
use scylla::statement::Consistency;
use scylla::statement::prepared::PreparedStatement;

/// The statements. Conditional ones are decided at `SERIAL` and committed at `QUORUM`.
#[derive(Debug)]
pub struct Statements {
    /// In a batch with inserts or a deletion, which take effect with it.
    pub control_update: PreparedStatement,
    pub insert: PreparedStatement,
    pub delete_trimmed: PreparedStatement,
    /// Completes what is in flight, and waits for it.
    pub control: PreparedStatement,
    pub range: PreparedStatement,
    pub values: PreparedStatement,
    pub delete_log: PreparedStatement,
    pub retired: PreparedStatement,
    pub retire: PreparedStatement,
    pub add_bucket: PreparedStatement,
    pub buckets: PreparedStatement,
    pub delete_bucket: PreparedStatement,
    pub add_dated: PreparedStatement,
    pub dated: PreparedStatement,
    pub delete_dated: PreparedStatement,
    pub put_blob: PreparedStatement,
    pub get_blob: PreparedStatement,
    pub all_blobs: PreparedStatement,
    pub put_object: PreparedStatement,
    pub get_object: PreparedStatement,
    pub delete_object: PreparedStatement,
    pub put_name: PreparedStatement,
    pub delete_name: PreparedStatement,
    pub names: PreparedStatement,
}

impl Statements {
    pub async fn prepare(session: &Session, keyspace: &str) -> Result<Self, PrepareError> {
        let at = async |text: &str, consistency: Consistency| {
            let mut statement = session.prepare(text.replacen("{}", keyspace, 1)).await?;
            statement.set_consistency(consistency);
            statement.set_is_idempotent(false);
            // A read of one request is one page.
            statement.set_page_size(i32::MAX);
            Ok::<_, PrepareError>(statement)
        };
        let quorum = async |text: &str| at(text, Consistency::Quorum).await;
        let serial = async |text: &str| at(text, Consistency::Serial).await;
        Ok(Self {
            control_update: quorum(
                "UPDATE {}.register SET version = ?, last = ?, trimmed = ?
                WHERE space = ? AND log = ? AND slot = 0 IF version = ? AND last = ? AND trimmed = ?",
            )
            .await?,
            insert: quorum("INSERT INTO {}.register (space, log, slot, value) VALUES (?, ?, ?, ?)").await?,
            delete_trimmed: quorum(
                "DELETE FROM {}.register WHERE space = ? AND log = ? AND slot > 0 AND slot <= ?",
            )
            .await?,
            control: serial(
                "SELECT version, last, trimmed FROM {}.register WHERE space = ? AND log = ? AND slot = 0",
            )
            .await?,
            range: quorum(
                "SELECT slot, value FROM {}.register WHERE space = ? AND log = ? AND slot >= ? LIMIT ?",
            )
            .await?,
            values: quorum("SELECT slot, value FROM {}.register WHERE space = ? AND log = ? AND slot IN ?")
                .await?,
            delete_log: quorum("DELETE FROM {}.register USING TIMESTAMP ? WHERE space = ? AND log = ?")
                .await?,
            retired: quorum("SELECT below FROM {}.retired WHERE space = ?").await?,
            retire: quorum("UPDATE {}.retired SET below = ? WHERE space = ? IF below = ?").await?,
            add_bucket: quorum("INSERT INTO {}.dated_bucket (space, bucket) VALUES (?, ?)").await?,
            buckets: quorum("SELECT bucket FROM {}.dated_bucket WHERE space = ? AND bucket <= ?").await?,
            delete_bucket: quorum("DELETE FROM {}.dated_bucket WHERE space = ? AND bucket = ?").await?,
            add_dated: quorum("INSERT INTO {}.dated_log (space, bucket, log) VALUES (?, ?, ?)").await?,
            dated: quorum("SELECT log FROM {}.dated_log WHERE space = ? AND bucket = ? AND log < ? LIMIT ?")
                .await?,
            delete_dated: quorum("DELETE FROM {}.dated_log WHERE space = ? AND bucket = ? AND log <= ?")
                .await?,
            put_blob: quorum(
                "UPDATE {}.named_blob SET version = ?, content = ? WHERE name = ? IF version = ?",
            )
            .await?,
            get_blob: quorum("SELECT version, content FROM {}.named_blob WHERE name = ?").await?,
            all_blobs: quorum("SELECT name, version, content FROM {}.named_blob LIMIT ?").await?,
            put_object: quorum("INSERT INTO {}.object (name, content) VALUES (?, ?)").await?,
            get_object: quorum("SELECT content FROM {}.object WHERE name = ?").await?,
            delete_object: quorum("DELETE FROM {}.object WHERE name = ?").await?,
            put_name: quorum("INSERT INTO {}.object_name (bucket, name) VALUES (0, ?)").await?,
            delete_name: quorum("DELETE FROM {}.object_name WHERE bucket = 0 AND name = ?").await?,
            names: quorum(
                "SELECT name FROM {}.object_name WHERE bucket = 0 AND name >= ? AND name < ? LIMIT ?",
            )
            .await?,
        })
    }
}
