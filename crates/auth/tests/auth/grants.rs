//! Rights, patterns and the limits of a grant.

use jeton_auth::limits::{BURST_MAX, NAME_BYTES_MAX, PATTERN_BYTES_MAX, RATE_MAX, RULES_MAX};
use jeton_auth::{Grant, Limits, Pattern, Rate, Right, Rights, RightsError, Token};
use proptest::prelude::*;

use crate::common::rule;

fn field(grant: &Grant) -> Option<&'static str> {
    grant.check().err().map(|error| error.field)
}

#[test]
fn no_right_includes_another() {
    for right in Right::ALL {
        let grant = Grant { tables: vec![rule("clicks", right.name())], ..Grant::new("a") };
        for other in Right::ALL {
            assert_eq!(grant.allows("clicks", other), right == other, "{right} {other}");
        }
    }
}

#[test]
fn the_rights_of_all_matching_rules_add_up() {
    let grant = Grant { tables: vec![rule("ads.*", "add"), rule("ads.eu", "read")], ..Grant::new("a") };
    assert!(grant.allows("ads.eu", Right::Add) && grant.allows("ads.eu", Right::Read));
    assert!(grant.allows("ads.us", Right::Add) && !grant.allows("ads.us", Right::Read));
    assert!(!grant.allows("ads.eu", Right::Admin));
    assert!(!grant.allows("ads", Right::Add));
}

#[test]
fn the_server_right_grants_no_right_in_tables() {
    let server = Grant { server: true, ..Grant::new("a") };
    assert!(Right::ALL.into_iter().all(|right| !server.allows("clicks", right)));
}

#[test]
fn patterns_are_names_prefixes_or_all() {
    let pattern = |text: &str| text.parse::<Pattern>().unwrap();
    assert!(pattern("clicks").matches("clicks"));
    assert!(!pattern("clicks").matches("clicks2") && !pattern("clicks").matches("click"));
    assert!(pattern("cli*").matches("cli") && pattern("cli*").matches("clicks"));
    assert!(!pattern("cli*").matches("cl") && !pattern("cli*").matches("a.cli"));
    assert!(pattern("*").matches("anything") && pattern("*").matches(""));

    let longest = "a".repeat(PATTERN_BYTES_MAX);
    for good in [&*longest, &(longest.clone() + "*"), "0", "a.b_c-d", "jeton_requests_total"] {
        assert_eq!(pattern(good).to_string(), good);
    }
    let token = Token::from_random(&[1; Token::RANDOM_BYTES]).reveal();
    let too_long = longest.clone() + "a";
    let short = ["", "**", "a*b", "*a", "A", "ü", "a b", "_a", ".a", "-*"];
    for bad in short.into_iter().chain([&*too_long, &(too_long.clone() + "*"), &token]) {
        assert!(bad.parse::<Pattern>().is_err(), "{bad}");
    }
}

#[test]
fn rights_parse_from_words() {
    let rights = |text: &str| text.parse::<Rights>();
    assert_eq!(rights("admin read"), Ok(Rights::NONE.with(Right::Read).with(Right::Admin)));
    assert_eq!(rights("admin read").unwrap().to_string(), "read admin");
    assert_eq!(rights("read add admin"), Ok(Rights::ALL));
    assert_eq!(rights(" "), Err(RightsError::Empty));
    for words in ["read write", "READ", "read,add"] {
        assert_eq!(rights(words), Err(RightsError::Word));
    }
    assert_eq!(rights("add read add"), Err(RightsError::Twice(Right::Add)));
}

#[test]
fn names_have_limits() {
    let longest = "n".repeat(NAME_BYTES_MAX);
    for good in [&*longest, "a", "Ad-clicks_2.eu@web", "jeton_producer_eu"] {
        assert_eq!(field(&Grant::new(good)), None, "{good}");
    }
    let token = Token::from_random(&[1; Token::RANDOM_BYTES]).reveal();
    for bad in ["", &(longest.clone() + "n"), "a b", "a\n", "ü", "a\"", &token] {
        assert_eq!(field(&Grant::new(bad)), Some("name"), "{bad}");
    }
}

#[test]
fn rules_and_rates_have_limits() {
    let rules = |number| Grant { tables: vec![rule("*", "add"); number], ..Grant::new("a") };
    assert_eq!(field(&rules(RULES_MAX)), None);
    assert_eq!(field(&rules(RULES_MAX + 1)), Some("tables"));
    let mut idle = rules(1);
    idle.tables[0].rights = Rights::NONE;
    assert_eq!(field(&idle), Some("tables"));

    for (per_second, burst, wrong) in [
        (1, 1, None),
        (RATE_MAX, BURST_MAX, None),
        (0, 1, Some("operations_per_second")),
        (RATE_MAX + 1, 1, Some("operations_per_second")),
        (1, 0, Some("burst")),
        (1, BURST_MAX + 1, Some("burst")),
    ] {
        let limits = Limits { operations: Some(Rate { per_second, burst }), ..Limits::default() };
        assert_eq!(field(&Grant { limits, ..Grant::new("a") }), wrong, "{per_second}, {burst}");
    }
}

proptest! {
    #[test]
    fn patterns_match_names_and_prefixes(
        start in "[a-z0-9][a-z0-9._-]{0,8}",
        rest in "[a-z0-9._-]{0,8}",
        other in ".{0,10}",
    ) {
        let exact: Pattern = start.parse().unwrap();
        let prefix: Pattern = format!("{start}*").parse().unwrap();
        let longer = format!("{start}{rest}");
        prop_assert!(prefix.matches(&longer));
        prop_assert_eq!(exact.matches(&longer), rest.is_empty());
        prop_assert_eq!(exact.matches(&other), other == start);
        prop_assert_eq!(prefix.matches(&other), other.starts_with(&start));
    }
}
