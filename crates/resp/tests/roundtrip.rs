//! The reply parser reads what the reply writer writes, in both protocol versions.

mod common;

use common::{cut, replies};
use jeton_resp::reply_parser::{Limits, Value};
use jeton_resp::reply_writer::{Version, Writer};
use proptest::collection::vec;
use proptest::prelude::*;

/// Writes a reply as the server does.
fn write(value: &Value, out: &mut Writer<'_>) {
    match value {
        Value::Simple(text) => out.simple(std::str::from_utf8(text).expect("a text")),
        Value::Error(text) => out.error(std::str::from_utf8(text).expect("a text")),
        Value::Integer(value) => out.integer(*value),
        Value::Bulk(bytes) => out.bulk(bytes),
        Value::Null => out.null(),
        Value::Verbatim { format, text } => out.verbatim(*format, text),
        Value::Array(values) | Value::Set(values) => {
            let is_set = matches!(value, Value::Set(_));
            if is_set {
                out.set(values.len())
            } else {
                out.array(values.len())
            }
            values.iter().for_each(|value| write(value, out));
        }
        Value::Map(pairs) => {
            out.map(pairs.len());
            pairs.iter().flat_map(|(key, value)| [key, value]).for_each(|value| write(value, out));
        }
        other => unreachable!("the server sends no {other:?}"),
    }
}

/// The reply that the client reads: lines have no line ends, and RESP2 has fewer types.
fn received(value: &Value, version: Version) -> Value {
    let line =
        |text: &[u8]| text.iter().map(|byte| if b"\r\n".contains(byte) { b' ' } else { *byte }).collect();
    let all = |values: &[Value]| values.iter().map(|value| received(value, version)).collect();
    let resp2 = version == Version::Resp2;
    match value {
        Value::Simple(text) => Value::Simple(line(text)),
        Value::Error(text) => Value::Error(line(text)),
        Value::Verbatim { text, .. } if resp2 => Value::Bulk(text.clone()),
        Value::Set(values) if !resp2 => Value::Set(all(values)),
        Value::Array(values) | Value::Set(values) => Value::Array(all(values)),
        Value::Map(pairs) if resp2 => {
            let flat: Vec<Value> = pairs.iter().flat_map(|(key, value)| [key, value]).cloned().collect();
            Value::Array(all(&flat))
        }
        Value::Map(pairs) => {
            let pair = |(key, value): &(Value, Value)| (received(key, version), received(value, version));
            Value::Map(pairs.iter().map(pair).collect())
        }
        other => other.clone(),
    }
}

fn any_reply() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        "[ -~\r\n]{0,20}".prop_map(|text| Value::Simple(text.into())),
        "\\PC{0,20}\r?\n?".prop_map(|text| Value::Error(text.into())),
        any::<i64>().prop_map(Value::Integer),
        (-200i64..200).prop_map(Value::Integer),
        vec(any::<u8>(), 0..40).prop_map(Value::Bulk),
        Just(Value::Null),
        (any::<[u8; 3]>(), vec(any::<u8>(), 0..20))
            .prop_map(|(format, text)| Value::Verbatim { format, text }),
    ];
    leaf.prop_recursive(4, 40, 6, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..6).prop_map(Value::Array),
            vec(inner.clone(), 0..6).prop_map(Value::Set),
            vec((inner.clone(), inner), 0..4).prop_map(Value::Map),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn parser_reads_what_the_writer_writes(sent in vec(any_reply(), 1..4), positions in vec(any::<usize>(), 0..6), resp3: bool) {
        let version = if resp3 { Version::Resp3 } else { Version::Resp2 };
        let mut bytes = Vec::new();
        let mut out = Writer::new(&mut bytes, version);
        sent.iter().for_each(|reply| write(reply, &mut out));
        let outcome = replies(&Limits::default(), cut(&bytes, &positions));
        prop_assert_eq!((outcome.error, outcome.waiting), (None, 0));
        let expected: Vec<Value> = sent.iter().map(|reply| received(reply, version)).collect();
        prop_assert_eq!(outcome.things, expected);
    }
}
