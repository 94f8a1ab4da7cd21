//! Unit tests of the reply parser.

use super::*;

/// Parses a reply that takes all of `input`.
fn parse_with(limits: Limits, input: &[u8]) -> Result<Option<Value>, ReplyError> {
    match Parser::new(limits).next(input)? {
        Progress::Incomplete { .. } => Ok(None),
        Progress::Value { value, consumed } => {
            assert_eq!(consumed, input.len(), "{}", input.escape_ascii());
            Ok(Some(value))
        }
    }
}

fn parse(input: &[u8]) -> Result<Option<Value>, ReplyError> {
    parse_with(Limits::default(), input)
}

fn bulk(text: &str) -> Value {
    Value::Bulk(text.into())
}

#[test]
fn parses_every_type() {
    use Value::*;
    for (input, value) in [
        (&b"+OK\r\n"[..], Simple(b"OK".into())),
        (b"+\r\n", Simple(b"".into())),
        (b"-ERR no\r\n", Error(b"ERR no".into())),
        (b":0\r\n", Integer(0)),
        (b":+7\r\n", Integer(7)),
        (b":-9223372036854775808\r\n", Integer(i64::MIN)),
        (b"$0\r\n\r\n", bulk("")),
        (b"$4\r\na\r\nb\r\n", bulk("a\r\nb")),
        (b"$-1\r\n", Null),
        (b"*-1\r\n", Null),
        (b"_\r\n", Null),
        (b"#t\r\n", Boolean(true)),
        (b"#f\r\n", Boolean(false)),
        (b",1.5\r\n", Double(1.5)),
        (b",-1e-3\r\n", Double(-0.001)),
        (b",inf\r\n", Double(f64::INFINITY)),
        (b",-inf\r\n", Double(f64::NEG_INFINITY)),
        (b"(-34928903284092385093248\r\n", BigNumber("-34928903284092385093248".into())),
        (b"!5\r\nERR a\r\n", Error(b"ERR a".into())),
        (b"=8\r\ntxt:a\r\nb\r\n", Verbatim { format: *b"txt", text: b"a\r\nb".into() }),
        (b"*0\r\n", Array(vec![])),
        (b"*2\r\n:1\r\n*1\r\n_\r\n", Array(vec![Integer(1), Array(vec![Null])])),
        (b"~2\r\n:1\r\n:2\r\n", Set(vec![Integer(1), Integer(2)])),
        (b"%0\r\n", Map(vec![])),
        (b"%1\r\n$1\r\na\r\n%1\r\n:1\r\n:2\r\n", Map(vec![(bulk("a"), Map(vec![(Integer(1), Integer(2))]))])),
        (b">2\r\n+message\r\n*0\r\n", Push(vec![Simple(b"message".into()), Array(vec![])])),
    ] {
        assert_eq!(parse(input), Ok(Some(value)), "{}", input.escape_ascii());
    }
    assert!(matches!(parse(b",nan\r\n"), Ok(Some(Double(value))) if value.is_nan()));
}

#[test]
fn attributes_stay_with_their_value() {
    let attributed = |value| Value::Attributed {
        attributes: vec![(Value::Simple(b"ttl".into()), Value::Integer(9))],
        value: Box::new(value),
    };
    let seven = attributed(Value::Integer(7));
    assert_eq!(parse(b"|1\r\n+ttl\r\n:9\r\n:7\r\n"), Ok(Some(seven.clone())));
    assert_eq!(parse(b"*1\r\n|1\r\n+ttl\r\n:9\r\n:7\r\n"), Ok(Some(Value::Array(vec![seven.clone()]))));
    assert_eq!(parse(b"|1\r\n+ttl\r\n:9\r\n|1\r\n+ttl\r\n:9\r\n:7\r\n"), Ok(Some(attributed(seven.clone()))));
    assert_eq!(attributed(seven).without_attributes(), Value::Integer(7));
    let nothing = Value::Attributed { attributes: vec![], value: Box::new(Value::Null) };
    assert_eq!(parse(b"|0\r\n_\r\n"), Ok(Some(nothing)));
    assert_eq!(parse(b"|0\r\n"), Ok(None));
}

#[test]
fn accessors_return_bytes_and_integers() {
    for text in [&b"+a\r\n"[..], b"$1\r\na\r\n", b"=5\r\ntxt:a\r\n"] {
        assert_eq!(parse(text).unwrap().unwrap().as_bytes(), Some(&b"a"[..]));
    }
    assert_eq!(Value::Error(b"ERR".into()).as_bytes(), None);
    assert_eq!(Value::Integer(3).as_integer(), Some(3));
    assert_eq!(Value::Boolean(true).as_integer(), None);
}

#[test]
fn rejects_malformed_replies() {
    for (input, text) in [
        (&b"x"[..], "unknown type 'x'"),
        (b"\n", "unknown type '\\n'"),
        (b"$?\r\n", "streamed strings and arrays are not supported"),
        (b"*?", "streamed strings and arrays are not supported"),
        (b";4\r\n", "streamed strings and arrays are not supported"),
        (b".\r\n", "streamed strings and arrays are not supported"),
        (b"+a\nb\r\n", "line end inside a line"),
        (b"+a\rb\r\n", "line end inside a line"),
        (b":x\r\n", "invalid integer"),
        (b":\r\n", "invalid integer"),
        (b":9223372036854775808\r\n", "invalid integer"),
        (b"$x\r\n", "invalid length"),
        (b"*01\r\n", "invalid length"),
        (b"$111111111111111111111111111111111", "invalid length"),
        (b"$-2\r\n", "negative string length"),
        (b"!-1\r\n", "negative string length"),
        (b"*-2\r\n", "negative array length"),
        (b"%-1\r\n", "negative array length"),
        (b"$1\r\nab\r\n", "string longer than its length"),
        (b"=3\r\ntxt\r\n", "verbatim string without a format"),
        (b"=4\r\ntxt;\r\n", "verbatim string without a format"),
        (b"_x\r\n", "invalid null"),
        (b"#x\r\n", "invalid boolean"),
        (b",x\r\n", "invalid double"),
        (b",\r\n", "invalid double"),
        (b"(1x\r\n", "invalid big number"),
        (b"(\r\n", "invalid big number"),
        (b"(-\r\n", "invalid big number"),
    ] {
        let error = parse(input).unwrap_err();
        assert_eq!(error.to_string(), format!("invalid reply: {text}"), "{}", input.escape_ascii());
    }
}

#[test]
fn limits_are_inclusive() {
    let limits = Limits { depth: 2, elements: 4, string_bytes: 5, line_bytes: 6, reply_bytes: 30 };
    for (input, error_text) in [
        (&b"*1\r\n*1\r\n:1\r\n"[..], None),
        (b"*1\r\n*1\r\n*0\r\n", Some("arrays are nested too deeply")),
        (b"|0\r\n|0\r\n:1\r\n", None),
        (b"|0\r\n|0\r\n|0\r\n", Some("arrays are nested too deeply")),
        (b"*2\r\n*2\r\n_\r\n_\r\n_\r\n", None),
        (b"*2\r\n*3\r\n", Some("too many elements")),
        (b"%3\r\n", Some("too many elements")),
        (b"*999999999999999999\r\n", Some("too many elements")),
        (b"%999999999999999999\r\n", Some("too many elements")),
        (b"$5\r\n12345\r\n", None),
        (b"$6\r\n", Some("a string is too long")),
        (b"+123456\r\n", None),
        (b"+1234567", Some("a line is too long")),
        (b"*3\r\n+12345\r\n+12345\r\n$4\r\n1234\r\n", None),
        (b"*3\r\n+12345\r\n+12345\r\n$5\r\n", Some("the reply is too long")),
        (b"*4\r\n+12345\r\n+12345\r\n+123\r\n+1\r\n", None),
        (b"*4\r\n+12345\r\n+12345\r\n+1234\r\n+1\r\n", Some("the reply is too long")),
    ] {
        let result = parse_with(limits.clone(), input);
        assert!(!matches!(result, Ok(None)), "{}", input.escape_ascii());
        let error = result.err().map(|error| error.to_string());
        let expected = error_text.map(|text| format!("invalid reply: {text}"));
        assert_eq!(error, expected, "{}", input.escape_ascii());
    }
    let deep = Limits { depth: usize::MAX, ..Limits::default() };
    assert_eq!(parse_with(deep.clone(), &b"*1\r\n".repeat(DEPTH_MAX)), Ok(None));
    assert_eq!(parse_with(deep, &b"*1\r\n".repeat(DEPTH_MAX + 1)), Err(ReplyError::TooDeep));
}

#[test]
fn limits_apply_per_reply() {
    let mut parser = Parser::new(Limits { elements: 2, reply_bytes: 14, ..Limits::default() });
    for _ in 0..3 {
        let progress = parser.next(b"*2\r\n:1\r\n+abc\r\n:1\r\n");
        assert!(matches!(progress, Ok(Progress::Value { consumed: 14, .. })), "{progress:?}");
    }
}

#[test]
fn repeats_the_error_after_an_error() {
    let mut parser = Parser::new(Limits::default());
    assert_eq!(parser.next(b"*1\r\nx"), Err(ReplyError::UnknownType(b'x')));
    assert_eq!(parser.next(b":1\r\n"), Err(ReplyError::UnknownType(b'x')));
}

#[test]
fn consumes_parts_as_they_arrive() {
    let mut parser = Parser::new(Limits::default());
    assert_eq!(parser.next(b"*2\r\n:1\r\n$3\r\nab"), Ok(Progress::Incomplete { consumed: 8 }));
    let value = Value::Array(vec![Value::Integer(1), bulk("abc")]);
    assert_eq!(parser.next(b"$3\r\nabc\r\n"), Ok(Progress::Value { value, consumed: 9 }));

    // Bytes already searched for a line end are not searched again: overwriting them changes nothing.
    assert_eq!(parser.next(b"+abc"), Ok(Progress::Incomplete { consumed: 0 }));
    let value = Value::Simple(b"\n\n\nd".into());
    assert_eq!(parser.next(b"+\n\n\nd\r\n"), Ok(Progress::Value { value, consumed: 7 }));
}
