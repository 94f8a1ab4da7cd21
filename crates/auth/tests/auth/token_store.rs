//! Adding, removing, changing and rotating tokens.

use jeton_auth::limits::{SECRETS_MAX, TOKENS_MAX};
use jeton_auth::{Access, AuthError, BookError, Grant, TokenStore};

use crate::common::{NOW, random};

fn accepts(book: &TokenStore, token: &jeton_auth::Token, now: u64) -> Result<(), AuthError> {
    Access::from_book(book).authenticate(token.reveal(), now).map(|_| ())
}

#[test]
fn a_name_is_given_once() {
    let mut book = TokenStore::new();
    book.add(Grant::new("a"), &random(1), NOW).unwrap();
    let again = book.add(Grant::new("a"), &random(2), NOW);
    assert_eq!(again.unwrap_err(), BookError::NameTaken("a".into()));
    book.remove("a").unwrap();
    assert_eq!(book.remove("a"), Err(BookError::NoSuchToken("a".into())));
    book.add(Grant::new("a"), &random(2), NOW).unwrap();
    assert_eq!(book.entries().len(), 1);
}

#[test]
fn the_same_chance_twice_is_refused() {
    let mut book = TokenStore::new();
    let token = book.add(Grant::new("a"), &random(1), NOW).unwrap();
    assert_eq!(book.add(Grant::new("b"), &random(1), NOW).unwrap_err(), BookError::IdTaken(token.id()));
    let rotated = book.rotate("a", &random(1), NOW, NOW);
    assert_eq!(rotated.unwrap_err(), BookError::IdTaken(token.id()));
    assert_eq!(accepts(&book, &token, NOW), Ok(()));
}

#[test]
fn a_token_that_is_over_is_not_made() {
    let mut book = TokenStore::new();
    let until = |expires| Grant { expires: Some(expires), ..Grant::new("a") };
    assert_eq!(book.add(until(NOW), &random(1), NOW).unwrap_err(), BookError::Expired("a".into()));
    let token = book.add(until(NOW + 1), &random(1), NOW).unwrap();
    assert_eq!(accepts(&book, &token, NOW), Ok(()));
    assert_eq!(accepts(&book, &token, NOW + 1), Err(AuthError::Expired));
    let late = book.rotate("a", &random(2), NOW + 1, NOW + 5);
    assert_eq!(late.unwrap_err(), BookError::Expired("a".into()));
    book.change(until(NOW + 3)).unwrap();
    assert_eq!(accepts(&book, &token, NOW + 2), Ok(()));
}

#[test]
fn a_bad_grant_changes_nothing() {
    let mut book = TokenStore::new();
    book.add(Grant::new("a"), &random(1), NOW).unwrap();
    let before = book.clone();
    assert!(matches!(book.add(Grant::new(""), &random(2), NOW), Err(BookError::Grant(_))));
    let mut bad = Grant::new("a");
    bad.limits.operations = Some(jeton_auth::Rate { per_second: 0, burst: 1 });
    assert!(matches!(book.change(bad), Err(BookError::Grant(_))));
    assert_eq!(book.change(Grant::new("b")), Err(BookError::NoSuchToken("b".into())));
    assert_eq!(book, before);
}

#[test]
fn a_book_holds_so_many_and_no_more() {
    let mut book = TokenStore::new();
    let mut last = None;
    for number in 0..TOKENS_MAX {
        last = Some(book.add(Grant::new(format!("t{number}")), &random(number as u64), NOW).unwrap());
    }
    let more = book.add(Grant::new("more"), &random(u64::MAX), NOW);
    assert_eq!(more.unwrap_err(), BookError::Full);
    assert_eq!(accepts(&book, &last.unwrap(), NOW), Ok(()));

    // On disk too.
    let text = book.to_json();
    assert_eq!(TokenStore::from_json(text.as_bytes()).unwrap(), book);
    let one = TokenStore::new().to_json();
    assert!(one.contains("\"tokens\": []"));
    let (head, tail) = text.rsplit_once("\n  ]").unwrap();
    let first = head.split_once("\"tokens\": [").unwrap().1;
    let first = &first[..first.find("\n    },").unwrap() + 6];
    let fuller = format!("{head},{}\n  ]{tail}", first.replace("\"t0\"", "\"more\""));
    let broken = TokenStore::from_json(fuller.as_bytes()).unwrap_err();
    assert_eq!(broken.place, "tokens[10000] (\"more\")");
    assert!(broken.why.contains("which is the maximum"), "{broken}");
}

#[test]
fn a_rotated_secret_is_valid_until_the_given_moment() {
    let mut book = TokenStore::new();
    let old = book.add(Grant::new("a"), &random(1), NOW).unwrap();
    let new = book.rotate("a", &random(2), NOW + 10, NOW + 20).unwrap();
    assert_ne!(old.id(), new.id());
    assert_eq!(accepts(&book, &old, NOW + 19), Ok(()));
    assert_eq!(accepts(&book, &old, NOW + 20), Err(AuthError::Expired));
    assert_eq!(accepts(&book, &new, NOW + 20), Ok(()));
    assert_eq!(book.entries().len(), 1);
    let entry = book.find("a").unwrap();
    assert_eq!((entry.created, entry.secrets[0].created), (NOW, NOW + 10));

    // A later rotation does not lengthen it, and one that ends all at once does.
    let newer = book.rotate("a", &random(3), NOW + 11, NOW + 100).unwrap();
    assert_eq!(accepts(&book, &old, NOW + 20), Err(AuthError::Expired));
    assert_eq!(accepts(&book, &new, NOW + 99), Ok(()));
    let newest = book.rotate("a", &random(4), NOW + 12, NOW + 12).unwrap();
    for gone in [&old, &new, &newer] {
        assert_eq!(accepts(&book, gone, NOW + 12), Err(AuthError::Unknown));
    }
    assert_eq!(accepts(&book, &newest, NOW + 12), Ok(()));
}

#[test]
fn of_two_ends_the_earlier_counts() {
    for (expires, old_until) in [(NOW + 10, NOW + 20), (NOW + 20, NOW + 10)] {
        let mut book = TokenStore::new();
        let grant = Grant { expires: Some(expires), ..Grant::new("a") };
        let old = book.add(grant, &random(1), NOW).unwrap();
        book.rotate("a", &random(2), NOW, old_until).unwrap();
        assert_eq!(accepts(&book, &old, NOW + 9), Ok(()));
        assert_eq!(accepts(&book, &old, NOW + 10), Err(AuthError::Expired));
    }
}

#[test]
fn so_many_secrets_are_valid_at_once() {
    let mut book = TokenStore::new();
    book.add(Grant::new("a"), &random(0), NOW).unwrap();
    for number in 1..SECRETS_MAX as u64 {
        book.rotate("a", &random(number), NOW, NOW + 10).unwrap();
    }
    let before = book.clone();
    let more = book.rotate("a", &random(99), NOW + 9, NOW + 20);
    assert_eq!(more.unwrap_err(), BookError::TooManySecrets("a".into()));
    assert_eq!(book, before);
    // Those that have ended make room; and ending all of them is always possible.
    book.clone().rotate("a", &random(99), NOW + 10, NOW + 20).unwrap();
    book.rotate("a", &random(99), NOW, NOW).unwrap();
    assert_eq!(book.find("a").unwrap().secrets.len(), 1);
}
