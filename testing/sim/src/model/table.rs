//! A table as its owner knows it: the settings now, and what earlier ones allow.

use jeton_core::{Durability, Formats, Mode, TableSettings};

/// A table.
#[derive(Debug, Clone)]
pub struct TableModel {
    /// Its name.
    pub name: String,
    /// Its settings, since the last change that certainly happened.
    pub settings: TableSettings,
    /// A change of which it is not known whether it happened.
    pub unsure: Option<TableSettings>,
    /// Whether it is there for certain.
    pub made: bool,
    /// The shortest dated window that it ever had, in milliseconds.
    pub least_window: u64,
    /// The shortest skew that it ever had, in milliseconds.
    pub least_skew: u64,
    /// The formats that it took at all times.
    pub always: Formats,
    /// Whether it ever was probabilistic.
    pub ever_probabilistic: bool,
    /// Whether its false positives are too rare to be seen.
    pub tight: bool,
}

impl TableModel {
    /// A table that is to be made.
    pub fn new(name: String, settings: TableSettings) -> Self {
        let mut table = Self {
            name,
            settings: settings.clone(),
            unsure: None,
            made: false,
            least_window: u64::MAX,
            least_skew: u64::MAX,
            always: settings.formats,
            ever_probabilistic: false,
            tight: true,
        };
        table.admit(&settings);
        table
    }

    /// Whether an acknowledgement survives every crash.
    pub fn strict(&self) -> bool {
        self.settings.durability == Durability::Strict
    }

    /// These settings may be, or have been, in force.
    pub fn admit(&mut self, settings: &TableSettings) {
        self.least_window = self.least_window.min(settings.dated_window.as_millis() as u64);
        self.least_skew = self.least_skew.min(settings.skew.as_millis() as u64);
        let both = self.always.iter().filter(|format| settings.formats.contains(*format));
        self.always = both.fold(Formats::NONE, Formats::and);
        if let Mode::Probabilistic { target } = settings.mode {
            self.ever_probabilistic = true;
            self.tight &= target < 1e-6;
        }
    }
}
