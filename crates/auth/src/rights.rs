//! Rights in a table: flags, none of which includes another.
//!
//! A producer of clicks should be able to add without reading, and a dashboard to read without adding. So `add` is not
//! "more than" `read`, and `admin` gives neither: whoever needs several rights is given several.

use std::fmt;
use std::str::FromStr;

/// One right in a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Right {
    /// Read counters.
    Read,
    /// Change counters.
    Add,
    /// Create, configure, flush and delete tables.
    Admin,
}

/// A set of rights. As text: their names, in any order, with spaces between.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Rights(u8);

/// A text that is no set of rights.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RightsError {
    /// A word that names no right.
    #[error(
        "rights are words of \"read\", \"add\" and \"admin\" with spaces between, and one of the words is none of these"
    )]
    Word,
    /// A right that is named twice.
    #[error("{0} is named twice")]
    Twice(Right),
    /// No right at all.
    #[error("names no right")]
    Empty,
}

impl Right {
    /// All rights.
    pub const ALL: [Self; 3] = [Self::Read, Self::Add, Self::Admin];

    /// As it is written.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Add => "add",
            Self::Admin => "admin",
        }
    }

    const fn flag(self) -> u8 {
        match self {
            Self::Read => 1,
            Self::Add => 2,
            Self::Admin => 4,
        }
    }
}

impl fmt::Display for Right {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Rights {
    /// No right.
    pub const NONE: Self = Self(0);

    /// Every right.
    pub const ALL: Self = Self::NONE.with(Right::Read).with(Right::Add).with(Right::Admin);

    /// These, and this one.
    #[must_use]
    pub const fn with(self, right: Right) -> Self {
        Self(self.0 | right.flag())
    }

    /// Whether this one is among them.
    pub const fn has(self, right: Right) -> bool {
        self.0 & right.flag() != 0
    }

    /// Whether there is none.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }
}

impl FromIterator<Right> for Rights {
    fn from_iter<I: IntoIterator<Item = Right>>(rights: I) -> Self {
        rights.into_iter().fold(Self::NONE, Self::with)
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
