//! A new book while the server runs.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use jeton_auth::{Access, AuthError, FileError, Grant, Limits, Quota, Rate, Right};

use crate::common::{Home, NOW, everything, random, rule};

#[test]
fn nothing_changed_is_nothing_done() {
    let (home, _) = Home::new(&[everything("a")]);
    let access = home.access();
    for _ in 0..3 {
        assert!(!access.reload_if_changed().unwrap());
    }
    home.file.edit(|_| Ok(())).unwrap();
    assert!(access.reload_if_changed().unwrap());
    assert!(!access.reload_if_changed().unwrap());
}

#[test]
fn an_added_token_opens_and_a_removed_one_ends_its_passes() {
    let (home, tokens) = Home::new(&[everything("a"), everything("b")]);
    let access = home.access();
    let gone = access.authenticate(tokens[0].reveal(), NOW).unwrap();
    let stays = access.authenticate(tokens[1].reveal(), NOW).unwrap();
    let added = home.file.edit(|book| {
        book.remove("a")?;
        book.add(everything("c"), &random(7), NOW)
    });
    let added = added.unwrap();
    assert_eq!(gone.may("t", Right::Add, NOW), Ok(()));
    assert_eq!(access.authenticate(added.reveal(), NOW).unwrap_err(), AuthError::Unknown);

    access.reload_if_changed().unwrap();
    assert_eq!(gone.may("t", Right::Add, NOW), Err(AuthError::Revoked));
    assert_eq!(gone.check(NOW), Err(AuthError::Revoked));
    assert_eq!(gone.may_administer(NOW), Err(AuthError::Revoked));
    assert_eq!(access.authenticate(tokens[0].reveal(), NOW).unwrap_err(), AuthError::Unknown);
    assert_eq!(stays.may("t", Right::Add, NOW), Ok(()));
    assert!(access.authenticate(added.reveal(), NOW).is_ok());
}

#[test]
fn a_token_of_the_same_name_is_another_token() {
    let (home, tokens) = Home::new(&[everything("a")]);
    let access = home.access();
    let old = access.authenticate(tokens[0].reveal(), NOW).unwrap();
    let new = home.file.edit(|book| {
        book.remove("a")?;
        book.add(everything("a"), &random(7), NOW)
    });
    access.reload_if_changed().unwrap();
    assert_eq!(old.check(NOW), Err(AuthError::Revoked));
    assert!(access.authenticate(new.unwrap().reveal(), NOW).is_ok());

    // Also if somebody gives the id another hash by hand.
    let (home, tokens) = Home::new(&[everything("a")]);
    let access = home.access();
    let old = access.authenticate(tokens[0].reveal(), NOW).unwrap();
    let text = home.text();
    let at = text.find("\"sha256\": \"").unwrap() + 11;
    let other = if &text[at..=at] == "0" { "1" } else { "0" };
    fs::write(home.file.path(), [&text[..at], other, &text[at + 1..]].concat()).unwrap();
    assert!(access.reload_if_changed().unwrap());
    assert_eq!(old.check(NOW), Err(AuthError::Revoked));
    assert_eq!(access.authenticate(tokens[0].reveal(), NOW).unwrap_err(), AuthError::Unknown);
}

#[test]
fn rights_follow_the_book_on_passes_that_are_kept() {
    let (home, tokens) = Home::new(&[everything("a")]);
    let access = home.access();
    let pass = access.authenticate(tokens[0].reveal(), NOW).unwrap();
    let less = Grant { tables: vec![rule("t", "read")], expires: Some(NOW + 5), ..Grant::new("a") };
    home.file.edit(|book| book.change(less)).unwrap();
    access.reload_if_changed().unwrap();
    assert_eq!(pass.may("t", Right::Read, NOW), Ok(()));
    assert_eq!(pass.may("t", Right::Add, NOW), Err(AuthError::Right(Right::Add)));
    assert_eq!(pass.may("t", Right::Read, NOW + 5), Err(AuthError::Expired));
    home.file.edit(|book| book.change(everything("a"))).unwrap();
    access.reload_if_changed().unwrap();
    assert_eq!(pass.may("t", Right::Add, NOW + 5), Ok(()));
}

#[test]
fn a_rotation_ends_old_passes_at_its_moment() {
    let (home, tokens) = Home::new(&[everything("a")]);
    let access = home.access();
    let old = access.authenticate(tokens[0].reveal(), NOW).unwrap();
    let new = home.file.edit(|book| book.rotate("a", &random(7), NOW, NOW + 10)).unwrap();
    access.reload_if_changed().unwrap();
    let new = access.authenticate(new.reveal(), NOW).unwrap();
    assert_eq!(old.may("t", Right::Add, NOW + 9), Ok(()));
    assert_eq!(old.may("t", Right::Add, NOW + 10), Err(AuthError::Expired));
    assert_eq!(new.may("t", Right::Add, NOW + 10), Ok(()));
    home.file.edit(|book| book.rotate("a", &random(8), NOW, NOW)).unwrap();
    access.reload_if_changed().unwrap();
    for pass in [old, new] {
        assert_eq!(pass.check(NOW), Err(AuthError::Revoked));
    }
}

#[test]
fn neither_reload_nor_rotation_is_a_way_around_a_limit() {
    let operations = Some(Rate { per_second: 1, burst: 5 });
    let limits = Limits { operations, counters: Some(10), tables: None };
    let (home, tokens) = Home::new(&[Grant { limits, ..everything("a") }]);
    let access = home.access();
    let old = access.authenticate(tokens[0].reveal(), NOW).unwrap();
    old.spend(NOW, 5).unwrap();
    old.take(Quota::Counters, 10).unwrap();
    let new = home.file.edit(|book| book.rotate("a", &random(7), NOW, NOW + 10)).unwrap();
    assert!(access.reload_if_changed().unwrap());
    let new = access.authenticate(new.reveal(), NOW).unwrap();
    for pass in [&old, &new] {
        assert!(pass.spend(NOW, 1).is_err());
        assert!(pass.take(Quota::Counters, 1).is_err());
    }
    // And a higher limit counts at once.
    let limits = Limits { counters: Some(11), ..limits };
    home.file.edit(|book| book.change(Grant { limits, ..everything("a") })).unwrap();
    access.reload_if_changed().unwrap();
    new.take(Quota::Counters, 1).unwrap();
    assert!(old.take(Quota::Counters, 1).is_err());
}

#[test]
fn a_book_that_cannot_be_read_leaves_the_old_one_in_force() {
    let (home, tokens) = Home::new(&[everything("a")]);
    let access = home.access();
    let pass = access.authenticate(tokens[0].reveal(), NOW).unwrap();
    let good = home.text();
    let path = home.file.path();
    type Spoil<'a> = (&'a str, &'a dyn Fn());
    let spoils: [Spoil; 3] = [
        ("line 1, column", &|| fs::write(path, "{").unwrap()),
        ("chmod 600", &|| fs::set_permissions(path, Permissions::from_mode(0o644)).unwrap()),
        ("cannot read", &|| fs::remove_file(path).unwrap()),
    ];
    for (words, spoil) in spoils {
        spoil();
        let error = access.reload_if_changed().expect_err(words).to_string();
        assert!(error.contains("tokens.json") && error.contains(words), "{error}");
        // Told once, and kept in mind.
        assert!(!access.reload_if_changed().unwrap());
        assert_eq!(access.trouble(), Some(error));
        assert_eq!(pass.may("t", Right::Add, NOW), Ok(()));
        assert!(access.authenticate(tokens[0].reveal(), NOW).is_ok());

        let _was_there = fs::remove_file(path);
        fs::write(path, &good).unwrap();
        fs::set_permissions(path, Permissions::from_mode(0o600)).unwrap();
        assert!(access.reload_if_changed().unwrap());
        assert_eq!(access.trouble(), None);
        assert_eq!(pass.may("t", Right::Add, NOW), Ok(()));
    }
}

#[test]
fn an_empty_book_lets_nobody_in() {
    let (home, tokens) = Home::new(&[everything("a")]);
    let access = home.access();
    home.file.edit(|book| book.remove("a")).unwrap();
    access.reload_if_changed().unwrap();
    assert!(access.has_tokens());
    assert_eq!(access.authenticate(tokens[0].reveal(), NOW).unwrap_err(), AuthError::Unknown);
    assert_eq!(access.anonymous().unwrap_err(), AuthError::NoToken);
}

/// One thread rotates a token and reloads. The others show the token that stays, and the last secret that they were told of,
/// and note what must never be: the first refused, or a secret taken that was withdrawn before they asked.
#[test]
fn reloading_disturbs_nobody_and_spares_nobody() {
    const ROTATIONS: u64 = 60;
    let (home, tokens) = Home::new(&[everything("stays"), everything("turns")]);
    let access = home.access();
    let stays = tokens[0].reveal();
    let secrets: Vec<String> = (0..=ROTATIONS).map(secret_of_rotation).collect();
    home.file.edit(|book| book.rotate("turns", &random(100), NOW, NOW)).unwrap();
    access.reload_if_changed().unwrap();

    // All secrets before this one are withdrawn.
    let current = AtomicU64::new(0);
    let done = AtomicBool::new(false);
    let asked = AtomicU64::new(0);
    let ask = || {
        let kept = access.authenticate(&stays, NOW).unwrap();
        let mut turning = Vec::new();
        while !done.load(Ordering::SeqCst) {
            let before = current.load(Ordering::SeqCst);
            for (number, pass) in &turning {
                let pass: &jeton_auth::AuthContext = pass;
                assert!(*number >= before || pass.check(NOW).is_err(), "{number} works after {before}");
            }
            turning.retain(|(number, _)| *number + 3 > before);
            assert_eq!(kept.may("t", Right::Add, NOW), Ok(()));
            assert!(access.authenticate(&stays, NOW).is_ok());
            if before > 0 {
                let withdrawn = access.authenticate(&secrets[before as usize - 1], NOW);
                assert!(matches!(withdrawn, Err(AuthError::Unknown)), "{withdrawn:?}");
            }
            if let Ok(pass) = access.authenticate(&secrets[before as usize], NOW) {
                turning.push((before, pass));
            }
            asked.fetch_add(1, Ordering::SeqCst);
        }
    };
    std::thread::scope(|scope| {
        let askers: Vec<_> = (0..3).map(|_| scope.spawn(ask)).collect();
        for number in 1..=ROTATIONS {
            // Rounds of the others between rotations, unless one of them has found something.
            let until = asked.load(Ordering::SeqCst) + 3;
            while asked.load(Ordering::SeqCst) < until && !askers.iter().any(|asker| asker.is_finished()) {
                std::thread::yield_now();
            }
            home.file.edit(|book| book.rotate("turns", &random(100 + number), NOW, NOW)).unwrap();
            reload(&access).unwrap();
            current.store(number, Ordering::SeqCst);
        }
        done.store(true, Ordering::SeqCst);
    });
    assert!(asked.load(Ordering::SeqCst) >= ROTATIONS);
}

fn secret_of_rotation(number: u64) -> String {
    let random = random(100 + number);
    jeton_auth::Token::from_random(&std::array::from_fn(|place| random[place])).reveal()
}

fn reload(access: &Access) -> Result<(), FileError> {
    assert!(access.reload_if_changed()?, "the file is another");
    Ok(())
}
