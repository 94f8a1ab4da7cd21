//! The book as text.

use jeton_auth::{Grant, Limits, Rate, Token, TokenStore};
use proptest::prelude::*;

use crate::common::{NOW, random, rule};

fn full_book() -> TokenStore {
    let mut book = TokenStore::new();
    let grant = Grant {
        tables: vec![rule("ads.*", "add"), rule("ads.eu", "read admin")],
        expires: Some(NOW + 1000),
        limits: Limits {
            operations: Some(Rate { per_second: 500, burst: 1000 }),
            tables: Some(2),
            counters: Some(1_000_000),
        },
        ..Grant::new("clicks")
    };
    book.add(grant, &random(1), NOW).unwrap();
    book.add(Grant { server: true, ..Grant::new("root") }, &random(2), NOW).unwrap();
    book.rotate("root", &random(3), NOW + 1, NOW + 2).unwrap();
    book
}

/// What is wrong with the full book after this replacement.
fn broken(from: &str, to: &str) -> (String, String) {
    let text = full_book().to_json();
    assert!(text.contains(from), "{from} in {text}");
    let error = TokenStore::from_json(text.replacen(from, to, 1).as_bytes()).expect_err(to);
    (error.place, error.why)
}

#[test]
fn the_text_is_the_one_that_is_written_down() {
    let expected = include_str!("tokens.json");
    assert_eq!(full_book().to_json(), expected);
    assert_eq!(TokenStore::from_json(expected.as_bytes()).unwrap(), full_book());
}

#[test]
fn what_is_left_out_is_without_limit_and_the_burst_is_a_second() {
    let limits = "\"operations_per_second\": 500,\n        \"burst\": 1000,\n        \"tables\": 2,\n        \"counters\": 1000000";
    let text = full_book().to_json();
    assert!(text.contains(limits));
    let read = |with: &str| {
        TokenStore::from_json(text.replace(limits, with).as_bytes()).unwrap().entries()[0].grant.limits
    };
    assert_eq!(read(""), Limits::default());
    let rate = Some(Rate { per_second: 7, burst: 7 });
    assert_eq!(read("\"operations_per_second\": 7"), Limits { operations: rate, ..Limits::default() });
}

#[test]
fn errors_name_the_place() {
    let cases = [
        ("\"version\": 1", "\"version\": 2", "version"),
        ("\"version\": 1,", "", "line 65, column 1"),
        ("\"ads.*\"", "\"*ads\"", "tokens[0] (\"clicks\").tables[0].pattern"),
        ("\"read admin\"", "\"read write\"", "tokens[0] (\"clicks\").tables[1].rights"),
        ("\"operations_per_second\": 500,", "", "tokens[0] (\"clicks\").limits.burst"),
        ("\"operations_per_second\": 500,", "\"operations_per_second\": 0,", "tokens[0] (\"clicks\")"),
        ("\"clicks\"", "\"root\"", "tokens[1] (\"root\")"),
        ("\"clicks\"", "\"cl icks\"", "tokens[0] (\"cl icks\")"),
        ("\"expires_ms\"", "\"expire_ms\"", "line 24, column 17"),
        ("\"server\": false", "\"server\": 0", "line 16, column 17"),
        ("\"server\": false", "\"server\": false, \"server\": true", "line 16, column 31"),
        ("\"counters\": 1000000", "\"counters\": -1", "line 21, column 22"),
    ];
    for (from, to, place) in cases {
        let (found, why) = broken(from, to);
        assert_eq!(found, place, "{to}: {why}");
    }
}

#[test]
fn tampered_secrets_are_errors_with_a_place() {
    let text = full_book().to_json();
    let value = |field: &str, number: usize| {
        let after = text.split(&format!("\"{field}\": \"")).nth(number + 1).unwrap();
        after.split('"').next().unwrap().to_owned()
    };
    let place = |field: &str| format!("tokens[0] (\"clicks\").secrets[0].{field}");
    for field in ["id", "salt", "sha256"] {
        let good = value(field, 0);
        for bad in [
            good[1..].to_owned(),
            good.to_uppercase(),
            "u".to_owned() + &good[1..],
            good.clone() + "0",
            String::new(),
        ] {
            // A text of digits alone has no capitals.
            if bad != good {
                assert_eq!(broken(&format!("\"{good}\""), &format!("\"{bad}\"")).0, place(field), "{bad}");
            }
        }
    }
    // The same id twice, in one token and in two.
    let (place, why) = broken(&value("id", 2), &value("id", 1));
    assert_eq!(place, "tokens[1] (\"root\")");
    assert!(why.contains("twice"), "{why}");
    assert_eq!(broken(&value("id", 1), &value("id", 0)).0, "tokens[1] (\"root\")");

    // No secrets, and too many.
    let begin = text.find("\"secrets\": [").unwrap();
    let end = begin + text[begin..].find(']').unwrap() + 1;
    let (place, why) = broken(&text[begin..end], "\"secrets\": []");
    assert_eq!(place, "tokens[0] (\"clicks\")");
    assert!(why.contains("there must be 1 to 4"), "{why}");
    let one = text[begin + 12..end - 1].trim();
    let five = format!("\"secrets\": [{}]", [one; 5].join(","));
    assert!(broken(&text[begin..end], &five).1.contains("there must be 1 to 4"));
}

#[test]
fn a_text_cut_off_anywhere_is_an_error() {
    let text = full_book().to_json();
    // The last two bytes are the bracket and the end of the line.
    for end in 0..text.len() - 2 {
        let error = TokenStore::from_json(&text.as_bytes()[..end]).expect_err("cut off");
        assert!(error.place.starts_with("line "), "{error}");
    }
}

#[test]
fn a_token_in_the_wrong_place_is_not_repeated() {
    let token = Token::from_random(&[7; Token::RANDOM_BYTES]).reveal();
    let cases = [
        ("\"clicks\"", format!("\"{token}\"")),
        ("\"ads.*\"", format!("\"{token}\"")),
        ("\"read admin\"", format!("\"{token}\"")),
        ("\"server\": false", format!("\"server\": \"{token}\"")),
        ("\"server\": false", format!("\"{token}\": false")),
        ("\"version\": 1", format!("\"version\": \"{token}\"")),
    ];
    for (from, to) in cases {
        let (place, why) = broken(from, &to);
        assert!(!format!("{place} {why}").contains(&token[15..]), "{place}: {why}");
    }
}

proptest! {
    #[test]
    fn what_is_written_reads_back(
        grants in prop::collection::btree_map(
            "[a-zA-Z0-9._@-]{1,64}",
            (prop::collection::vec(("[a-z0-9][a-z0-9._-]{0,63}[*]?", "read|add|admin|read add"), 0..5), any::<bool>(),
             any::<Option<u64>>(), any::<Option<(u16, u16)>>(), any::<Option<u64>>(), any::<Option<u64>>()),
            0..6,
        )
    ) {
        let mut book = TokenStore::new();
        for ((name, (rules, server, expires, rate, tables, counters)), number) in grants.into_iter().zip(0..) {
            let operations = rate.map(|(rate, burst)| {
                Rate { per_second: u32::from(rate) + 1, burst: u32::from(burst) + 1 }
            });
            let grant = Grant {
                name,
                tables: rules.iter().map(|(pattern, rights)| rule(pattern, rights)).collect(),
                server,
                expires: expires.map(|expires| expires.max(1)),
                limits: Limits { operations, tables, counters },
            };
            book.add(grant, &random(number), 0).unwrap();
        }
        prop_assert_eq!(TokenStore::from_json(book.to_json().as_bytes()).unwrap(), book);
    }

    #[test]
    fn no_text_breaks_the_reader(at in 0_usize..2000, byte: u8) {
        let mut text = full_book().to_json().into_bytes();
        let at = at % text.len();
        text[at] = byte;
        // One byte changed: another book, or an error with a place.
        if let Err(error) = TokenStore::from_json(&text) {
            prop_assert!(!error.place.is_empty() && !error.why.is_empty());
        }
    }
}
