//! Who is let in, and what for.

use jeton_auth::{Access, AuthError, Grant, Quota, Right, Token, TokenError, TokenStore};

use crate::common::{NOW, everything, random, rule};

#[test]
fn the_right_secret_opens_and_no_other() {
    let mut book = TokenStore::new();
    let token = book.add(everything("a"), &random(1), NOW).unwrap();
    let text = token.reveal();
    let access = Access::from_book(&book);
    let pass = access.authenticate(&text, NOW).unwrap();
    assert_eq!((pass.name(), pass.id()), (Some("a"), Some(token.id())));

    // Every character of it matters.
    for at in 6..text.len() {
        if at == 14 {
            continue;
        }
        let mut wrong = text.clone();
        let other = if &text[at..=at] == "0" { "1" } else { "0" };
        wrong.replace_range(at..=at, other);
        assert_eq!(access.authenticate(&wrong, NOW).unwrap_err(), AuthError::Unknown, "character {at}");
    }
    let stranger = Token::from_random(&[9; Token::RANDOM_BYTES]).reveal();
    assert_eq!(access.authenticate(stranger, NOW).unwrap_err(), AuthError::Unknown);
    assert_eq!(access.authenticate("", NOW).unwrap_err(), AuthError::Malformed(TokenError::Prefix));
    assert_eq!(access.anonymous().unwrap_err(), AuthError::NoToken);
    // Nobody's hash is all zeros; an empty book lets nobody in either.
    assert_eq!(
        Access::from_book(&TokenStore::new()).authenticate(&text, NOW).unwrap_err(),
        AuthError::Unknown
    );
}

#[test]
fn who_shows_a_wrong_secret_does_not_hear_that_the_token_has_expired() {
    let mut book = TokenStore::new();
    let token = book.add(Grant { expires: Some(NOW + 1), ..Grant::new("a") }, &random(1), NOW).unwrap();
    let access = Access::from_book(&book);
    let mut wrong = token.reveal();
    let last = if wrong.pop() == Some('0') { '1' } else { '0' };
    wrong.push(last);
    assert_eq!(access.authenticate(wrong, NOW + 1).unwrap_err(), AuthError::Unknown);
    assert_eq!(access.authenticate(token.reveal(), NOW + 1).unwrap_err(), AuthError::Expired);
}

#[test]
fn a_pass_gives_what_its_grant_says() {
    let mut book = TokenStore::new();
    let grant = Grant { tables: vec![rule("ads.*", "add")], ..Grant::new("clicks") };
    let clicks = book.add(grant, &random(1), NOW).unwrap();
    let root = book.add(Grant { server: true, ..Grant::new("root") }, &random(2), NOW).unwrap();
    let access = Access::from_book(&book);
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
fn a_kept_pass_ends_with_its_token() {
    let mut book = TokenStore::new();
    let grant = Grant { expires: Some(NOW + 10), server: true, ..everything("a") };
    let token = book.add(grant, &random(1), NOW).unwrap();
    let access = Access::from_book(&book);
    let pass = access.authenticate(token.reveal(), NOW).unwrap();
    for (now, expected) in
        [(NOW + 9, Ok(())), (NOW + 10, Err(AuthError::Expired)), (u64::MAX, Err(AuthError::Expired))]
    {
        assert_eq!(pass.check(now), expected);
        assert_eq!(pass.may("t", Right::Read, now), expected);
        assert_eq!(pass.may_administer(now), expected);
    }
}

#[test]
fn without_tokens_everybody_may_do_everything() {
    let access = Access::open_to_all();
    assert!(!access.has_tokens());
    for pass in [access.anonymous().unwrap(), access.authenticate("whatever", NOW).unwrap()] {
        assert_eq!((pass.name(), pass.id()), (None, None));
        assert!(Right::ALL.into_iter().all(|right| pass.may("t", right, NOW).is_ok()));
        assert_eq!(pass.may_administer(NOW), Ok(()));
        assert_eq!(pass.check(u64::MAX), Ok(()));
        assert_eq!(pass.spend(NOW, u64::MAX), Ok(()));
        assert_eq!(pass.take(Quota::Counters, u64::MAX), Ok(()));
    }
    assert!(!access.reload_if_changed().unwrap());
    assert_eq!((access.trouble(), access.used()), (None, vec![]));
}

#[test]
fn the_two_kinds_of_no_are_kept_apart() {
    for denied in [
        AuthError::NoToken,
        AuthError::Unknown,
        AuthError::Expired,
        AuthError::Revoked,
        TokenError::Prefix.into(),
    ] {
        assert!(denied.is_about_the_token(), "{denied}");
    }
    for denied in [AuthError::Right(Right::Add), AuthError::Server] {
        assert!(!denied.is_about_the_token(), "{denied}");
    }
}
