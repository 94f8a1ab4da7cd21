//! What the server writes is what the client reads, in both versions of the protocol.

mod common;

use common::{cut, replies};
use jeton_resp::reply_parser::{Limits, Value};
use jeton_resp::reply_writer::{Version, Writer};
use proptest::collection::vec;
use proptest::prelude::*;

/// A reply as the server means it.
#[derive(Debug, Clone)]
enum Meant {
    Simple(String),
    Error(String),
    Integer(i64),
    Bulk(Vec<u8>),
    Null,
    NullArray,
    Boolean(bool),
    Double(f64),
    BigNumber(i128),
    Verbatim([u8; 3], Vec<u8>),
    Array(Vec<Meant>),
    Map(Vec<(Meant, Meant)>),
    Set(Vec<Meant>),
    Push(Vec<Meant>),
}

impl Meant {
    fn write(&self, out: &mut Writer<'_>) {
        match self {
            Self::Simple(text) => out.simple(text),
            Self::Error(text) => out.error(text),
            Self::Integer(value) => out.integer(*value),
            Self::Bulk(bytes) => out.bulk(bytes),
            Self::Null => out.null(),
            Self::NullArray => out.null_array(),
            Self::Boolean(value) => out.boolean(*value),
            Self::Double(value) => out.double(*value),
            Self::BigNumber(value) => out.big_number(*value),
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
            Self::Push(values) => {
                out.push(values.len());
                values.iter().for_each(|value| value.write(out));
            }
        }
    }

    /// Whether a client that knows this version reads what was meant, as far as the version can say it.
    fn is(&self, read: &Value, version: Version) -> bool {
        let all = |meant: &[Self], read: &[Value]| {
            meant.len() == read.len() && meant.iter().zip(read).all(|(meant, read)| meant.is(read, version))
        };
        let resp3 = version == Version::Resp3;
        match (self, read) {
            (Self::Simple(text), Value::Simple(bytes)) | (Self::Error(text), Value::Error(bytes)) => {
                text.replace(['\r', '\n'], " ").as_bytes() == bytes
            }
            (Self::Integer(meant), Value::Integer(read)) => meant == read,
            (Self::Bulk(meant), Value::Bulk(read)) => meant == read,
            (Self::Null | Self::NullArray, Value::Null) => true,
            (Self::Boolean(meant), Value::Boolean(read)) if resp3 => meant == read,
            (Self::Boolean(meant), Value::Integer(read)) if !resp3 => i64::from(*meant) == *read,
            (Self::Double(meant), Value::Double(read)) if resp3 => same(*meant, *read),
            (Self::Double(meant), Value::Bulk(read)) if !resp3 => {
                std::str::from_utf8(read).is_ok_and(|text| text.parse().is_ok_and(|read| same(*meant, read)))
            }
            (Self::BigNumber(meant), Value::BigNumber(read)) if resp3 => meant.to_string() == *read,
            (Self::BigNumber(meant), Value::Bulk(read)) if !resp3 => meant.to_string().as_bytes() == read,
            (Self::Verbatim(meant, text), Value::Verbatim { format, text: read }) if resp3 => {
                meant == format && text == read
            }
            (Self::Verbatim(_, text), Value::Bulk(read)) if !resp3 => text == read,
            (Self::Array(meant), Value::Array(read)) => all(meant, read),
            (Self::Set(meant), Value::Set(read)) | (Self::Push(meant), Value::Push(read)) if resp3 => {
                all(meant, read)
            }
            (Self::Set(meant) | Self::Push(meant), Value::Array(read)) if !resp3 => all(meant, read),
            (Self::Map(meant), Value::Map(read)) if resp3 => {
                meant.len() == read.len()
                    && meant
                        .iter()
                        .zip(read)
                        .all(|(meant, read)| meant.0.is(&read.0, version) && meant.1.is(&read.1, version))
            }
            (Self::Map(meant), Value::Array(read)) if !resp3 => {
                let flat: Vec<Self> =
                    meant.iter().flat_map(|(key, value)| [key.clone(), value.clone()]).collect();
                all(&flat, read)
            }
            _ => false,
        }
    }
}

/// The same number to the last bit, or not a number both.
fn same(a: f64, b: f64) -> bool {
    a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan()
}

fn meant() -> impl Strategy<Value = Meant> {
    let leaf = prop_oneof![
        "[ -~\r\n]{0,20}".prop_map(Meant::Simple),
        "\\PC{0,20}\r?\n?".prop_map(Meant::Error),
        any::<i64>().prop_map(Meant::Integer),
        (-200i64..200).prop_map(Meant::Integer),
        vec(any::<u8>(), 0..40).prop_map(Meant::Bulk),
        Just(Meant::Null),
        Just(Meant::NullArray),
        any::<bool>().prop_map(Meant::Boolean),
        any::<f64>().prop_map(Meant::Double),
        any::<u64>().prop_map(|bits| Meant::Double(f64::from_bits(bits))),
        any::<i32>().prop_map(|value| Meant::Double(f64::from(value))),
        any::<i128>().prop_map(Meant::BigNumber),
        (any::<[u8; 3]>(), vec(any::<u8>(), 0..20)).prop_map(|(format, text)| Meant::Verbatim(format, text)),
    ];
    leaf.prop_recursive(4, 40, 6, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..6).prop_map(Meant::Array),
            vec(inner.clone(), 0..6).prop_map(Meant::Set),
            vec(inner.clone(), 0..6).prop_map(Meant::Push),
            vec((inner.clone(), inner), 0..4).prop_map(Meant::Map),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn what_is_written_is_read(meant in vec(meant(), 1..4), places in vec(any::<usize>(), 0..6), resp3: bool) {
        let version = if resp3 { Version::Resp3 } else { Version::Resp2 };
        let mut bytes = Vec::new();
        let mut out = Writer::new(&mut bytes, version);
        meant.iter().for_each(|reply| reply.write(&mut out));
        let outcome = replies(&Limits::default(), cut(&bytes, &places));
        prop_assert_eq!(outcome.error, None);
        prop_assert_eq!(outcome.waiting, 0);
        prop_assert_eq!(outcome.things.len(), meant.len());
        for (meant, read) in meant.iter().zip(&outcome.things) {
            prop_assert!(meant.is(read, version), "{:?} became {:?}", meant, read);
        }
    }
}
