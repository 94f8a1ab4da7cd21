//! The memory of a parser is bounded by the bytes received, not by the lengths announced.

#[path = "../../../testing/testkit/counting_allocator.rs"]
mod counting_allocator;

use counting_allocator::counted;
use jeton_resp::reply_parser::{self, Value};
use jeton_resp::request_parser::{self, Args};
use proptest::prelude::*;

/// Bytes that a parser may allocate for any input.
const BASE: usize = 16 << 10;

/// Parses all requests and drops each at once, as a server does.
fn parse_requests(input: &[u8]) -> usize {
    let (_, peak) = counted(|| {
        let mut parser = request_parser::Parser::new(request_parser::Limits::default());
        let (mut args, mut at) = (Args::default(), 0);
        while let Ok(request_parser::Progress::Command { consumed, .. }) =
            parser.next(&input[at..], &mut args)
        {
            at += consumed;
        }
    });
    peak
}

fn parse_replies(input: &[u8]) -> usize {
    let (_, peak) = counted(|| {
        let mut parser = reply_parser::Parser::new(reply_parser::Limits::default());
        let mut at = 0;
        while let Ok(reply_parser::Progress::Value { consumed, .. }) = parser.next(&input[at..]) {
            at += consumed;
        }
    });
    peak
}

/// Panics if a parser allocates more for an input than `requests` or `replies` allows.
fn check(input: &[u8], requests: usize, replies: usize) {
    for (peak, bound) in [(parse_requests(input), requests), (parse_replies(input), replies)] {
        assert!(peak <= bound, "{} bytes for {:.60}", peak, input.escape_ascii().to_string());
    }
}

/// An argument takes a span of 8 bytes and at least 6 bytes of input. A growing vector exists twice with room
/// for as much again; parser and caller have one each. A value takes at least 3 bytes of input; vectors grow
/// in the same way.
fn check_any(input: &[u8]) {
    check(input, BASE + input.len() * 8, BASE + input.len() * size_of::<Value>());
}

#[test]
fn announced_lengths_allocate_nothing() {
    for input in [
        "*1048576\r\n",
        "*2\r\n$524288\r\n",
        "*1048576\r\n$1\r\na\r\n$524288\r\nabc",
        "\"",
        "\r\n*0\r\n",
        "$16777216\r\nabc",
        "=16777216\r\n",
        "+abc",
        "%524288\r\n",
        "|524288\r\n",
        "*2\r\n~1000000\r\n",
    ] {
        check(input.as_bytes(), 1024, 4096);
    }
    check_any("*30000\r\n".repeat(32).as_bytes());
}

#[test]
fn buffers_are_reused() {
    for input in [
        "JGET \"abc\"\r\n",
        "*2\r\n$4\r\nJGET\r\n$3\r\nabc\r\n",
        "\r\n",
        "*0\r\n",
        "*2\r\n:1\r\n$3\r\nabc\r\n",
        "|1\r\n+a\r\n+b\r\n:1\r\n",
    ] {
        check(input.repeat(10_000).as_bytes(), 1024, 1024);
    }
}

#[test]
fn smallest_elements_stay_within_the_bound() {
    for (header, element, times) in [
        ("*1000000\r\n", "$0\r\n\r\n", 1_000_000),
        ("", "a ", 30_000),
        ("*1000000\r\n", "_\r\n", 1_000_000),
        ("%500000\r\n", "+\r\n", 1_000_000),
        ("*1000000\r\n", "*0\r\n", 1_000_000),
        ("*500000\r\n", "*1\r\n_\r\n", 500_000),
    ] {
        check_any(format!("{header}{}\r\n", element.repeat(times)).as_bytes());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn any_input_stays_within_the_bound(
        fragments in prop::collection::vec(
            prop_oneof![
                4 => prop::sample::select(vec![
                    "*1000000\r\n", "*99999\r\n", "%300\r\n", "|9\r\n", "~5\r\n", "$500000\r\n", "*1\r\n", "$1\r\na\r\n", ":1\r\n", "_\r\n",
                    "|0\r\n", "=5\r\ntxt:a\r\n", "PING\r\n", "\"a\\x41\" b\n",
                ]).prop_map(|fragment| fragment.as_bytes().to_vec()),
                1 => prop::collection::vec(any::<u8>(), 0..8),
            ],
            0..40,
        ),
    ) {
        check_any(&fragments.concat());
    }
}
