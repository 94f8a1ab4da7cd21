//! The data of a figure as CSV.
//!
//! Invariant: numbers are formatted identically on every machine, so that two runs can be compared byte for
//! byte. Rates have seven significant digits; more would show the last bits of the machine's `exp`.

/// A table with a header.
pub(crate) struct Table {
    header: Vec<&'static str>,
    rows: Vec<Vec<Cell>>,
}

/// One value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Cell {
    Count(u64),
    /// A number with a fixed number of decimals.
    Number(f64, usize),
    /// A rate, in scientific notation.
    Rate(f64),
    Text(&'static str),
    /// Not known or not applicable.
    Empty,
}

impl Table {
    pub(crate) fn new(header: &[&'static str]) -> Self {
        Self { header: header.to_vec(), rows: Vec::new() }
    }

    /// Adds a row; it must have a cell for each column.
    pub(crate) fn push(&mut self, row: Vec<Cell>) {
        assert_eq!(row.len(), self.header.len(), "a row has a cell for each column: {:?}", self.header);
        self.rows.push(row);
    }

    pub(crate) fn render(&self) -> String {
        let mut text = self.header.join(",");
        text.push('\n');
        for row in &self.rows {
            let cells: Vec<String> = row.iter().map(Cell::render).collect();
            text.push_str(&cells.join(","));
            text.push('\n');
        }
        text
    }
}

impl Cell {
    fn render(&self) -> String {
        match self {
            Self::Count(count) => count.to_string(),
            Self::Number(number, decimals) => format!("{number:.decimals$}"),
            Self::Rate(rate) => format!("{rate:.6e}"),
            Self::Text(text) => (*text).to_owned(),
            Self::Empty => String::new(),
        }
    }
}
