//! The reply parser reads what the reply writer writes, in both protocol versions.

mod common;

use common::{cut, replies};
use jeton_resp::reply_parser::{Limits, Value};
use jeton_resp::reply_writer::{Version, Writer};
use proptest::collection::vec;
use proptest::prelude::*;

/// A reply before it is written.
#[derive(Debug, Clone)]
enum SentReply {
    Simple(String),
    Error(String),
    Integer(i64),
    Bulk(Vec<u8>),
    Null,
    Verbatim([u8; 3], Vec<u8>),
    Array(Vec<SentReply>),
    Map(Vec<(SentReply, SentReply)>),
    Set(Vec<SentReply>),
}

impl SentReply {
    fn write(&self, out: &mut Writer<'_>) {
        match self {
            Self::Simple(text) => out.simple(text),
            Self::Error(text) => out.error(text),
            Self::Integer(value) => out.integer(*value),
            Self::Bulk(bytes) => out.bulk(bytes),
            Self::Null => out.null(),
            Self::Verbatim(format, text) => out.verbatim(*format, text),
            Self::Array(values) => {
                out.array(values.len());
                values.iter().for_each(|value| value.write(out));
            }
            Self::Map(pairs) => {
                out.map(pairs.len());
                for (key, value) in pairs {
                    key.write(out);
                    value.write(out);
                }
            }
            Self::Set(values) => {
                out.set(values.len());
                values.iter().for_each(|value| value.write(out));
            }
        }
    }

    /// Whether `read` is this reply in the form that `version` has for it.
    fn matches(&self, read: &Value, version: Version) -> bool {
        let all = |sent: &[Self], read: &[Value]| {
            sent.len() == read.len() && sent.iter().zip(read).all(|(sent, read)| sent.matches(read, version))
        };
        let resp3 = version == Version::Resp3;
        match (self, read) {
            (Self::Simple(text), Value::Simple(bytes)) | (Self::Error(text), Value::Error(bytes)) => {
                text.replace(['\r', '\n'], " ").as_bytes() == bytes
            }
            (Self::Integer(sent), Value::Integer(read)) => sent == read,
            (Self::Bulk(sent), Value::Bulk(read)) => sent == read,
            (Self::Null, Value::Null) => true,
            (Self::Verbatim(sent, text), Value::Verbatim { format, text: read }) if resp3 => {
                sent == format && text == read
            }
            (Self::Verbatim(_, text), Value::Bulk(read)) if !resp3 => text == read,
            (Self::Array(sent), Value::Array(read)) => all(sent, read),
            (Self::Set(sent), Value::Set(read)) if resp3 => all(sent, read),
            (Self::Set(sent), Value::Array(read)) if !resp3 => all(sent, read),
            (Self::Map(sent), Value::Map(read)) if resp3 => {
                sent.len() == read.len()
                    && sent.iter().zip(read).all(|(sent, read)| {
                        sent.0.matches(&read.0, version) && sent.1.matches(&read.1, version)
                    })
            }
            (Self::Map(sent), Value::Array(read)) if !resp3 => {
                let flat: Vec<Self> =
                    sent.iter().flat_map(|(key, value)| [key.clone(), value.clone()]).collect();
                all(&flat, read)
            }
            _ => false,
        }
    }
}

fn any_reply() -> impl Strategy<Value = SentReply> {
    let leaf = prop_oneof![
        "[ -~\r\n]{0,20}".prop_map(SentReply::Simple),
        "\\PC{0,20}\r?\n?".prop_map(SentReply::Error),
        any::<i64>().prop_map(SentReply::Integer),
        (-200i64..200).prop_map(SentReply::Integer),
        vec(any::<u8>(), 0..40).prop_map(SentReply::Bulk),
        Just(SentReply::Null),
        (any::<[u8; 3]>(), vec(any::<u8>(), 0..20))
            .prop_map(|(format, text)| SentReply::Verbatim(format, text)),
    ];
    leaf.prop_recursive(4, 40, 6, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..6).prop_map(SentReply::Array),
            vec(inner.clone(), 0..6).prop_map(SentReply::Set),
            vec((inner.clone(), inner), 0..4).prop_map(SentReply::Map),
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
        sent.iter().for_each(|reply| reply.write(&mut out));
        let outcome = replies(&Limits::default(), cut(&bytes, &positions));
        prop_assert_eq!(outcome.error, None);
        prop_assert_eq!(outcome.waiting, 0);
        prop_assert_eq!(outcome.things.len(), sent.len());
        for (sent, read) in sent.iter().zip(&outcome.things) {
            prop_assert!(sent.matches(read, version), "{:?} became {:?}", sent, read);
        }
    }
}
