//! What a statement looks like from outside.
//!
//! A branch begins and ends by our words only. What else would end it is refused before it is sent: in some states an engine obeys, and the work is
//! committed on its own.

/// Statements that end a transaction, begin one, or change how it ends.
const CONTROL: &[&str] = &[
    "ABORT",
    "BEGIN",
    "CHECKPOINT",
    "COMMIT",
    "DISCARD",
    "END",
    "RELEASE",
    "RESET",
    "ROLLBACK",
    "SAVEPOINT",
    "SET",
    "START",
    "XA",
    "LISTEN",
    "UNLISTEN",
    "NOTIFY",
    "PREPARE",
    "EXECUTE",
    "DEALLOCATE",
    "DECLARE",
];

/// Statements before which MariaDB commits on its own.
const COMMITTING: &[&str] = &[
    "ALTER",
    "ANALYZE",
    "BACKUP",
    "CACHE",
    "CHANGE",
    "CHECK",
    "CREATE",
    "DROP",
    "FLUSH",
    "GRANT",
    "INSTALL",
    "KILL",
    "LOAD",
    "LOCK",
    "OPTIMIZE",
    "RENAME",
    "REPAIR",
    "REVOKE",
    "SHUTDOWN",
    "STOP",
    "TRUNCATE",
    "UNINSTALL",
    "UNLOCK",
];

/// Whether the statement would take the transaction out of our hands.
pub fn is_control(statement: &str) -> bool {
    CONTROL.contains(&first_word(statement).as_str())
}

/// Whether MariaDB would commit before it.
pub fn commits_by_itself(statement: &str) -> bool {
    COMMITTING.contains(&first_word(statement).as_str())
}

/// Whether it only reads, to all appearance.
pub fn is_reading(statement: &str) -> bool {
    ["SELECT", "SHOW", "EXPLAIN", "DESCRIBE", "VALUES"].contains(&first_word(statement).as_str())
}

/// Whether a statement has this word, a name of a table say, in any case.
pub fn mentions(statement: &str, word: &str) -> bool {
    let parts = statement.split(|letter: char| !(letter.is_alphanumeric() || letter == '_' || letter == '$'));
    parts.into_iter().any(|part| part.eq_ignore_ascii_case(word))
}

/// The first word, in capitals, past comments and brackets. A comment that MariaDB executes (`/*!`) is a word that nobody may begin with.
fn first_word(statement: &str) -> String {
    let mut rest = statement;
    loop {
        rest =
            rest.trim_start_matches(|letter: char| letter.is_whitespace() || letter == '(' || letter == ';');
        let end = if rest.starts_with("/*!") || rest.starts_with("/*M!") {
            return "SET".into();
        } else if rest.starts_with("/*") {
            rest.find("*/").map(|at| at + 2)
        } else if rest.starts_with("--") || rest.starts_with('#') {
            rest.find('\n')
        } else {
            break;
        };
        rest = end.map_or("", |end| &rest[end..]);
    }
    let word = rest.split(|letter: char| !letter.is_ascii_alphabetic()).next().unwrap_or_default();
    word.to_ascii_uppercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_takes_the_transaction_away_is_seen_under_comments() {
        for statement in [
            "commit",
            " ROLLBACK work",
            "-- x\nCommit",
            "/* a */ /* b */begin",
            "xa end 'a'",
            "set autocommit=1",
            "/*!50000 COMMIT */",
        ] {
            assert!(is_control(statement), "{statement}");
        }
        for statement in
            ["UPDATE t SET a = 1", "(SELECT 1)", "", "-- COMMIT", "insert into commit values (1)", "commits"]
        {
            assert!(!is_control(statement), "{statement}");
        }
        assert!(
            commits_by_itself("create table t (n int)") && !commits_by_itself("INSERT INTO t VALUES (1)")
        );
        assert!(is_reading("(select 1)") && !is_reading("with a as (select 1) delete from b"));
    }

    #[test]
    fn a_table_is_seen_as_a_whole_word() {
        assert!(mentions("insert into `db`.`Old`(a) values (1)", "old"));
        assert!(!mentions("update older set older_old = 1", "old"));
    }
}
