//! The table of errors: unique codes, lookups, and the generated page.

use std::collections::BTreeSet;
use std::path::Path;

use jeton_core::{ErrorCode, error_code};

#[test]
fn codes_are_unique_and_found_by_problem_type() {
    let codes: BTreeSet<_> = ErrorCode::all().map(ErrorCode::code).collect();
    assert_eq!(codes.len(), ErrorCode::all().len());
    for error in ErrorCode::all() {
        assert!(error.code().bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-'), "{error:?}");
        assert_eq!(ErrorCode::from_problem_type(&format!("/problems/{}", error.code())), Some(error));
        assert_eq!(ErrorCode::from_problem_type(error.code()), Some(error));
    }
    assert_eq!(ErrorCode::from_problem_type("about:blank"), None);
    assert_eq!(ErrorCode::from_problem_type(""), None);
}

#[test]
fn a_prefix_finds_the_first_error_that_has_it() {
    for error in ErrorCode::all() {
        let Some(prefix) = error.resp_prefix().filter(|prefix| *prefix != "ERR") else { continue };
        let found = ErrorCode::from_resp_prefix(prefix).unwrap();
        assert_eq!(found.resp_prefix(), Some(prefix));
        assert!(found <= error, "{found:?} follows {error:?}");
        // A client that sees only the prefix must not take a write that may have applied for one that did
        // not.
        assert_eq!(found.may_have_applied(), error.may_have_applied(), "{prefix}");
        assert_eq!(found.is_retryable(), error.is_retryable(), "{prefix}");
    }
    assert_eq!(ErrorCode::from_resp_prefix("BUSY"), Some(ErrorCode::Busy));
    assert_eq!(ErrorCode::from_resp_prefix("NOSESSION"), Some(ErrorCode::UnknownSession));
    assert_eq!(ErrorCode::from_resp_prefix("ERR"), None);
    assert_eq!(ErrorCode::from_resp_prefix("WRONGTYPE"), None);
}

#[test]
fn every_error_has_a_status_and_an_action() {
    for error in ErrorCode::all() {
        assert!((400..600).contains(&error.http_status()), "{error:?}");
        assert!(error.action().len() > 60, "{error:?}");
        assert!(!error.title().ends_with('.'), "{error:?}");
        let definite = error.action().contains("Nothing changed") || error.action().contains("unchanged");
        assert!(!(definite && error.may_have_applied()), "{error:?}");
    }
}

#[test]
fn docs_errors_md_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/errors.md");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, error_code::markdown()).unwrap();
        return;
    }
    assert!(
        std::fs::read_to_string(&path).unwrap_or_default() == error_code::markdown(),
        "docs/errors.md is out of date; write it with\n    UPDATE_DOCS=1 cargo test -p jeton-core error_codes"
    );
}
