//! Unit tests of the request parser.

use super::*;

/// Limits that short inputs reach.
const SMALL: Limits = Limits {
    arguments: 4,
    argument_bytes: 8,
    command_bytes: 48,
    inline_bytes: 16,
    unauthenticated_arguments: 2,
    unauthenticated_argument_bytes: 5,
};

/// The arguments of the command, if complete, and the bytes consumed.
type First = (Option<Vec<Vec<u8>>>, usize);

/// Parses the first command.
fn first(parser: &mut Parser, input: &[u8]) -> Result<First, ProtocolError> {
    match parser.next(input, &mut Args::default())? {
        Progress::Incomplete { consumed } => Ok((None, consumed)),
        Progress::Command { command, consumed } => {
            Ok((Some(command.iter().map(<[u8]>::to_vec).collect()), consumed))
        }
    }
}

fn parse(limits: Limits, authenticated: bool, input: &str) -> Result<Option<usize>, ProtocolError> {
    let mut parser = Parser::new(limits);
    parser.set_authenticated(authenticated);
    first(&mut parser, input.as_bytes()).map(|(command, _)| command.map(|arguments| arguments.len()))
}

#[test]
fn parses_arrays_of_arbitrary_bytes() {
    let input = b"*3\r\n$4\r\nJADD\r\n$0\r\n\r\n$13\r\n\x00\xff\r\n*1\r\n$1\r\na\r\nrest";
    let mut args = Args::default();
    let progress = Parser::new(Limits::default()).next(input, &mut args);
    let Ok(Progress::Command { command, consumed }) = progress else { panic!("{progress:?}") };
    assert_eq!(&input[consumed..], b"rest");
    assert_eq!(command.len(), 3);
    assert_eq!(command.name(), b"JADD");
    assert_eq!(command.get(1), Some(&b""[..]));
    assert_eq!(&command[2], b"\x00\xff\r\n*1\r\n$1\r\na");
    assert_eq!(command.get(3), None);
    assert_eq!(format!("{command:?}"), r#"["JADD", "", "\\x00\\xff\\r\\n*1\\r\\n$1\\r\\na"]"#);
}

#[test]
fn parses_inline_commands() {
    let mut parser = Parser::new(Limits::default());
    for line in ["jadd \"a b\" 1\r\n", "jadd \"a b\" 1\n", " jadd 'a b' 1 \r\n"] {
        let (command, consumed) = first(&mut parser, format!("{line}next").as_bytes()).unwrap();
        assert_eq!(command.unwrap(), [&b"jadd"[..], b"a b", b"1"]);
        assert_eq!(consumed, line.len());
    }
}

#[test]
fn skips_and_consumes_empty_commands() {
    let mut parser = Parser::new(Limits::default());
    let empty = b"\r\n\n*0\r\n*-1\r\n*-7\r\n  \r\n";
    assert_eq!(first(&mut parser, empty).unwrap(), (None, empty.len()));
    assert_eq!(first(&mut parser, b"\r\n*0\r\n*1").unwrap(), (None, 6));
    let (command, consumed) = first(&mut parser, b"*1\r\n$4\r\nPING\r\n").unwrap();
    assert_eq!((command.unwrap(), consumed), (vec![b"PING".to_vec()], 14));
    let (command, consumed) = first(&mut parser, b"\r\n*0\r\n*1\r\n$4\r\nPING\r\n\r\n").unwrap();
    assert_eq!((command.unwrap(), consumed), (vec![b"PING".to_vec()], 20));
}

#[test]
fn error_messages_match_redis() {
    let endless = "1".repeat(100);
    let long_line = "x".repeat((64 << 10) + 1);
    let large = format!("*33\r\n{}", format!("$524288\r\n{}\r\n", "x".repeat(512 << 10)).repeat(32));
    for (input, text) in [
        ("*x\r\n", "invalid multibulk length"),
        ("*\r\n", "invalid multibulk length"),
        ("*01\r\n", "invalid multibulk length"),
        ("*1\rx", "invalid multibulk length"),
        ("*3000000000\r\n", "invalid multibulk length"),
        ("*20000000000000000000\r\n", "invalid multibulk length"),
        ("*1\r\n$x\r\n", "invalid bulk length"),
        ("*1\r\n$-1\r\n", "invalid bulk length"),
        ("*1\r\n$2000000000\r\n", "invalid bulk length"),
        ("*1\r\n$1\r\nPING\r\n", "invalid bulk length"),
        ("*1\r\n$4\r\nPING\r*", "invalid bulk length"),
        ("*1\r\nx", "expected '$', got 'x'"),
        ("*2\r\n$4\r\nJGET\r\n'", "expected '$', got '''"),
        ("*1\r\n\r\n", "expected '$', got '\\r'"),
        ("*1\r\n\u{7f}", "expected '$', got '\\x7f'"),
        (&format!("*{endless}"), "too big mbulk count string"),
        (&format!("*1\r\n${endless}"), "too big bulk count string"),
        (&long_line, "too big inline request"),
        ("jadd \"a\r\n", "unbalanced quotes in request"),
        ("jadd 'a'b\r\n", "unbalanced quotes in request"),
        (&large, "too big request"),
    ] {
        let error = parse(Limits::default(), true, input).unwrap_err();
        assert_eq!(error.to_string(), format!("Protocol error: {text}"), "{:.40}", input);
    }
}

#[test]
fn unauthenticated_error_messages_match_redis() {
    for (input, text) in [
        ("*11\r\n", "unauthenticated multibulk length"),
        ("*1\r\n$16385\r\n", "unauthenticated bulk length"),
        // As in Redis, the general limits are checked before those of unauthenticated clients.
        ("*3000000000\r\n", "invalid multibulk length"),
        ("*1\r\n$2000000000\r\n", "invalid bulk length"),
        ("a b c d e f g h i j k\r\n", "unauthenticated multibulk length"),
        (&format!("{}\r\n", "x".repeat(16385)), "unauthenticated bulk length"),
    ] {
        let error = parse(Limits::default(), false, input).unwrap_err();
        assert_eq!(error.to_string(), format!("Protocol error: {text}"), "{:.40}", input);
    }
    for input in ["*10\r\n", "*1\r\n$16384\r\n", "a b c d e f g h i j\r\n"] {
        assert!(parse(Limits::default(), false, input).is_ok(), "{input}");
    }
    for input in ["*11\r\n", "*1\r\n$16385\r\n", "a b c d e f g h i j k\r\n"] {
        assert!(parse(Limits::default(), true, input).is_ok(), "{input}");
    }
}

#[test]
fn limits_are_inclusive() {
    use ProtocolError::*;
    for (authenticated, input, expected) in [
        (true, "*4\r\n", Ok(None)),
        (true, "*5\r\n", Err(InvalidMultibulkLength)),
        (true, "a b c d\n", Ok(Some(4))),
        (true, "a b c d e\n", Err(InvalidMultibulkLength)),
        (false, "*2\r\n", Ok(None)),
        (false, "*3\r\n", Err(UnauthenticatedMultibulkLength)),
        (true, "*1\r\n$8\r\n12345678\r\n", Ok(Some(1))),
        (true, "*1\r\n$9\r\n", Err(InvalidBulkLength)),
        (true, "12345678\n", Ok(Some(1))),
        (true, "123456789\n", Err(InvalidBulkLength)),
        (false, "*1\r\n$5\r\n12345\r\n", Ok(Some(1))),
        (false, "*1\r\n$6\r\n", Err(UnauthenticatedBulkLength)),
        (false, "12345\n", Ok(Some(1))),
        (false, "123456\n", Err(UnauthenticatedBulkLength)),
        // 48 bytes, and 49.
        (true, "*4\r\n$8\r\n12345678\r\n$8\r\n12345678\r\n$4\r\n1234\r\n$0\r\n\r\n", Ok(Some(4))),
        (true, "*4\r\n$8\r\n12345678\r\n$8\r\n12345678\r\n$5\r\n", Err(TooBigRequest)),
        (true, "1234 6789 12345\r\n", Ok(Some(3))),
        (true, "1234 6789 123456\n", Ok(Some(3))),
        (true, "1234 6789 123456", Ok(None)),
        (true, "1234 6789 123456\r", Err(TooBigInline)),
        (true, "1234 6789 1234567\n", Err(TooBigInline)),
    ] {
        assert_eq!(parse(SMALL, authenticated, input), expected, "{input:?} of {authenticated}");
    }
}

#[test]
fn rejects_an_oversized_command_at_its_header() {
    let limits = Limits { command_bytes: 4 + 2 * ARGUMENT_BYTES_MIN, ..Limits::default() };
    assert_eq!(parse(limits.clone(), true, "*2\r\n$0\r\n\r\n$0\r\n\r\n"), Ok(Some(2)));
    assert_eq!(parse(limits.clone(), true, "*2\r\n$1\r\n"), Err(ProtocolError::TooBigRequest));
    assert_eq!(parse(limits, true, "*3\r\n"), Err(ProtocolError::TooBigRequest));
}

#[test]
fn limits_are_capped_at_4_gib() {
    let max = usize::MAX;
    let limits =
        Limits { arguments: max, argument_bytes: max, command_bytes: max, inline_bytes: max, ..SMALL };
    assert_eq!(parse(limits.clone(), true, "*1\r\n$4294967200\r\n"), Ok(None));
    assert_eq!(parse(limits.clone(), true, "*1\r\n$4294967295\r\n"), Err(ProtocolError::TooBigRequest));
    assert_eq!(parse(limits.clone(), true, "*999999999999999999\r\n"), Err(ProtocolError::TooBigRequest));
    assert_eq!(parse(limits, true, "PING\r\n"), Ok(Some(1)));
}

#[test]
fn repeats_the_error_after_an_error() {
    let mut parser = Parser::new(Limits::default());
    assert_eq!(first(&mut parser, b"*x\r\n"), Err(ProtocolError::InvalidMultibulkLength));
    assert_eq!(first(&mut parser, b"*1\r\n$4\r\nPING\r\n"), Err(ProtocolError::InvalidMultibulkLength));
}

#[test]
fn authentication_applies_from_the_next_command() {
    let mut parser = Parser::new(SMALL);
    parser.set_authenticated(false);
    assert!(first(&mut parser, b"*2\r\n$4\r\nAUTH\r\n$1\r\nx\r\n").is_ok());
    parser.set_authenticated(true);
    assert_eq!(first(&mut parser, b"*4\r\n$8\r\n"), Ok((None, 0)));
}

#[test]
fn does_not_read_parsed_bytes_again() {
    // Reading bytes twice would make parsing quadratic. Bytes already parsed are overwritten here; the result
    // must not change.
    let mut parser = Parser::new(Limits::default());
    let mut input = b"*3\r\n$4\r\nJADD\r\n$5\r\nab".to_vec();
    assert_eq!(first(&mut parser, &input), Ok((None, 0)));
    input[..20].fill(b'?');
    input.extend(b"cde\r\n$1\r");
    assert_eq!(first(&mut parser, &input), Ok((None, 0)));
    input[..25].fill(b'?');
    input.extend(b"\n1\r\n");
    let (command, consumed) = first(&mut parser, &input).unwrap();
    assert_eq!((command.map(|it| it.len()), consumed), (Some(3), input.len()));

    let mut input = b"JGET abc".to_vec();
    assert_eq!(first(&mut parser, &input), Ok((None, 0)));
    input[4] = b'\n';
    input.extend(b"def\r\n");
    let (command, consumed) = first(&mut parser, &input).unwrap();
    assert_eq!((command.unwrap(), consumed), (vec![b"JGET".to_vec(), b"abcdef".to_vec()], input.len()));
}

#[test]
fn releases_large_argument_buffers() {
    let (mut parser, mut args) = (Parser::new(Limits::default()), Args::default());
    let large = format!("*5000\r\n{}", "$1\r\na\r\n".repeat(5000));
    for input in [&large[..], &large, "*1\r\n$1\r\na\r\n", "*1\r\n$1\r\na\r\n"] {
        let progress = parser.next(input.as_bytes(), &mut args);
        assert!(matches!(progress, Ok(Progress::Command { .. })));
    }
    assert!(parser.spans.capacity() <= SPANS_KEPT, "{}", parser.spans.capacity());
    parser.next(large.as_bytes(), &mut args).unwrap();
    parser.next(large.as_bytes(), &mut args).unwrap();
    assert!(parser.allocated() >= 40_000 && args.allocated() >= 40_000);
    parser.shrink();
    assert!(parser.allocated() <= SPANS_KEPT * 8);
    parser.next(b"*1\r\n$1\r\na\r\n", &mut args).unwrap();
    assert!(args.spans.capacity() <= SPANS_KEPT, "{}", args.spans.capacity());
}
