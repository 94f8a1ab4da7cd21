//! Operation ids: an operation takes effect once under its id.
//!
//! The format of an id (dated, sequenced, ...) is never guessed from its text: a table declares the formats
//! it accepts, and an id is parsed in a named format. A UUIDv4 is never parsed as a time.

use std::fmt;

use forgetful_filter::Timestamp;

use crate::codec::{DecodeError, Reader, Write};
use crate::limits::{CLIENT_BYTES_MAX, ID_BYTES_MAX};
use crate::{ulid, uuid};

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum OpId {
    /// A UUID of version 7. The first 48 bits are its time.
    Uuid7(u128),
    /// A ULID. The first 48 bits are its time.
    Ulid(u128),
    /// A numbered operation of a client.
    Sequenced {
        client: Box<str>,
        /// Incarnation of the client: a higher epoch fences all lower ones. A counter of the client, or its
        /// start time in milliseconds since 1970. At most the store's time plus the table's skew.
        epoch: u64,
        /// Number within the epoch, from 1.
        seq: u64,
    },
    /// A CloudEvents event: source and id name it, its time determines its generation. A redelivery carries
    /// the same time.
    Event {
        source: Box<str>,
        /// Id of the event within its source.
        id: Box<str>,
        /// Time of the event, in milliseconds since 1970.
        millis: u64,
    },
    /// Any bytes, 1 to 255.
    Opaque(Box<[u8]>),
}

/// Formats of ids, one for each variant of [`OpId`]. The numbers are on disk and never change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Format {
    Uuid7 = 1,
    Ulid = 2,
    Sequenced = 3,
    Event = 4,
    Opaque = 5,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum IdError {
    #[error("an id is UTF-8 text")]
    NotText,
    #[error("the table accepts ids of several formats; begin the id with one of {0}")]
    Untagged(Formats),
    #[error("the table does not accept ids of format {found}; it accepts {taken}")]
    NotTaken { found: Format, taken: Formats },
    #[error("not a {format} id: {why}")]
    Invalid {
        /// The format in which it was parsed.
        format: Format,
        why: &'static str,
    },
}

impl Format {
    pub const ALL: [Self; 5] = [Self::Uuid7, Self::Ulid, Self::Sequenced, Self::Event, Self::Opaque];

    /// The name used in settings and tags.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Uuid7 => "uuid7",
            Self::Ulid => "ulid",
            Self::Sequenced => "sequenced",
            Self::Event => "event",
            Self::Opaque => "opaque",
        }
    }

    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|format| format.name() == name)
    }

    /// Parses a text as an id of this format.
    ///
    /// A sequenced id is written `client/epoch/seq`, an event `millis/source/id` with a source without `/`
    /// ([`OpId::event`] takes any source).
    pub fn parse(self, text: &str) -> Result<OpId, IdError> {
        let invalid = |why| IdError::Invalid { format: self, why };
        let number = |text, why| number(text).ok_or(invalid(why));
        match self {
            Self::Uuid7 => uuid::parse7(text.as_bytes()).map(OpId::Uuid7).map_err(invalid),
            Self::Ulid => ulid::parse(text).map(OpId::Ulid).map_err(invalid),
            Self::Opaque => OpId::opaque(text.as_bytes()),
            Self::Sequenced => {
                let form = "write it as client/epoch/seq";
                let (rest, seq) = text.rsplit_once('/').ok_or(invalid(form))?;
                let (client, epoch) = rest.rsplit_once('/').ok_or(invalid(form))?;
                let epoch = number(epoch, "the epoch is not a number")?;
                OpId::sequenced(client, epoch, number(seq, "the sequence is not a number")?)
            }
            Self::Event => {
                let form = "write it as millis/source/id";
                let (millis, rest) = text.split_once('/').ok_or(invalid(form))?;
                let (source, id) = rest.split_once('/').ok_or(invalid(form))?;
                OpId::event(source, id, number(millis, "the time is not a number")?)
            }
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}

/// Decimal digits only: no sign, no space, and no leading zero, which would give one number two texts.
fn number(text: &str) -> Option<u64> {
    let plain = text.bytes().all(|byte| byte.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
    if plain { text.parse().ok() } else { None }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Formats(u8);

impl Formats {
    pub const NONE: Self = Self(0);

    pub const fn only(format: Format) -> Self {
        Self(1 << format as u8)
    }

    #[must_use]
    pub const fn and(self, format: Format) -> Self {
        Self(self.0 | 1 << format as u8)
    }

    pub const fn contains(self, format: Format) -> bool {
        self.0 & (1 << format as u8) != 0
    }

    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The formats, in the order of [`Format::ALL`].
    pub fn iter(self) -> impl Iterator<Item = Format> {
        Format::ALL.into_iter().filter(move |format| self.contains(*format))
    }

    /// Parses a text as an id of one of these formats. With one format the whole text is the id; with several
    /// it begins with the format's name and a colon: `ulid:01J...`.
    pub fn parse(self, text: &str) -> Result<OpId, IdError> {
        let mut formats = self.iter();
        if let (Some(only), None) = (formats.next(), formats.next()) {
            return only.parse(text);
        }
        let (format, id) = text
            .split_once(':')
            .and_then(|(tag, id)| Some((Format::from_name(tag)?, id)))
            .ok_or(IdError::Untagged(self))?;
        if !self.contains(format) {
            return Err(IdError::NotTaken { found: format, taken: self });
        }
        format.parse(id)
    }

    pub fn parse_bytes(self, bytes: &[u8]) -> Result<OpId, IdError> {
        // The common format has a parser for bytes, which needs no UTF-8 check.
        if self == Self::NONE.and(Format::Uuid7) {
            let invalid = |why| IdError::Invalid { format: Format::Uuid7, why };
            return uuid::parse7(bytes).map(OpId::Uuid7).map_err(invalid);
        }
        self.parse(std::str::from_utf8(bytes).map_err(|_| IdError::NotText)?)
    }

    pub(crate) fn encode(self, out: &mut Vec<u8>) {
        out.put_u8(self.0);
    }

    pub(crate) fn decode(input: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let formats = Self(input.u8()?);
        let known = Format::ALL.into_iter().fold(Self::NONE, Self::and);
        if formats.0 & !known.0 == 0 { Ok(formats) } else { Err(DecodeError("an unknown id format")) }
    }
}

impl fmt::Display for Formats {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return out.write_str("none");
        }
        for (at, format) in self.iter().enumerate() {
            let comma = if at == 0 { "" } else { ", " };
            write!(out, "{comma}{format}")?;
        }
        Ok(())
    }
}

impl OpId {
    pub fn sequenced(client: &str, epoch: u64, seq: u64) -> Result<Self, IdError> {
        Self::Sequenced { client: client.into(), epoch, seq }.checked()
    }

    pub fn event(source: &str, id: &str, millis: u64) -> Result<Self, IdError> {
        Self::Event { source: source.into(), id: id.into(), millis }.checked()
    }

    pub fn opaque(bytes: &[u8]) -> Result<Self, IdError> {
        Self::Opaque(bytes.into()).checked()
    }

    /// A UUID of version 7 with this time (the low 48 bits count) and the low 74 bits of `random`.
    pub fn uuid7_from(millis: u64, random: u128) -> Self {
        let (high, low) = (random >> 62 & 0xfff, random & ((1 << 62) - 1));
        Self::Uuid7(u128::from(millis) << 80 | 7 << 76 | high << 64 | 0b10 << 62 | low)
    }

    /// A UUID of version 7 from its 128 bits.
    pub fn uuid7(bits: u128) -> Result<Self, IdError> {
        Self::Uuid7(bits).checked()
    }

    fn checked(self) -> Result<Self, IdError> {
        self.check()?;
        Ok(self)
    }

    /// Checks the limits of the id's format.
    pub fn check(&self) -> Result<(), IdError> {
        let why = match self {
            Self::Uuid7(bits) => uuid::check7(*bits).err(),
            Self::Ulid(_) => None,
            Self::Sequenced { client, seq, .. } => match client.len() {
                0 => Some("the client is empty"),
                len if len > CLIENT_BYTES_MAX => Some("the client is longer than 64 bytes"),
                _ => (*seq == 0).then_some("sequence numbers begin at 1"),
            },
            Self::Event { source, id, .. } => match (source.len(), id.len()) {
                (0, _) | (_, 0) => Some("source and id must not be empty"),
                (a, b) => (a.max(b) > ID_BYTES_MAX).then_some("source and id have at most 255 bytes each"),
            },
            Self::Opaque(bytes) if bytes.is_empty() => Some("it is empty"),
            Self::Opaque(bytes) => (bytes.len() > ID_BYTES_MAX).then_some("it is longer than 255 bytes"),
        };
        why.map_or(Ok(()), |why| Err(IdError::Invalid { format: self.format(), why }))
    }

    pub fn format(&self) -> Format {
        match self {
            Self::Uuid7(_) => Format::Uuid7,
            Self::Ulid(_) => Format::Ulid,
            Self::Sequenced { .. } => Format::Sequenced,
            Self::Event { .. } => Format::Event,
            Self::Opaque(_) => Format::Opaque,
        }
    }

    /// The time in the id, if its format has one.
    pub fn dated(&self) -> Option<Timestamp> {
        match self {
            Self::Uuid7(bits) | Self::Ulid(bits) => Some(Timestamp::from_millis((bits >> 80) as u64)),
            Self::Event { millis, .. } => Some(Timestamp::from_millis(*millis)),
            Self::Sequenced { .. } | Self::Opaque(_) => None,
        }
    }

    pub fn encode(&self, out: &mut Vec<u8>) {
        out.put_u8(self.format() as u8);
        match self {
            Self::Uuid7(bits) | Self::Ulid(bits) => out.put_u128(*bits),
            Self::Sequenced { client, epoch, seq } => {
                out.put_bytes(client.as_bytes());
                out.put_varint(*epoch);
                out.put_varint(*seq);
            }
            Self::Event { source, id, millis } => {
                out.put_bytes(source.as_bytes());
                out.put_bytes(id.as_bytes());
                out.put_varint(*millis);
            }
            Self::Opaque(bytes) => out.put_bytes(bytes),
        }
    }

    pub fn decode(input: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let number = input.u8()?;
        let format = Format::ALL
            .into_iter()
            .find(|format| *format as u8 == number)
            .ok_or(DecodeError("an unknown id format"))?;
        // The operation that carries the id checks its limits.
        Ok(match format {
            Format::Uuid7 => Self::Uuid7(input.u128()?),
            Format::Ulid => Self::Ulid(input.u128()?),
            Format::Sequenced => {
                Self::Sequenced { client: input.text()?.into(), epoch: input.varint()?, seq: input.varint()? }
            }
            Format::Event => {
                let (source, id) = (input.text()?.into(), input.text()?.into());
                Self::Event { source, id, millis: input.varint()? }
            }
            Format::Opaque => Self::Opaque(input.bytes()?.into()),
        })
    }
}

impl fmt::Display for OpId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Uuid7(bits) => uuid::display(*bits, out),
            Self::Ulid(bits) => ulid::display(*bits, out),
            Self::Sequenced { client, epoch, seq } => write!(out, "{client}/{epoch}/{seq}"),
            Self::Event { source, id, millis } => write!(out, "{millis}/{source}/{id}"),
            // Printable text is unchanged, so that it parses back; control characters are escaped.
            Self::Opaque(bytes) => match std::str::from_utf8(bytes) {
                Ok(text) if !text.chars().any(char::is_control) => out.write_str(text),
                _ => write!(out, "{}", bytes.escape_ascii()),
            },
        }
    }
}
