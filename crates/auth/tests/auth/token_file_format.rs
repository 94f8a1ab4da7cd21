//! The JSON format of the token file.

use jeton_auth::{Grant, Limits, Rate, TableRule, Token, TokenStore};
use proptest::prelude::*;

use crate::common::{NOW, random, rule};

fn full_store() -> TokenStore {
    let mut store = TokenStore::new();
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
    store.add(grant, &random(1), NOW).unwrap();
    store.add(Grant { server: true, ..Grant::new("root") }, &random(2), NOW).unwrap();
    store.rotate("root", &random(3), NOW + 1, NOW + 2).unwrap();
    store
}

/// Position and reason of the error after this replacement in the full store.
fn broken(from: &str, to: &str) -> (String, String) {
    let text = full_store().to_json();
    assert!(text.contains(from), "{from} in {text}");
    let error = TokenStore::from_json(text.replacen(from, to, 1).as_bytes()).expect_err(to);
    (error.place, error.why)
}

#[test]
fn the_format_is_stable() {
    let expected = include_str!("tokens.json");
    assert_eq!(full_store().to_json(), expected);
    assert_eq!(TokenStore::from_json(expected.as_bytes()).unwrap(), full_store());
}

#[test]
fn missing_limits_are_unlimited_and_the_burst_one_second() {
    let limits = "\"operations_per_second\": 500,\n        \"burst\": 1000,\n        \"tables\": 2,\n        \"counters\": 1000000";
    let text = full_store().to_json();
    assert!(text.contains(limits));
    let read = |with: &str| {
        TokenStore::from_json(text.replace(limits, with).as_bytes()).unwrap().entries()[0].grant.limits
    };
    assert_eq!(read(""), Limits::default());
    let rate = Some(Rate { per_second: 7, burst: 7 });
    assert_eq!(read("\"operations_per_second\": 7"), Limits { operations: rate, ..Limits::default() });
}

#[test]
fn errors_name_the_position() {
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
fn malformed_secrets_are_errors_with_a_position() {
    let text = full_store().to_json();
    let value = |field: &str, number: usize| {
        let after = text.split(&format!("\"{field}\": \"")).nth(number + 1).unwrap();
        after.split('"').next().unwrap().to_owned()
    };
    let place = |field: &str| format!("tokens[0] (\"clicks\").secrets[0].{field}");
    for field in ["id", "salt", "sha256"] {
        let good = value(field, 0);
        let (mistyped, longer) = ("u".to_owned() + &good[1..], good.clone() + "0");
        // A value of digits only has no upper case.
        let upper = Some(good.to_uppercase()).filter(|upper| *upper != good);
        let others = [good[1..].to_owned(), mistyped, longer, String::new()];
        for bad in others.into_iter().chain(upper) {
            assert_eq!(broken(&format!("\"{good}\""), &format!("\"{bad}\"")).0, place(field), "{bad}");
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
fn a_truncated_file_is_an_error() {
    let text = full_store().to_json();
    // The last two bytes are the bracket and the end of the line.
    for end in 0..text.len() - 2 {
        let error = TokenStore::from_json(&text.as_bytes()[..end]).expect_err("cut off");
        assert!(error.place.starts_with("line "), "{error}");
    }
}

#[test]
fn errors_do_not_repeat_a_misplaced_token() {
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

fn any_rules() -> impl Strategy<Value = Vec<TableRule>> {
    let any_rule = ("[a-z0-9][a-z0-9._-]{0,63}[*]?", "read|add|admin|read add");
    prop::collection::vec(any_rule.prop_map(|(pattern, rights)| rule(&pattern, &rights)), 0..5)
}

fn any_limits() -> impl Strategy<Value = Limits> {
    let rate = (1..=1_u32 << 16, 1..=1_u32 << 16).prop_map(|(per_second, burst)| Rate { per_second, burst });
    (prop::option::of(rate), any::<Option<u64>>(), any::<Option<u64>>())
        .prop_map(|(operations, tables, counters)| Limits { operations, tables, counters })
}

proptest! {
    #[test]
    fn stores_round_trip(
        grants in prop::collection::btree_map("[a-zA-Z0-9._@-]{1,64}", (any_rules(), any_limits(), any::<(bool, Option<u64>)>()), 0..6)
    ) {
        let mut store = TokenStore::new();
        for ((name, (tables, limits, (server, expires))), number) in grants.into_iter().zip(0..) {
            let expires = expires.map(|expires| expires.max(1));
            store.add(Grant { name, tables, server, expires, limits }, &random(number), 0).unwrap();
        }
        prop_assert_eq!(TokenStore::from_json(store.to_json().as_bytes()).unwrap(), store);
    }

    #[test]
    fn a_damaged_byte_never_panics(at in 0_usize..2000, byte: u8) {
        let mut text = full_store().to_json().into_bytes();
        let at = at % text.len();
        text[at] = byte;
        if let Err(error) = TokenStore::from_json(&text) {
            prop_assert!(!error.place.is_empty() && !error.why.is_empty());
        }
    }
}
