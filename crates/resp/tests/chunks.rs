//! Parsing does not depend on how the network cuts the input into chunks.

mod common;

use common::{Arguments, Outcome, cut, fuzzed, requests};
use jeton_resp::{command, request_parser};
use proptest::collection::vec;
use proptest::prelude::*;

/// A command and its encoding, preceded by empty lines or empty commands.
fn any_command() -> impl Strategy<Value = (Arguments, Vec<u8>)> {
    let empty = prop::sample::select(vec!["", "", "", "\r\n", " \n", "*0\r\n", "*-1\r\n"]);
    let argument = prop_oneof![
        3 => vec(any::<u8>(), 0..12),
        1 => vec(prop::sample::select(b"\r\n$*1".to_vec()), 0..12),
        1 => vec(any::<u8>(), 90..300),
    ];
    (vec(argument, 1..8), empty, any::<bool>()).prop_map(|(arguments, empty, inline)| {
        let mut bytes = empty.as_bytes().to_vec();
        if inline {
            for argument in &arguments {
                bytes.push(b'"');
                bytes.extend(argument.iter().flat_map(|byte| format!("\\x{byte:02x}").into_bytes()));
                bytes.extend(b"\" ");
            }
            bytes.extend(b"\r\n");
        } else {
            command(&mut bytes, &arguments.iter().map(Vec::as_slice).collect::<Vec<_>>());
        }
        (arguments, bytes)
    })
}

/// Bytes that resemble requests and replies, to reach most errors with short inputs.
fn nearly_protocol() -> impl Strategy<Value = Vec<u8>> {
    let fragment = prop_oneof![
        8 => prop::sample::select(vec![
            "\r\n", "\r\n", "\r", "\n", "*", "$", "0", "1", "2", "3", "-1", "+", "-", ":", "_", "#t", ",", "(", "!", "=", "~",
            "%", ">", "|", "a", "\"", "'", "\\", " ", "?", ";", ".",
        ]).prop_map(|fragment| fragment.as_bytes().to_vec()),
        8 => prop::sample::select(vec![
            "*1\r\n", "*2\r\n", "$1\r\na\r\n", "$0\r\n\r\n", ":1\r\n", "+OK\r\n", "_\r\n", "%1\r\n", "|1\r\n", "|0\r\n", "~1\r\n",
            ">1\r\n", "=5\r\ntxt:a\r\n", "!1\r\na\r\n", ",1.5\r\n", "(12\r\n", "PING\r\n", "\"a\\x41\"\n", "$-1\r\n", "*-1\r\n",
            "*0\r\n",
        ]).prop_map(|fragment| fragment.as_bytes().to_vec()),
        1 => vec(any::<u8>(), 0..4),
        1 => (1usize..50).prop_map(|count| b"1".repeat(count)),
    ];
    vec(fragment, 0..24).prop_map(|fragments| fragments.concat())
}

/// An input of the fuzz targets.
fn any_input() -> impl Strategy<Value = Vec<u8>> {
    let bytes = prop_oneof![4 => nearly_protocol(), 1 => vec(any::<u8>(), 0..100)];
    (any::<[u8; 5]>(), bytes).prop_map(|(choices, bytes)| [&choices[..], &bytes].concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn pipelines_parse_in_any_chunks(pipeline in vec(any_command(), 0..6), positions in vec(any::<usize>(), 0..12)) {
        let bytes: Vec<u8> = pipeline.iter().flat_map(|(_, bytes)| bytes.clone()).collect();
        let things: Vec<Arguments> = pipeline.into_iter().map(|(arguments, _)| arguments).collect();
        let sent = Outcome { things, error: None, waiting: 0 };
        let limits = request_parser::Limits::default();
        prop_assert_eq!(&requests(&limits, true, cut(&bytes, &positions)), &sent);
        prop_assert_eq!(&requests(&limits, true, bytes.chunks(1)), &sent);
    }

    #[test]
    fn requests_do_not_depend_on_chunks(input in any_input()) {
        fuzzed::request(&input);
    }

    #[test]
    fn replies_do_not_depend_on_chunks(input in any_input()) {
        fuzzed::reply(&input);
    }
}
