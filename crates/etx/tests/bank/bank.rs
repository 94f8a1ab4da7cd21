//! A bank with accounts in two databases, its transfers, and its audit.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use jeton_etx::{
    Branches, DecisionLocation, ProcedureCall, ProcedureLogic, ProcedureResult, RequestId, Resource,
    ResourceError, Value,
};
use jeton_participants::{MariaDb, Postgres, Settings};
use jeton_testbed as testbed;
use mysql_async::prelude::Queryable;
use tokio::runtime::Runtime;

pub const ACCOUNTS: u32 = 40;
pub const CLUSTER: u32 = 7;

const POSTGRES: u8 = 0;
const MARIADB: u8 = 1;

/// A transfer from an account in PostgreSQL to one in MariaDB.
#[derive(Debug, Clone, Copy)]
pub struct Transfer {
    pub from: u32,
    pub to: u32,
    pub amount: i64,
}

impl Transfer {
    /// The request, with its id as a parameter for the ledgers.
    pub fn request(self, id: RequestId) -> ProcedureCall {
        let Self { from, to, amount } = self;
        let parameters = format!("{} {from} {to} {amount}", key(id));
        ProcedureCall { procedure: "transfer".to_owned(), parameters: parameters.into() }
    }
}

fn key(id: RequestId) -> String {
    format!("{:032x}-{}", id.session, id.sequence)
}

fn from_key(key: &str) -> RequestId {
    let (session, sequence) = key.split_once('-').unwrap();
    RequestId { session: u128::from_str_radix(session, 16).unwrap(), sequence: sequence.parse().unwrap() }
}

/// The procedure of a transfer.
pub struct Transfers;

#[async_trait]
impl ProcedureLogic for Transfers {
    fn decision_location(&self, procedure: &str) -> Option<DecisionLocation> {
        (procedure == "transfer").then_some(DecisionLocation::Registers)
    }

    async fn execute(
        &self,
        request: &ProcedureCall,
        branches: &mut Branches,
    ) -> Result<ProcedureResult, ResourceError> {
        let text = String::from_utf8_lossy(&request.parameters);
        let mut words = text.split(' ');
        let key = Value::Text(words.next().unwrap().to_owned());
        let mut number = || Value::Integer(words.next().unwrap().parse().unwrap());
        let (from, to, amount) = (number(), number(), number());
        branches.begin(&[POSTGRES, MARIADB]).await?;
        let rows = branches
            .execute(
                POSTGRES,
                "UPDATE account SET balance = balance - $1 WHERE id = $2 RETURNING balance",
                &[amount.clone(), from],
            )
            .await?
            .rows;
        let Some((_, Value::Integer(left))) = rows.first().and_then(|row| row.first()) else {
            return Ok(ProcedureResult::Failed(Bytes::from_static(b"no such account")));
        };
        if *left < 0 {
            return Ok(ProcedureResult::Refused(Bytes::from_static(b"not enough")));
        }
        let left = Bytes::from(left.to_string());
        branches
            .execute(POSTGRES, "INSERT INTO ledger VALUES ($1, $2)", &[key.clone(), amount.clone()])
            .await?;
        branches
            .execute(MARIADB, "UPDATE account SET balance = balance + ? WHERE id = ?", &[amount.clone(), to])
            .await?;
        branches.execute(MARIADB, "INSERT INTO ledger VALUES (?, ?)", &[key, amount]).await?;
        Ok(ProcedureResult::Done(left))
    }
}

/// The databases of the bank.
pub struct Bank {
    postgres: testbed::Postgres,
    mariadb: testbed::MariaDb,
    _folder: tempfile::TempDir,
}

impl Bank {
    pub fn open(runtime: &Runtime) -> Self {
        let folder = testbed::folder().unwrap();
        let postgres = testbed::Postgres::start(&folder.path().join("postgres"), &[]).unwrap();
        let mariadb = testbed::MariaDb::start(&folder.path().join("mariadb"), false, &[]).unwrap();
        let bank = Self { postgres, mariadb, _folder: folder };
        runtime.block_on(async {
            let accounts: Vec<String> = (0..ACCOUNTS).map(|account| format!("({account}, 1000)")).collect();
            for sql in [
                "CREATE TABLE account (id bigint PRIMARY KEY, balance bigint NOT NULL)",
                // No primary key: a transfer that is executed twice must be seen, not refused.
                "CREATE TABLE ledger (transfer varchar(64) NOT NULL, amount bigint NOT NULL)",
                &format!("INSERT INTO account VALUES {}", accounts.join(", ")),
            ] {
                bank.ask_postgres(sql).await;
                bank.ask_mariadb(sql).await;
            }
        });
        bank
    }

    /// The participants, with connections of their own.
    pub async fn resources(&self) -> Arc<[Arc<dyn Resource>]> {
        let postgres =
            Postgres::new(&self.postgres.url(), Settings::new("ledger", CLUSTER, POSTGRES)).unwrap();
        postgres.ensure_schema().await.unwrap();
        let mariadb = MariaDb::new(&self.mariadb.url(), Settings::new("vault", CLUSTER, MARIADB)).unwrap();
        mariadb.ensure_schema().await.unwrap();
        Arc::new([Arc::new(postgres) as Arc<dyn Resource>, Arc::new(mariadb)])
    }

    async fn ask_postgres(&self, sql: &str) -> Vec<String> {
        let (client, connection) =
            tokio_postgres::connect(&self.postgres.url(), tokio_postgres::NoTls).await.unwrap();
        tokio::spawn(connection);
        let messages = client.simple_query(sql).await.unwrap();
        let rows = messages.into_iter().filter_map(|message| match message {
            tokio_postgres::SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
            _ => None,
        });
        rows.collect()
    }

    async fn ask_mariadb(&self, sql: &str) -> Vec<String> {
        let mut connection =
            mysql_async::Conn::new(mysql_async::Opts::from_url(&self.mariadb.url()).unwrap()).await.unwrap();
        let rows: Vec<mysql_async::Row> = connection.query(sql).await.unwrap();
        connection.disconnect().await.unwrap();
        rows.into_iter().map(|mut row| row.take::<String, _>(0).unwrap()).collect()
    }

    /// The transfers in each ledger, in order.
    pub async fn ledgers(&self) -> [Vec<RequestId>; 2] {
        let sql = "SELECT transfer FROM ledger";
        let sorted = |rows: Vec<String>| {
            let mut ids: Vec<RequestId> = rows.iter().map(|row| from_key(row)).collect();
            ids.sort_unstable();
            ids
        };
        [sorted(self.ask_postgres(sql).await), sorted(self.ask_mariadb(sql).await)]
    }

    pub async fn clear_ledgers(&self) {
        self.ask_postgres("DELETE FROM ledger").await;
        self.ask_mariadb("DELETE FROM ledger").await;
    }

    /// The sum of all balances.
    pub async fn total(&self) -> i64 {
        let sql = "SELECT CAST(SUM(balance) AS char(20)) FROM account";
        let read = |rows: Vec<String>| rows[0].trim().parse::<i64>().unwrap();
        read(self.ask_postgres(sql).await) + read(self.ask_mariadb(sql).await)
    }

    /// The number of prepared branches in both databases.
    pub async fn prepared(&self) -> usize {
        let postgres = self.ask_postgres("SELECT gid FROM pg_prepared_xacts").await;
        let mut connection =
            mysql_async::Conn::new(mysql_async::Opts::from_url(&self.mariadb.url()).unwrap()).await.unwrap();
        let mariadb: Vec<mysql_async::Row> = connection.query("XA RECOVER").await.unwrap();
        connection.disconnect().await.unwrap();
        postgres.len() + mariadb.len()
    }
}
