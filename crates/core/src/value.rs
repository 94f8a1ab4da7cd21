//! Values of cells.

use crate::codec::{DecodeError, Reader, Write};

/// A counter or plain bytes. An empty cell counts as a counter at zero.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    Counter(i64),
    /// Plain bytes, at most [`CELL_BYTES_MAX`](crate::limits::CELL_BYTES_MAX) of them.
    Bytes(Box<[u8]>),
    /// Either of them with an expiry time, after which the cell is empty.
    Expiring(Box<Expiring>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expiring {
    /// Expiry time on the partition's clock, in milliseconds since 1970.
    until: u64,
    /// The value; never another expiring one.
    value: Value,
}

impl Value {
    pub fn counter(&self) -> Option<i64> {
        match self {
            Self::Counter(value) => Some(*value),
            Self::Bytes(_) => None,
            Self::Expiring(expiring) => expiring.value.counter(),
        }
    }

    /// Parses a value as Redis does: the text of an integer is a counter, everything else is bytes.
    pub fn from_text(text: &[u8]) -> Self {
        integer(text).map_or_else(|| Self::Bytes(text.into()), Self::Counter)
    }

    /// The value as Redis prints it.
    pub fn text(&self) -> Vec<u8> {
        match self {
            Self::Counter(value) => value.to_string().into_bytes(),
            Self::Bytes(bytes) => bytes.to_vec(),
            Self::Expiring(expiring) => expiring.value.text(),
        }
    }

    /// The same value with this expiry time, or none.
    #[must_use]
    pub fn lasting(self, until: Option<u64>) -> Self {
        let value = self.plain();
        match until {
            Some(until) => Self::Expiring(Box::new(Expiring { until, value })),
            None => value,
        }
    }

    #[must_use]
    pub fn plain(self) -> Self {
        match self {
            Self::Expiring(expiring) => expiring.value,
            value => value,
        }
    }

    /// The expiry time, if any, in milliseconds since 1970.
    pub fn until(&self) -> Option<u64> {
        match self {
            Self::Expiring(expiring) => Some(expiring.until),
            _ => None,
        }
    }

    /// The value, unless it has expired at this time.
    pub fn at(self, millis: u64) -> Option<Self> {
        if self.until().is_some_and(|until| until <= millis) { None } else { Some(self) }
    }

    pub fn heap_bytes(&self) -> usize {
        self.size() + if self.until().is_some() { size_of::<Expiring>() } else { 0 }
    }

    /// Upper bound of its encoding, apart from a few numbers.
    pub(crate) fn size(&self) -> usize {
        match self {
            Self::Counter(_) => 0,
            Self::Bytes(bytes) => bytes.len(),
            Self::Expiring(expiring) => expiring.value.size(),
        }
    }

    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Counter(value) => {
                out.put_u8(1);
                out.put_signed(*value);
            }
            Self::Bytes(bytes) => {
                out.put_u8(2);
                out.put_bytes(bytes);
            }
            Self::Expiring(expiring) => {
                out.put_u8(3);
                out.put_varint(expiring.until);
                expiring.value.encode(out);
            }
        }
    }

    pub fn decode(input: &mut Reader<'_>) -> Result<Self, DecodeError> {
        match input.u8()? {
            3 => {
                let until = input.varint()?;
                let kind = input.u8()?;
                Ok(Self::decode_plain(kind, input)?.lasting(Some(until)))
            }
            kind => Self::decode_plain(kind, input),
        }
    }

    fn decode_plain(kind: u8, input: &mut Reader<'_>) -> Result<Self, DecodeError> {
        match kind {
            1 => Ok(Self::Counter(input.signed()?)),
            2 => Ok(Self::Bytes(input.bytes()?.into())),
            _ => Err(DecodeError("an unknown kind of value")),
        }
    }
}

/// The integer, if the text is its canonical form: no plus sign, no leading zero, no space.
fn integer(text: &[u8]) -> Option<i64> {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    let plain = match digits {
        [] => false,
        [b'0'] => digits.len() == text.len(),
        [first, rest @ ..] => (b'1'..=b'9').contains(first) && rest.iter().all(u8::is_ascii_digit),
    };
    if plain && text.len() <= 20 { std::str::from_utf8(text).ok()?.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_canonical_integers_are_counters() {
        for text in ["0", "7", "-7", "10", "9223372036854775807", "-9223372036854775808"] {
            assert_eq!(Value::from_text(text.as_bytes()), Value::Counter(text.parse().expect("a number")));
        }
        let others = ["", "-", "-0", "00", "07", "+7", " 7", "7 ", "1.0", "0x7", "a"];
        for text in others.into_iter().chain(["9223372036854775808", "-9223372036854775809"]) {
            assert_eq!(Value::from_text(text.as_bytes()), Value::Bytes(text.as_bytes().into()), "{text}");
        }
    }

    #[test]
    fn values_expire() {
        let value = Value::Counter(7).lasting(Some(5));
        assert_eq!(value.clone().at(4), Some(value.clone()));
        assert_eq!(value.clone().at(5), None);
        assert_eq!(value.clone().lasting(Some(9)).until(), Some(9));
        assert_eq!(value.clone().lasting(None), Value::Counter(7));
        assert_eq!(value.counter(), Some(7));
        assert_eq!(Value::Counter(7).at(u64::MAX), Some(Value::Counter(7)));
    }
}
