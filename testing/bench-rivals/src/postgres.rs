//! PostgreSQL from the packages of the system, with several recipes for additions that count once.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};

use crate::postgres_wire::{BatchForm, Prepared, Session, connect};
use crate::target::Target;
use crate::workload::COUNTERS;

/// Settings that differ from the defaults.
const SETTINGS: &[(&str, &str)] = &[
    ("fsync", "on"),
    ("synchronous_commit", "on"),
    ("shared_buffers", "512MB"),
    ("wal_compression", "off"),
    ("max_connections", "300"),
    // No checkpoint runs during a measurement.
    ("max_wal_size", "8GB"),
    ("checkpoint_timeout", "1h"),
    ("jit", "off"),
    // A prepared statement is planned once.
    ("plan_cache_mode", "force_generic_plan"),
];

/// The settings in words for the output.
pub fn settings() -> String {
    SETTINGS.iter().map(|(name, value)| format!("{name} {value}")).collect::<Vec<_>>().join(", ")
}

/// Statements for an addition that counts once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Recipe {
    /// One statement and one transaction for each addition.
    Single,
    /// Arrays: insert the ids that are absent, then insert or update the counters, in order.
    Upsert,
    /// Arrays: insert the ids that are absent, then update counters that exist, in order.
    Update,
    /// The statement of a single addition once for each, in the order of the counters, in one transaction.
    Sequence,
    /// A function with a statement for the ids and one for the counters.
    Function,
}

/// The fastest for requests of many, by `cargo xtask bench rivals recipes`.
pub const BEST: Recipe = Recipe::Upsert;

/// Connections of a second target with the best recipe: on one hot row fewer are sometimes faster.
const FEW: usize = 8;

impl Recipe {
    /// Those for many additions at a time.
    pub const FOR_MANY: [Self; 4] = [Self::Upsert, Self::Update, Self::Sequence, Self::Function];

    fn word(self) -> &'static str {
        match self {
            Self::Single => "single",
            Self::Upsert => "upsert",
            Self::Update => "update",
            Self::Sequence => "sequence",
            Self::Function => "function",
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Single => "one addition per transaction",
            Self::Upsert => "arrays, upsert",
            Self::Update => "arrays, update of existing counters",
            Self::Sequence => "a statement each, one transaction",
            Self::Function => "arrays, a function of two statements",
        }
    }

    fn form(self) -> BatchForm {
        match self {
            Self::Single => BatchForm::Single,
            Self::Sequence => BatchForm::Sequence,
            Self::Upsert | Self::Update | Self::Function => BatchForm::Arrays,
        }
    }

    /// Statements that create the tables, whose names end with `word`. Pages have free space, so that an
    /// update stays in its page.
    fn setup(self, word: &str) -> Vec<String> {
        let mut statements = vec![
            format!("CREATE TABLE ids_{word} (id uuid PRIMARY KEY, counter int NOT NULL)"),
            format!(
                "CREATE TABLE counters_{word} (counter int PRIMARY KEY, value bigint NOT NULL) \
                 WITH (fillfactor = 50)"
            ),
        ];
        match self {
            Self::Update => statements.extend([format!(
                "INSERT INTO counters_{word} SELECT number, 0 FROM generate_series(0, {COUNTERS} - 1) number"
            ), format!("VACUUM ANALYZE counters_{word}")]),
            Self::Function => statements.push(format!(
                "CREATE FUNCTION add_many(uuid[], int[]) RETURNS void LANGUAGE plpgsql AS $$ \
                 DECLARE fresh int[]; BEGIN \
                 WITH done AS (INSERT INTO ids_{word} SELECT * FROM unnest($1, $2) \
                               ON CONFLICT DO NOTHING RETURNING counter) \
                 SELECT array_agg(counter) INTO fresh FROM done; \
                 INSERT INTO counters_{word} AS c SELECT counter, count(*) FROM unnest(fresh) counter \
                 GROUP BY counter ORDER BY counter \
                 ON CONFLICT (counter) DO UPDATE SET value = c.value + excluded.value; END $$"
            )),
            Self::Single | Self::Upsert | Self::Sequence => {}
        }
        statements
    }

    /// The statement to prepare.
    fn statement(self, word: &str) -> String {
        match self {
            Self::Single | Self::Sequence => format!(
                "WITH fresh AS (INSERT INTO ids_{word} VALUES ($1, $2) ON CONFLICT DO NOTHING RETURNING counter) \
                 INSERT INTO counters_{word} AS c SELECT counter, 1 FROM fresh \
                 ON CONFLICT (counter) DO UPDATE SET value = c.value + 1 RETURNING value"
            ),
            Self::Upsert => format!(
                "WITH fresh AS (INSERT INTO ids_{word} SELECT * FROM unnest($1::uuid[], $2::int[]) \
                                ON CONFLICT DO NOTHING RETURNING counter) \
                 INSERT INTO counters_{word} AS c SELECT counter, count(*) FROM fresh \
                 GROUP BY counter ORDER BY counter \
                 ON CONFLICT (counter) DO UPDATE SET value = c.value + excluded.value"
            ),
            Self::Update => format!(
                "WITH fresh AS (INSERT INTO ids_{word} SELECT * FROM unnest($1::uuid[], $2::int[]) \
                                ON CONFLICT DO NOTHING RETURNING counter) \
                 UPDATE counters_{word} c SET value = c.value + s.delta FROM \
                 (SELECT counter, count(*) AS delta FROM fresh GROUP BY counter ORDER BY counter) s \
                 WHERE c.counter = s.counter"
            ),
            Self::Function => "SELECT add_many($1, $2)".to_owned(),
        }
    }

    /// Only a nested loop updates the sorted counters in order, and the planner does not know that the order
    /// matters.
    fn options(self) -> &'static str {
        match self {
            Self::Update => "-c enable_hashjoin=off -c enable_mergejoin=off",
            _ => "",
        }
    }
}

/// A running PostgreSQL.
pub struct Postgres(jeton_testbed::Postgres);

pub fn version() -> String {
    jeton_testbed::postgres_version()
}

impl Postgres {
    pub fn start(folder: &Path) -> Result<Self> {
        Ok(Self(jeton_testbed::Postgres::start(folder, SETTINGS)?))
    }

    /// The first process of the server.
    pub fn process(&self) -> u32 {
        self.0.process().expect("the server runs until it is dropped")
    }

    /// A target with its own tables.
    pub fn target(&self, recipe: Recipe) -> Result<Target> {
        self.target_on(recipe, recipe.word())
    }

    /// A target with the best recipe and fewer connections.
    pub fn few(&self) -> Result<Target> {
        let mut target = self.target_on(BEST, "few")?;
        target.name = format!("{}, {FEW} connections", target.name);
        Ok(target.with_connections(FEW))
    }

    fn target_on(&self, recipe: Recipe, tables: &str) -> Result<Target> {
        let address = self.0.address();
        let mut stream = connect(address)?;
        let mut session = Session::open(&mut stream, "")?;
        for statement in recipe.setup(tables) {
            session.query(&statement)?;
        }
        let protocol =
            Prepared { sql: recipe.statement(tables), form: recipe.form(), options: recipe.options() };
        let name = format!("PostgreSQL, {}", recipe.name());
        let sum = format!("SELECT coalesce(sum(value), 0) FROM counters_{tables}");
        Ok(Target::new(&name, address, Arc::new(protocol), self.process()).with_sum(move || {
            let rows = Session::open(&mut connect(address)?, "")?.query(&sum)?;
            Ok(rows.first().context("no sum")?.parse()?)
        }))
    }
}
