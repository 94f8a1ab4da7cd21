//! What must hold for any bytes at all. The fuzzer looks for bytes for which it does not, and the tests keep what it
//! found.
//!
//! The first byte of the input chooses the limits, the next four where the rest is cut.

use super::{cut, replies, requests};
use jeton_resp::reply_parser::Value;
use jeton_resp::{reply_parser, request_parser};

const SMALL_REQUEST: request_parser::Limits = request_parser::Limits {
    arguments: 5,
    argument_bytes: 12,
    command_bytes: 60,
    inline_bytes: 20,
    stranger_arguments: 3,
    stranger_argument_bytes: 8,
};

const SMALL_REPLY: reply_parser::Limits =
    reply_parser::Limits { depth: 3, elements: 8, string_bytes: 12, line_bytes: 10, reply_bytes: 60 };

/// Bytes of a client: the same commands however the network cut them, all within the limits, and all understood again
/// when a client sends them.
pub fn request(data: &[u8]) {
    let [choice, a, b, c, d, bytes @ ..] = data else { return };
    let limits = if choice & 1 == 0 { request_parser::Limits::default() } else { SMALL_REQUEST };
    let authenticated = choice & 2 == 0;

    let whole = requests(&limits, authenticated, [bytes]);
    let places = [*a, *b, *c, *d].map(usize::from);
    assert_eq!(requests(&limits, authenticated, cut(bytes, &places)), whole);
    assert_eq!(requests(&limits, authenticated, bytes.chunks(1)), whole);

    let (arguments_max, bytes_max) = if authenticated {
        (limits.arguments, limits.argument_bytes)
    } else {
        (limits.stranger_arguments, limits.stranger_argument_bytes)
    };
    let mut sent = Vec::new();
    for arguments in &whole.things {
        assert!(arguments.len() <= arguments_max);
        assert!(arguments.iter().all(|argument| argument.len() <= bytes_max));
        jeton_resp::command(&mut sent, &arguments.iter().map(Vec::as_slice).collect::<Vec<_>>());
    }
    let again = requests(&request_parser::Limits::default(), true, [&sent[..]]);
    assert_eq!((again.things, again.error), (whole.things, None));
}

/// Bytes of a server: the same values however the network cut them, all within the limits.
pub fn reply(data: &[u8]) {
    let [choice, a, b, c, d, bytes @ ..] = data else { return };
    let limits = if choice & 1 == 0 { reply_parser::Limits::default() } else { SMALL_REPLY };

    let whole = replies(&limits, [bytes]);
    for value in &whole.things {
        let (depth, elements) = measure(value);
        assert!(depth <= limits.depth && elements <= limits.elements, "{value:?}");
    }
    // As text: what is not a number equals nothing, itself included.
    let whole = format!("{whole:?}");
    let places = [*a, *b, *c, *d].map(usize::from);
    assert_eq!(format!("{:?}", replies(&limits, cut(bytes, &places))), whole);
    assert_eq!(format!("{:?}", replies(&limits, bytes.chunks(1))), whole);
}

/// How deep a value is, and how many elements are in it.
fn measure(value: &Value) -> (usize, usize) {
    let flat = |pairs: &'_ [(Value, Value)]| -> Vec<(usize, usize)> {
        pairs.iter().flat_map(|(key, value)| [measure(key), measure(value)]).collect()
    };
    let (inside, own) = match value {
        Value::Array(values) | Value::Set(values) | Value::Push(values) => {
            (values.iter().map(measure).collect(), values.len())
        }
        Value::Map(pairs) => (flat(pairs), pairs.len() * 2),
        Value::Attributed { attributes, value } => {
            let mut inside = flat(attributes);
            inside.push(measure(value));
            (inside, attributes.len() * 2)
        }
        _ => return (0, 0),
    };
    inside.into_iter().fold((1, own), |sum, one| (sum.0.max(one.0 + 1), sum.1 + one.1))
}
