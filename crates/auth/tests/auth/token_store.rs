//! Adding, removing, changing and rotating tokens.

use jeton_auth::limits::{SECRETS_MAX, TOKENS_MAX};
use jeton_auth::{Access, AuthError, Grant, Token, TokenStore, TokenStoreError};

use crate::common::{NOW, random, store_with};

fn accepts(store: &TokenStore, token: &Token, now: u64) -> Result<(), AuthError> {
    Access::from_store(store).authenticate(token.reveal(), now).map(|_| ())
}

#[test]
fn names_are_unique() {
    let (mut store, _) = store_with(Grant::new("a"));
    let again = store.add(Grant::new("a"), &random(2), NOW);
    assert_eq!(again.unwrap_err(), TokenStoreError::NameTaken("a".into()));
    store.remove("a").unwrap();
    assert_eq!(store.remove("a"), Err(TokenStoreError::NoSuchToken("a".into())));
    store.add(Grant::new("a"), &random(2), NOW).unwrap();
    assert_eq!(store.entries().len(), 1);
}

#[test]
fn repeated_random_bytes_are_rejected() {
    let (mut store, token) = store_with(Grant::new("a"));
    assert_eq!(
        store.add(Grant::new("b"), &random(1), NOW).unwrap_err(),
        TokenStoreError::IdTaken(token.id())
    );
    let rotated = store.rotate("a", &random(1), NOW, NOW);
    assert_eq!(rotated.unwrap_err(), TokenStoreError::IdTaken(token.id()));
    assert_eq!(accepts(&store, &token, NOW), Ok(()));
}

#[test]
fn an_expired_token_is_not_created() {
    let mut store = TokenStore::new();
    let until = |expires| Grant { expires: Some(expires), ..Grant::new("a") };
    assert_eq!(store.add(until(NOW), &random(1), NOW).unwrap_err(), TokenStoreError::Expired("a".into()));
    let token = store.add(until(NOW + 1), &random(1), NOW).unwrap();
    assert_eq!(accepts(&store, &token, NOW), Ok(()));
    assert_eq!(accepts(&store, &token, NOW + 1), Err(AuthError::Expired));
    let late = store.rotate("a", &random(2), NOW + 1, NOW + 5);
    assert_eq!(late.unwrap_err(), TokenStoreError::Expired("a".into()));
    store.change(until(NOW + 3)).unwrap();
    assert_eq!(accepts(&store, &token, NOW + 2), Ok(()));
}

#[test]
fn an_invalid_grant_changes_nothing() {
    let (mut store, _) = store_with(Grant::new("a"));
    let before = store.clone();
    assert!(matches!(store.add(Grant::new(""), &random(2), NOW), Err(TokenStoreError::Grant(_))));
    let mut bad = Grant::new("a");
    bad.limits.operations = Some(jeton_auth::Rate { per_second: 0, burst: 1 });
    assert!(matches!(store.change(bad), Err(TokenStoreError::Grant(_))));
    assert_eq!(store.change(Grant::new("b")), Err(TokenStoreError::NoSuchToken("b".into())));
    assert_eq!(store, before);
}

#[test]
fn the_number_of_tokens_is_limited() {
    let mut store = TokenStore::new();
    let mut last = None;
    for number in 0..TOKENS_MAX {
        last = Some(store.add(Grant::new(format!("t{number}")), &random(number as u64), NOW).unwrap());
    }
    let more = store.add(Grant::new("more"), &random(u64::MAX), NOW);
    assert_eq!(more.unwrap_err(), TokenStoreError::Full);
    assert_eq!(accepts(&store, &last.unwrap(), NOW), Ok(()));

    // On disk too.
    let text = store.to_json();
    assert_eq!(TokenStore::from_json(text.as_bytes()).unwrap(), store);
    assert!(TokenStore::new().to_json().contains("\"tokens\": []"));
    let (head, tail) = text.rsplit_once("\n  ]").unwrap();
    let first = head.split_once("\"tokens\": [").unwrap().1;
    let first = &first[..first.find("\n    },").unwrap() + 6];
    let fuller = format!("{head},{}\n  ]{tail}", first.replace("\"t0\"", "\"more\""));
    let broken = TokenStore::from_json(fuller.as_bytes()).unwrap_err();
    assert_eq!(broken.place, "tokens[10000] (\"more\")");
    assert!(broken.why.contains("which is the maximum"), "{broken}");
}

#[test]
fn a_replaced_secret_is_valid_until_the_given_time() {
    let (mut store, old) = store_with(Grant::new("a"));
    let new = store.rotate("a", &random(2), NOW + 10, NOW + 20).unwrap();
    assert_ne!(old.id(), new.id());
    assert_eq!(accepts(&store, &old, NOW + 19), Ok(()));
    assert_eq!(accepts(&store, &old, NOW + 20), Err(AuthError::Expired));
    assert_eq!(accepts(&store, &new, NOW + 20), Ok(()));
    assert_eq!(store.entries().len(), 1);
    let entry = store.find("a").unwrap();
    assert_eq!((entry.created, entry.secrets[0].created), (NOW, NOW + 10));

    // A later rotation does not extend it; one without delay ends all previous secrets.
    let newer = store.rotate("a", &random(3), NOW + 11, NOW + 100).unwrap();
    assert_eq!(accepts(&store, &old, NOW + 20), Err(AuthError::Expired));
    assert_eq!(accepts(&store, &new, NOW + 99), Ok(()));
    let newest = store.rotate("a", &random(4), NOW + 12, NOW + 12).unwrap();
    for revoked in [&old, &new, &newer] {
        assert_eq!(accepts(&store, revoked, NOW + 12), Err(AuthError::Unknown));
    }
    assert_eq!(accepts(&store, &newest, NOW + 12), Ok(()));
}

#[test]
fn the_earlier_of_two_expiries_applies() {
    for (expires, old_until) in [(NOW + 10, NOW + 20), (NOW + 20, NOW + 10)] {
        let (mut store, old) = store_with(Grant { expires: Some(expires), ..Grant::new("a") });
        store.rotate("a", &random(2), NOW, old_until).unwrap();
        assert_eq!(accepts(&store, &old, NOW + 9), Ok(()));
        assert_eq!(accepts(&store, &old, NOW + 10), Err(AuthError::Expired));
    }
}

#[test]
fn the_number_of_valid_secrets_is_limited() {
    let (mut store, _) = store_with(Grant::new("a"));
    for number in 1..SECRETS_MAX as u64 {
        store.rotate("a", &random(number + 1), NOW, NOW + 10).unwrap();
    }
    let before = store.clone();
    let more = store.rotate("a", &random(99), NOW + 9, NOW + 20);
    assert_eq!(more.unwrap_err(), TokenStoreError::TooManySecrets("a".into()));
    assert_eq!(store, before);
    // Expired secrets do not count, and a rotation that ends all of them is always possible.
    store.clone().rotate("a", &random(99), NOW + 10, NOW + 20).unwrap();
    store.rotate("a", &random(99), NOW, NOW).unwrap();
    assert_eq!(store.find("a").unwrap().secrets.len(), 1);
}
