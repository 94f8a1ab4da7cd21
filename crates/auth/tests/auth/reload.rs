//! Reload of the token file.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use jeton_auth::{AuthContext, AuthError, Grant, Limits, Quota, Rate, Right, Token};

use crate::common::{NOW, TokenDir, everything, random, rule, with_other_character};

#[test]
fn an_unchanged_file_is_not_reloaded() {
    let (dir, _) = TokenDir::new(&[everything("a")]);
    let access = dir.access();
    for _ in 0..3 {
        assert!(!access.reload_if_changed().unwrap());
    }
    dir.file.edit(|_| Ok(())).unwrap();
    assert!(access.reload_if_changed().unwrap());
    assert!(!access.reload_if_changed().unwrap());
}

#[test]
fn added_tokens_are_accepted_and_removed_ones_revoked() {
    let (dir, tokens) = TokenDir::new(&[everything("a"), everything("b")]);
    let (access, contexts) = dir.authenticated(&tokens);
    let [removed, unchanged] = &contexts[..] else { panic!("two contexts") };
    let added = dir.file.edit(|store| {
        store.remove("a")?;
        store.add(everything("c"), &random(7), NOW)
    });
    let added = added.unwrap();
    assert_eq!(removed.may("t", Right::Add, NOW), Ok(()));
    assert_eq!(access.authenticate(added.reveal(), NOW).unwrap_err(), AuthError::Unknown);

    access.reload_if_changed().unwrap();
    assert_eq!(removed.may("t", Right::Add, NOW), Err(AuthError::Revoked));
    assert_eq!(removed.check(NOW), Err(AuthError::Revoked));
    assert_eq!(removed.may_administer(NOW), Err(AuthError::Revoked));
    assert_eq!(access.authenticate(tokens[0].reveal(), NOW).unwrap_err(), AuthError::Unknown);
    assert_eq!(unchanged.may("t", Right::Add, NOW), Ok(()));
    assert!(access.authenticate(added.reveal(), NOW).is_ok());
}

#[test]
fn a_token_of_the_same_name_is_another_token() {
    let (dir, tokens) = TokenDir::new(&[everything("a")]);
    let (access, old) = dir.authenticated(&tokens);
    let new = dir.file.edit(|store| {
        store.remove("a")?;
        store.add(everything("a"), &random(7), NOW)
    });
    access.reload_if_changed().unwrap();
    assert_eq!(old[0].check(NOW), Err(AuthError::Revoked));
    assert!(access.authenticate(new.unwrap().reveal(), NOW).is_ok());

    // Also if the hash of the id is edited.
    let (dir, tokens) = TokenDir::new(&[everything("a")]);
    let (access, old) = dir.authenticated(&tokens);
    let text = dir.text();
    let at = text.find("\"sha256\": \"").unwrap() + 11;
    fs::write(dir.file.path(), with_other_character(&text, at)).unwrap();
    assert!(access.reload_if_changed().unwrap());
    assert_eq!(old[0].check(NOW), Err(AuthError::Revoked));
    assert_eq!(access.authenticate(tokens[0].reveal(), NOW).unwrap_err(), AuthError::Unknown);
}

#[test]
fn existing_contexts_follow_changed_rights() {
    let (dir, tokens) = TokenDir::new(&[everything("a")]);
    let (access, contexts) = dir.authenticated(&tokens);
    let context = &contexts[0];
    let less = Grant { tables: vec![rule("t", "read")], expires: Some(NOW + 5), ..Grant::new("a") };
    dir.file.edit(|store| store.change(less)).unwrap();
    access.reload_if_changed().unwrap();
    assert_eq!(context.may("t", Right::Read, NOW), Ok(()));
    assert_eq!(context.may("t", Right::Add, NOW), Err(AuthError::Right(Right::Add)));
    assert_eq!(context.may("t", Right::Read, NOW + 5), Err(AuthError::Expired));
    dir.file.edit(|store| store.change(everything("a"))).unwrap();
    access.reload_if_changed().unwrap();
    assert_eq!(context.may("t", Right::Add, NOW + 5), Ok(()));
}

#[test]
fn old_contexts_expire_at_the_time_of_the_rotation() {
    let (dir, tokens) = TokenDir::new(&[everything("a")]);
    let (access, contexts) = dir.authenticated(&tokens);
    let old = &contexts[0];
    let new = dir.file.edit(|store| store.rotate("a", &random(7), NOW, NOW + 10)).unwrap();
    access.reload_if_changed().unwrap();
    let new = access.authenticate(new.reveal(), NOW).unwrap();
    assert_eq!(old.may("t", Right::Add, NOW + 9), Ok(()));
    assert_eq!(old.may("t", Right::Add, NOW + 10), Err(AuthError::Expired));
    assert_eq!(new.may("t", Right::Add, NOW + 10), Ok(()));
    dir.file.edit(|store| store.rotate("a", &random(8), NOW, NOW)).unwrap();
    access.reload_if_changed().unwrap();
    for context in [old, &new] {
        assert_eq!(context.check(NOW), Err(AuthError::Revoked));
    }
}

#[test]
fn neither_reload_nor_rotation_bypasses_a_limit() {
    let operations = Some(Rate { per_second: 1, burst: 5 });
    let limits = Limits { operations, counters: Some(10), tables: None };
    let (dir, tokens) = TokenDir::new(&[Grant { limits, ..everything("a") }]);
    let (access, contexts) = dir.authenticated(&tokens);
    let old = &contexts[0];
    old.spend(NOW, 5).unwrap();
    old.take(Quota::Counters, 10).unwrap();
    let new = dir.file.edit(|store| store.rotate("a", &random(7), NOW, NOW + 10)).unwrap();
    assert!(access.reload_if_changed().unwrap());
    let new = access.authenticate(new.reveal(), NOW).unwrap();
    for context in [old, &new] {
        assert!(context.spend(NOW, 1).is_err());
        assert!(context.take(Quota::Counters, 1).is_err());
    }
    // A higher limit applies at once.
    let limits = Limits { counters: Some(11), ..limits };
    dir.file.edit(|store| store.change(Grant { limits, ..everything("a") })).unwrap();
    access.reload_if_changed().unwrap();
    new.take(Quota::Counters, 1).unwrap();
    assert!(old.take(Quota::Counters, 1).is_err());
}

#[test]
fn an_unreadable_file_leaves_the_old_store_current() {
    let (dir, tokens) = TokenDir::new(&[everything("a")]);
    let (access, contexts) = dir.authenticated(&tokens);
    let context = &contexts[0];
    let good = dir.text();
    let path = dir.file.path();
    let faults: [(&str, &dyn Fn()); 3] = [
        ("line 1, column", &|| fs::write(path, "{").unwrap()),
        ("chmod 600", &|| fs::set_permissions(path, Permissions::from_mode(0o644)).unwrap()),
        ("cannot read", &|| fs::remove_file(path).unwrap()),
    ];
    for (words, damage) in faults {
        damage();
        let error = access.reload_if_changed().expect_err(words).to_string();
        assert!(error.contains("tokens.json") && error.contains(words), "{error}");
        // Returned once, and recorded.
        assert!(!access.reload_if_changed().unwrap());
        assert_eq!(access.trouble(), Some(error));
        assert_eq!(context.may("t", Right::Add, NOW), Ok(()));
        assert!(access.authenticate(tokens[0].reveal(), NOW).is_ok());

        let _was_there = fs::remove_file(path);
        fs::write(path, &good).unwrap();
        fs::set_permissions(path, Permissions::from_mode(0o600)).unwrap();
        assert!(access.reload_if_changed().unwrap());
        assert_eq!(access.trouble(), None);
        assert_eq!(context.may("t", Right::Add, NOW), Ok(()));
    }
}

#[test]
fn an_empty_store_denies_every_client() {
    let (dir, tokens) = TokenDir::new(&[everything("a")]);
    let access = dir.access();
    dir.file.edit(|store| store.remove("a")).unwrap();
    access.reload_if_changed().unwrap();
    assert!(access.has_tokens());
    assert_eq!(access.authenticate(tokens[0].reveal(), NOW).unwrap_err(), AuthError::Unknown);
    assert_eq!(access.anonymous().unwrap_err(), AuthError::NoToken);
}

/// One thread rotates a token and reloads. The others authenticate with an unchanged token and with the
/// latest secret of the rotated one. The unchanged token is always accepted; a secret is never accepted after
/// its revocation.
#[test]
fn concurrent_reloads_revoke_only_replaced_secrets() {
    const ROTATIONS: u64 = 60;
    let (dir, tokens) = TokenDir::new(&[everything("unchanged"), everything("rotated")]);
    let access = dir.access();
    let unchanged = tokens[0].reveal();
    let secret = |number| {
        let random = random(100 + number);
        Token::from_random(&std::array::from_fn(|place| random[place])).reveal()
    };
    let secrets: Vec<String> = (0..=ROTATIONS).map(secret).collect();
    let rotate = |number| {
        dir.file.edit(|store| store.rotate("rotated", &random(100 + number), NOW, NOW)).unwrap();
        assert!(access.reload_if_changed().unwrap(), "the file has changed");
    };
    rotate(0);

    // All secrets before this one are revoked.
    let current = AtomicU64::new(0);
    let done = AtomicBool::new(false);
    let rounds = AtomicU64::new(0);
    let check = || {
        let context = access.authenticate(&unchanged, NOW).unwrap();
        let mut rotated: Vec<(u64, AuthContext)> = Vec::new();
        while !done.load(Ordering::SeqCst) {
            let before = current.load(Ordering::SeqCst);
            for (number, context) in &rotated {
                assert!(*number >= before || context.check(NOW).is_err(), "{number} works after {before}");
            }
            rotated.retain(|(number, _)| *number + 3 > before);
            assert_eq!(context.may("t", Right::Add, NOW), Ok(()));
            assert!(access.authenticate(&unchanged, NOW).is_ok());
            if before > 0 {
                let revoked = access.authenticate(&secrets[before as usize - 1], NOW);
                assert!(matches!(revoked, Err(AuthError::Unknown)), "{revoked:?}");
            }
            if let Ok(context) = access.authenticate(&secrets[before as usize], NOW) {
                rotated.push((before, context));
            }
            rounds.fetch_add(1, Ordering::SeqCst);
        }
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..3).map(|_| scope.spawn(check)).collect();
        for number in 1..=ROTATIONS {
            // A few rounds between rotations, unless a thread has failed.
            let until = rounds.load(Ordering::SeqCst) + 3;
            while rounds.load(Ordering::SeqCst) < until && !threads.iter().any(|thread| thread.is_finished())
            {
                std::thread::yield_now();
            }
            rotate(number);
            current.store(number, Ordering::SeqCst);
        }
        done.store(true, Ordering::SeqCst);
    });
    assert!(rounds.load(Ordering::SeqCst) >= ROTATIONS);
}
