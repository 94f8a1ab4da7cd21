//! Load and processor time of the machine.

/// Load average of the last minute; `None` if the system does not provide it.
pub(crate) fn average() -> f64 {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().and_then(|word| word.parse().ok()).unwrap_or(f64::NAN)
}

/// Processor seconds since the start of the machine and of this process.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct CpuSeconds {
    /// All processes.
    pub(crate) machine: f64,
    /// This process.
    pub(crate) own: f64,
}

/// Clock ticks per second of the system's counters.
const TICKS: f64 = 100.0;

impl CpuSeconds {
    /// `None` if the system does not provide it.
    pub(crate) fn now() -> Self {
        let machine = std::fs::read_to_string("/proc/stat").unwrap_or_default();
        let own = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
        Self::read(&machine, &own)
    }

    fn read(machine: &str, own: &str) -> Self {
        let number = |word: &str| word.parse().unwrap_or(f64::NAN);
        let line: Vec<f64> =
            machine.lines().next().unwrap_or_default().split_whitespace().skip(1).map(number).collect();
        // User, nice, system and interrupts; idle time and waits for a disk do not count.
        let machine: f64 =
            [0, 1, 2, 5, 6].map(|place| line.get(place).copied().unwrap_or(f64::NAN)).iter().sum();
        // The name of the program is in brackets, and may contain spaces.
        let rest = own.rsplit_once(')').map(|(_, rest)| rest).unwrap_or_default();
        let words: Vec<f64> = rest.split_whitespace().skip(11).take(2).map(number).collect();
        let own: f64 = [0, 1].map(|place| words.get(place).copied().unwrap_or(f64::NAN)).iter().sum();
        Self { machine: machine / TICKS, own: own / TICKS }
    }

    /// Processor seconds since `before`.
    pub(crate) fn since(self, before: Self) -> Self {
        Self { machine: self.machine - before.machine, own: self.own - before.own }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_times_are_parsed() {
        let machine = "cpu  100 20 300 9999 8888 5 6 7 0 0\ncpu0 1 2 3";
        let own = "77 (a (strange name) S 1 2 3 4 5 6 7 8 9 10 250 150 0 0";
        let worked = CpuSeconds::read(machine, own);
        assert_eq!(worked, CpuSeconds { machine: 4.31, own: 4.0 });
        assert!(CpuSeconds::read("", "").machine.is_nan());
    }
}
