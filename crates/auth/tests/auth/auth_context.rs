//! Authentication, and the rights of a context.

use jeton_auth::{Access, AuthError, Grant, Quota, Right, Token, TokenError, TokenStore};

use crate::common::{NOW, everything, random, rule, store_with, with_other_character};

#[test]
fn only_the_right_secret_authenticates() {
    let (store, token) = store_with(everything("a"));
    let text = token.reveal();
    let access = Access::from_store(&store);
    let context = access.authenticate(&text, NOW).unwrap();
    assert_eq!((context.name(), context.id()), (Some("a"), Some(token.id())));

    // All characters of id and secret, without the separator.
    for at in (6..text.len()).filter(|at| *at != 14) {
        let wrong = with_other_character(&text, at);
        assert_eq!(access.authenticate(&wrong, NOW).unwrap_err(), AuthError::Unknown, "character {at}");
    }
    let unknown = Token::from_random(&[9; Token::RANDOM_BYTES]).reveal();
    assert_eq!(access.authenticate(unknown, NOW).unwrap_err(), AuthError::Unknown);
    assert_eq!(access.authenticate("", NOW).unwrap_err(), AuthError::Malformed(TokenError::Prefix));
    assert_eq!(access.anonymous().unwrap_err(), AuthError::NoToken);
    let empty = Access::from_store(&TokenStore::new());
    assert_eq!(empty.authenticate(&text, NOW).unwrap_err(), AuthError::Unknown);
}

#[test]
fn a_wrong_secret_does_not_reveal_the_expiry() {
    let (store, token) = store_with(Grant { expires: Some(NOW + 1), ..Grant::new("a") });
    let access = Access::from_store(&store);
    let wrong = with_other_character(&token.reveal(), 46);
    assert_eq!(access.authenticate(wrong, NOW + 1).unwrap_err(), AuthError::Unknown);
    assert_eq!(access.authenticate(token.reveal(), NOW + 1).unwrap_err(), AuthError::Expired);
}

#[test]
fn a_context_has_the_rights_of_its_grant() {
    let grant = Grant { tables: vec![rule("ads.*", "add")], ..Grant::new("clicks") };
    let (mut store, clicks) = store_with(grant);
    let root = store.add(Grant { server: true, ..Grant::new("root") }, &random(2), NOW).unwrap();
    let access = Access::from_store(&store);
    let clicks = access.authenticate(clicks.reveal(), NOW).unwrap();
    let root = access.authenticate(root.reveal(), NOW).unwrap();

    assert_eq!(clicks.may("ads.eu", Right::Add, NOW), Ok(()));
    assert_eq!(clicks.may("ads.eu", Right::Read, NOW), Err(AuthError::Right(Right::Read)));
    assert_eq!(clicks.may("bills", Right::Add, NOW), Err(AuthError::Right(Right::Add)));
    assert_eq!(clicks.may_administer(NOW), Err(AuthError::Server));
    assert_eq!(root.may_administer(NOW), Ok(()));
    assert_eq!(root.may("ads.eu", Right::Add, NOW), Err(AuthError::Right(Right::Add)));
    assert_eq!(root.check(NOW), Ok(()));
}

#[test]
fn a_context_expires_with_its_token() {
    let (store, token) = store_with(Grant { expires: Some(NOW + 10), server: true, ..everything("a") });
    let context = Access::from_store(&store).authenticate(token.reveal(), NOW).unwrap();
    let expired = Err(AuthError::Expired);
    for (now, expected) in [(NOW + 9, Ok(())), (NOW + 10, expired), (u64::MAX, expired)] {
        assert_eq!(context.check(now), expected);
        assert_eq!(context.may("t", Right::Read, now), expected);
        assert_eq!(context.may_administer(now), expected);
    }
}

#[test]
fn without_tokens_every_client_has_every_right() {
    let access = Access::open_to_all();
    assert!(!access.has_tokens());
    for context in [access.anonymous().unwrap(), access.authenticate("whatever", NOW).unwrap()] {
        assert_eq!((context.name(), context.id()), (None, None));
        assert!(Right::ALL.into_iter().all(|right| context.may("t", right, NOW).is_ok()));
        assert_eq!(context.may_administer(NOW), Ok(()));
        assert_eq!(context.check(u64::MAX), Ok(()));
        assert_eq!(context.spend(NOW, u64::MAX), Ok(()));
        assert_eq!(context.take(Quota::Counters, u64::MAX), Ok(()));
    }
    assert!(!access.reload_if_changed().unwrap());
    assert_eq!((access.trouble(), access.used()), (None, vec![]));
}

#[test]
fn errors_of_tokens_and_of_rights_are_distinguished() {
    let errors = [AuthError::NoToken, AuthError::Unknown, AuthError::Expired, AuthError::Revoked];
    for denied in errors.into_iter().chain([TokenError::Prefix.into()]) {
        assert!(denied.is_about_the_token(), "{denied}");
    }
    for denied in [AuthError::Right(Right::Add), AuthError::Server] {
        assert!(!denied.is_about_the_token(), "{denied}");
    }
}
