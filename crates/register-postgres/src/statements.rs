//! The SQL statements. Each is a transaction of its own at `READ COMMITTED`.

use tokio_postgres::{Client, Error, Statement};

/// Whether a register `w` is trimmed, or its log retired, in the snapshot of the statement.
macro_rules! marked {
    () => {
        "(EXISTS (SELECT FROM jeton_trim t WHERE t.space = w.space AND t.log = w.log AND t.trimmed >= w.slot)
            OR EXISTS (SELECT FROM jeton_retired d WHERE d.space = w.space AND d.below > w.log))"
    };
}

/// Whether a register `w` may follow: its log is not dense, or the register before it is not empty.
macro_rules! follows {
    () => {
        "(w.space NOT IN (4, 5, 6) OR w.slot = 1
            OR EXISTS (SELECT FROM jeton_register b
                WHERE b.space = w.space AND b.log = w.log AND b.slot = w.slot - 1)
            OR EXISTS (SELECT FROM jeton_trim t
                WHERE t.space = w.space AND t.log = w.log AND t.trimmed >= w.slot - 1))"
    };
}

/// Writes the registers that are empty and may follow, and returns their keys. In key order, so that concurrent statements
/// do not deadlock; of writes with the same key the first.
///
/// It waits for an uncommitted write of the same register. It does not see marks that are committed after it
/// began, so [`MARKED`] follows.
const INSERT: &str = concat!(
    "INSERT INTO jeton_register (space, log, slot, value)
    SELECT w.space, w.log, w.slot, w.value
    FROM unnest($1::smallint[], $2::uuid[], $3::bigint[], $4::bytea[])
        WITH ORDINALITY AS w (space, log, slot, value, place)
    WHERE NOT ",
    marked!(),
    " AND ",
    follows!(),
    " ORDER BY w.space, w.log, w.slot, w.place
    ON CONFLICT DO NOTHING
    RETURNING space, log, slot"
);

/// The positions of the registers that are trimmed.
///
/// If a row was inserted in the place of a deleted one, the mark that allowed the deletion was committed
/// before the insert, so this statement sees it.
const MARKED: &str = concat!(
    "SELECT w.place
    FROM unnest($1::smallint[], $2::uuid[], $3::bigint[]) WITH ORDINALITY AS w (space, log, slot, place)
    WHERE ",
    marked!()
);

/// The values of registers that were not empty.
const VALUES: &str = concat!(
    "SELECT w.place, ",
    marked!(),
    ", r.value
    FROM unnest($1::smallint[], $2::uuid[], $3::bigint[]) WITH ORDINALITY AS w (space, log, slot, place)
    LEFT JOIN jeton_register r USING (space, log, slot)"
);

/// The marks of a log and a range of its registers, limited by number and bytes; the first register is always
/// included.
const READ: &str = "
    SELECT
        coalesce((SELECT t.trimmed FROM jeton_trim t WHERE t.space = $1 AND t.log = $2), 0),
        EXISTS (SELECT FROM jeton_retired d WHERE d.space = $1 AND d.below > $2),
        r.slot, r.value
    FROM (SELECT) one LEFT JOIN (
        SELECT c.slot, c.value FROM (
            SELECT f.slot, f.value,
                sum(octet_length(f.value)) OVER (ORDER BY f.slot) AS bytes,
                row_number() OVER (ORDER BY f.slot) AS number
            FROM (
                SELECT slot, value FROM jeton_register
                WHERE space = $1 AND log = $2 AND slot >= $3 ORDER BY slot LIMIT $4
            ) f
        ) c
        WHERE c.bytes <= $5 OR c.number = 1
    ) r ON true
    ORDER BY r.slot";

const EXTENT: &str = "
    SELECT
        coalesce((SELECT t.trimmed FROM jeton_trim t WHERE t.space = $1 AND t.log = $2), 0),
        greatest(
            (SELECT t.last FROM jeton_trim t WHERE t.space = $1 AND t.log = $2),
            (SELECT max(r.slot) FROM jeton_register r WHERE r.space = $1 AND r.log = $2),
            0),
        EXISTS (SELECT FROM jeton_retired d WHERE d.space = $1 AND d.below > $2)";

/// Sets a trim point, unless there is a higher one.
const TRIM: &str = "
    INSERT INTO jeton_trim AS t (space, log, trimmed, last)
    SELECT $1, $2, $3,
        coalesce((SELECT max(r.slot) FROM jeton_register r WHERE r.space = $1 AND r.log = $2), 0)
    WHERE NOT EXISTS (SELECT FROM jeton_retired d WHERE d.space = $1 AND d.below > $2)
    ON CONFLICT (space, log) DO UPDATE
        SET trimmed = excluded.trimmed, last = greatest(t.last, excluded.last)
        WHERE t.trimmed < excluded.trimmed";

/// Deletes some registers up to a trim point that is committed.
const DELETE_TRIMMED: &str = "
    DELETE FROM jeton_register WHERE ctid = ANY (ARRAY(
        SELECT ctid FROM jeton_register WHERE space = $1 AND log = $2 AND slot <= $3 ORDER BY slot LIMIT $4))";

/// Sets the mark of retired logs, unless there is a higher one.
const RETIRE: &str = "
    INSERT INTO jeton_retired AS d (space, below) VALUES ($1, $2)
    ON CONFLICT (space) DO UPDATE SET below = excluded.below WHERE d.below < excluded.below";

/// Deletes some registers of retired logs.
const DELETE_RETIRED: &str = "
    DELETE FROM jeton_register WHERE ctid = ANY (ARRAY(
        SELECT ctid FROM jeton_register WHERE space = $1 AND log < $2 ORDER BY log, slot LIMIT $3))";

/// Deletes some trim points of retired logs.
const DELETE_RETIRED_TRIMS: &str = "
    DELETE FROM jeton_trim WHERE ctid = ANY (ARRAY(
        SELECT ctid FROM jeton_trim WHERE space = $1 AND log < $2 ORDER BY log LIMIT $3))";

const PUT_BLOB: &str = "
    INSERT INTO jeton_row AS r (name, slot, content) VALUES ($1, $2, $3)
    ON CONFLICT (name) DO UPDATE SET slot = excluded.slot, content = excluded.content
        WHERE r.slot <= excluded.slot";

const GET_BLOB: &str = "SELECT slot, content FROM jeton_row WHERE name = $1";

const PUT_OBJECT: &str = "INSERT INTO jeton_object (name, content) VALUES ($1, $2) ON CONFLICT DO NOTHING";

const GET_OBJECT: &str = "SELECT content FROM jeton_object WHERE name = $1";

const DELETE_OBJECTS: &str = "DELETE FROM jeton_object WHERE name = ANY ($1::text[])";

/// No character of a name is above `z`.
const LIST_OBJECTS: &str = "
    SELECT name FROM jeton_object
    WHERE name >= $1 AND name < $1 || '~' AND name > $2 ORDER BY name LIMIT $3";

/// The statements, prepared for one connection.
#[derive(Debug, Clone)]
pub struct Statements {
    pub insert: Statement,
    pub marked: Statement,
    pub values: Statement,
    pub read: Statement,
    pub extent: Statement,
    pub trim: Statement,
    pub delete_trimmed: Statement,
    pub retire: Statement,
    pub delete_retired: Statement,
    pub delete_retired_trims: Statement,
    pub put_blob: Statement,
    pub get_blob: Statement,
    pub put_object: Statement,
    pub get_object: Statement,
    pub delete_objects: Statement,
    pub list_objects: Statement,
}

impl Statements {
    pub async fn prepare(client: &Client) -> Result<Self, Error> {
        Ok(Self {
            insert: client.prepare(INSERT).await?,
            marked: client.prepare(MARKED).await?,
            values: client.prepare(VALUES).await?,
            read: client.prepare(READ).await?,
            extent: client.prepare(EXTENT).await?,
            trim: client.prepare(TRIM).await?,
            delete_trimmed: client.prepare(DELETE_TRIMMED).await?,
            retire: client.prepare(RETIRE).await?,
            delete_retired: client.prepare(DELETE_RETIRED).await?,
            delete_retired_trims: client.prepare(DELETE_RETIRED_TRIMS).await?,
            put_blob: client.prepare(PUT_BLOB).await?,
            get_blob: client.prepare(GET_BLOB).await?,
            put_object: client.prepare(PUT_OBJECT).await?,
            get_object: client.prepare(GET_OBJECT).await?,
            delete_objects: client.prepare(DELETE_OBJECTS).await?,
            list_objects: client.prepare(LIST_OBJECTS).await?,
        })
    }
}
