//! The model of a table: the current settings, and what all settings so far allow.

use jeton_core::{Durability, Formats, Mode, TableSettings};

#[derive(Debug, Clone)]
pub struct TableModel {
    pub name: String,
    /// The settings after the last change that is known to be stored.
    pub settings: TableSettings,
    /// A change with an unknown outcome.
    pub pending: Option<TableSettings>,
    /// Whether it certainly exists.
    pub created: bool,
    /// The shortest dated window so far, in milliseconds.
    pub least_window: u64,
    /// The shortest skew so far, in milliseconds.
    pub least_skew: u64,
    /// The formats that it always accepted.
    pub always: Formats,
    pub ever_probabilistic: bool,
    /// Whether false positives are too rare to occur.
    pub tight: bool,
}

impl TableModel {
    pub fn new(name: String, settings: TableSettings) -> Self {
        let mut table = Self {
            name,
            settings: settings.clone(),
            pending: None,
            created: false,
            least_window: u64::MAX,
            least_skew: u64::MAX,
            always: settings.formats,
            ever_probabilistic: false,
            tight: true,
        };
        table.admit(&settings);
        table
    }

    pub fn strict(&self) -> bool {
        self.settings.durability == Durability::Strict
    }

    /// Records settings that may be in force.
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
