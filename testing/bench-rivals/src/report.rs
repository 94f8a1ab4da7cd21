//! Medians with quartiles, verdicts on the bars, and the system's own words for how busy it is.

use std::fmt;

/// The median of measurements, with the quartiles.
#[derive(Clone, Copy)]
pub struct Spread {
    pub median: f64,
    low: f64,
    high: f64,
}

/// Median and quartiles; NaN without values.
pub fn spread(values: impl IntoIterator<Item = f64>) -> Spread {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    let at = |part: f64| {
        let last = values.len().saturating_sub(1);
        values.get((last as f64 * part).round() as usize).copied().unwrap_or(f64::NAN)
    };
    Spread { median: at(0.5), low: at(0.25), high: at(0.75) }
}

impl fmt::Display for Spread {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { median, low, high } = self;
        if median.is_nan() {
            return write!(out, "not measured");
        }
        let digits = if *median >= 100.0 { 0 } else { 2 };
        write!(out, "{median:.digits$} ({low:.digits$} to {high:.digits$})")
    }
}

/// The required value of a measurement.
#[derive(Clone, Copy)]
pub enum Threshold {
    AtLeast(f64),
    AtMost(f64),
}

impl fmt::Display for Threshold {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AtLeast(bar) => write!(out, "≥ {bar}"),
            Self::AtMost(bar) => write!(out, "≤ {bar}"),
        }
    }
}

/// The comparisons of a part with their thresholds, printed as one table.
#[derive(Default)]
pub struct Verdicts(Vec<String>);

impl Verdicts {
    /// Adds a measurement with its threshold.
    pub fn judge(&mut self, what: &str, measured: Spread, bar: Option<Threshold>) {
        let verdict = match bar {
            None => "",
            Some(_) if measured.median.is_nan() => "not measured",
            Some(Threshold::AtLeast(bar)) if measured.median >= bar => "met",
            Some(Threshold::AtMost(bar)) if measured.median <= bar => "met",
            Some(_) => "MISSED",
        };
        let bar = bar.map(|bar| bar.to_string()).unwrap_or_default();
        self.0.push(format!("| {what} | {measured} | {bar} | {verdict} |"));
    }

    /// Prints the table and the load of the machine.
    pub fn print(self) {
        if !self.0.is_empty() {
            println!("\n| what | measured | bar | |\n|---|--:|--:|---|\n{}", self.0.join("\n"));
        }
        println!("\nAfter: {}.", load());
    }
}

/// The load of the machine.
pub fn load() -> String {
    let read = |path| std::fs::read_to_string(path).unwrap_or_default();
    let average = read("/proc/loadavg").split_whitespace().next().unwrap_or("?").to_string();
    let pressure = |path| {
        let text = read(path);
        text.split_whitespace().find_map(|word| word.strip_prefix("avg10=")).unwrap_or("?").to_string()
    };
    let (cpu, io) = (pressure("/proc/pressure/cpu"), pressure("/proc/pressure/io"));
    format!("load {average}, CPU pressure {cpu} %, I/O pressure {io} %")
}

/// An integer with thousands separators.
pub fn grouped(number: f64) -> String {
    let digits = format!("{:.0}", number.abs());
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    if number < -0.5 { format!("-{text}") } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_is_the_median_with_quartiles() {
        assert_eq!(spread([5.0, 1.0, 2.0, 4.0, 3.0]).to_string(), "3.00 (2.00 to 4.00)");
        assert_eq!(spread([]).to_string(), "not measured");
        assert_eq!(grouped(1_234_567.0), "1,234,567");
        assert_eq!(grouped(-999.0), "-999");
    }

    #[test]
    fn thresholds_are_lower_or_upper_bounds() {
        let mut verdicts = Verdicts::default();
        verdicts.judge("a", spread([2.0]), Some(Threshold::AtLeast(2.0)));
        verdicts.judge("b", spread([2.0]), Some(Threshold::AtMost(1.9)));
        verdicts.judge("c", spread([]), Some(Threshold::AtMost(1.9)));
        let ends: Vec<&str> = verdicts.0.iter().filter_map(|row| row.split('|').rev().nth(1)).collect();
        assert_eq!(ends, [" met ", " MISSED ", " not measured "]);
    }
}
