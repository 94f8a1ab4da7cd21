//! Classification of statements by their first word.
//!
//! Only the coordinator begins and ends a branch. Statements that would end it are refused before they are
//! sent: in some states an engine executes them and commits the branch on its own.

/// Statements that begin or end a transaction, or change how it ends.
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

/// Statements before which MariaDB commits implicitly.
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

/// Whether the statement controls the transaction.
pub fn is_control(statement: &str) -> bool {
    CONTROL.contains(&first_word(statement).as_str())
}

/// Whether MariaDB commits implicitly before the statement.
pub fn commits_by_itself(statement: &str) -> bool {
    COMMITTING.contains(&first_word(statement).as_str())
}

/// Whether the statement appears to be read-only.
pub fn is_reading(statement: &str) -> bool {
    ["SELECT", "SHOW", "EXPLAIN", "DESCRIBE", "VALUES"].contains(&first_word(statement).as_str())
}

/// Whether a statement contains a word, such as a table name, in any case.
pub fn mentions(statement: &str, word: &str) -> bool {
    let parts = statement.split(|letter: char| !(letter.is_alphanumeric() || letter == '_' || letter == '$'));
    parts.into_iter().any(|part| part.eq_ignore_ascii_case(word))
}

/// The first word in upper case, after comments and parentheses. A comment that MariaDB executes (`/*!`)
/// counts as a word that no statement may begin with.
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
    fn control_statements_are_found_after_comments() {
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
    fn tables_are_matched_as_whole_words() {
        assert!(mentions("insert into `db`.`Old`(a) values (1)", "old"));
        assert!(!mentions("update older set older_old = 1", "old"));
    }
}
