//! Properties that hold for any input. The fuzz targets search for counterexamples; the corpus test replays
//! them.
//!
//! The first byte of the input selects the limits, the next four the positions where the rest is cut.

use super::{cut, replies, requests};
use jeton_resp::reply_parser::Value;
use jeton_resp::{reply_parser, request_parser};

pub const SMALL_REQUEST: request_parser::Limits = request_parser::Limits {
    arguments: 5,
    argument_bytes: 12,
    command_bytes: 60,
    inline_bytes: 20,
    unauthenticated_arguments: 3,
    unauthenticated_argument_bytes: 8,
};

pub const SMALL_REPLY: reply_parser::Limits =
    reply_parser::Limits { depth: 3, elements: 8, string_bytes: 12, line_bytes: 10, reply_bytes: 60 };

/// Requests: chunks do not matter, commands are within the limits, and they parse again after being
/// re-encoded.
pub fn request(data: &[u8]) {
    let [choice, a, b, c, d, bytes @ ..] = data else { return };
    let limits = if choice & 1 == 0 { request_parser::Limits::default() } else { SMALL_REQUEST };
    let authenticated = choice & 2 == 0;

    let one_chunk = requests(&limits, authenticated, [bytes]);
    let positions = [*a, *b, *c, *d].map(usize::from);
    assert_eq!(requests(&limits, authenticated, cut(bytes, &positions)), one_chunk);
    assert_eq!(requests(&limits, authenticated, bytes.chunks(1)), one_chunk);

    let (arguments_max, bytes_max) = if authenticated {
        (limits.arguments, limits.argument_bytes)
    } else {
        (limits.unauthenticated_arguments, limits.unauthenticated_argument_bytes)
    };
    let mut sent = Vec::new();
    for arguments in &one_chunk.things {
        assert!(arguments.len() <= arguments_max);
        assert!(arguments.iter().all(|argument| argument.len() <= bytes_max));
        jeton_resp::command(&mut sent, &arguments.iter().map(Vec::as_slice).collect::<Vec<_>>());
    }
    let again = requests(&request_parser::Limits::default(), true, [&sent[..]]);
    assert_eq!((again.things, again.error), (one_chunk.things, None));
}

/// Replies: chunks do not matter, and values are within the limits.
pub fn reply(data: &[u8]) {
    let [choice, a, b, c, d, bytes @ ..] = data else { return };
    let limits = if choice & 1 == 0 { reply_parser::Limits::default() } else { SMALL_REPLY };

    let one_chunk = replies(&limits, [bytes]);
    for value in &one_chunk.things {
        let (depth, elements) = measure(value);
        assert!(depth <= limits.depth && elements <= limits.elements, "{value:?}");
    }
    // Compared as text, because NaN is not equal to itself.
    let one_chunk = format!("{one_chunk:?}");
    let positions = [*a, *b, *c, *d].map(usize::from);
    assert_eq!(format!("{:?}", replies(&limits, cut(bytes, &positions))), one_chunk);
    assert_eq!(format!("{:?}", replies(&limits, bytes.chunks(1))), one_chunk);
}

/// Depth and number of elements of a value.
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
