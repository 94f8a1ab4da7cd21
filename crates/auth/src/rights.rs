//! Rights in a table: independent flags.
//!
//! A producer adds without reading, and a dashboard reads without adding. So `add` does not include `read`,
//! and `admin` includes neither: a token that needs several rights gets several.

use std::fmt;
use std::str::FromStr;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Right {
    Read,
    Add,
    /// Create, configure, flush and delete tables.
    Admin,
}

/// A set of rights. Its text is the list of names in any order, separated by spaces.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Rights(u8);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RightsError {
    #[error(
        "the rights are \"read\", \"add\" and \"admin\", separated by spaces; one of the words is none of these"
    )]
    Word,
    #[error("{0} occurs twice")]
    Twice(Right),
    #[error("the list of rights is empty")]
    Empty,
}

impl Right {
    pub const ALL: [Self; 3] = [Self::Read, Self::Add, Self::Admin];

    /// The name in files and messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Add => "add",
            Self::Admin => "admin",
        }
    }

    const fn flag(self) -> u8 {
        1 << self as u8
    }
}

impl fmt::Display for Right {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Rights {
    pub const NONE: Self = Self(0);

    pub const ALL: Self = Self::NONE.with(Right::Read).with(Right::Add).with(Right::Admin);

    #[must_use]
    pub const fn with(self, right: Right) -> Self {
        Self(self.0 | right.flag())
    }

    pub const fn has(self, right: Right) -> bool {
        self.0 & right.flag() != 0
    }

    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }
}

impl FromStr for Rights {
    type Err = RightsError;

    fn from_str(text: &str) -> Result<Self, RightsError> {
        let mut rights = Self::NONE;
        for word in text.split_ascii_whitespace() {
            let right = Right::ALL.into_iter().find(|right| right.name() == word);
            let right = right.ok_or(RightsError::Word)?;
            if rights.has(right) {
                return Err(RightsError::Twice(right));
            }
            rights = rights.with(right);
        }
        if rights.is_empty() { Err(RightsError::Empty) } else { Ok(rights) }
    }
}

impl fmt::Display for Rights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut space = "";
        for right in Right::ALL.into_iter().filter(|right| self.has(*right)) {
            write!(f, "{space}{right}")?;
            space = " ";
        }
        Ok(())
    }
}

impl fmt::Debug for Rights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Rights({self})")
    }
}
