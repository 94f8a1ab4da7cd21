//! Statistics of the injected faults.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use crate::cluster::Database;
use crate::fault_points;

#[derive(Default)]
pub struct Report {
    faults: BTreeMap<String, usize>,
    /// The failpoints at which a server was killed. Stops do not count.
    pub servers: BTreeMap<String, usize>,
    /// The failpoints at which a database was killed while a server was stopped there.
    pub databases: BTreeMap<String, Vec<Database>>,
    pub elapsed: Duration,
}

impl Report {
    pub fn count(&mut self, fault: impl Into<String>) {
        *self.faults.entry(fault.into()).or_default() += 1;
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let faults: Vec<String> =
            self.faults.iter().map(|(fault, times)| format!("{fault} {times}")).collect();
        let count: usize = self.faults.values().sum();
        writeln!(f, "{count} faults in {:.0?}: {}", self.elapsed, faults.join(", "))?;
        let all = fault_points::all();
        let missed = |is_met: &dyn Fn(&str) -> bool| {
            let missed: Vec<&str> = all.iter().map(String::as_str).filter(|point| !is_met(point)).collect();
            if missed.is_empty() { String::new() } else { format!("; not {}", missed.join(", ")) }
        };
        writeln!(f, "servers killed at points{}", missed(&|point| self.servers.contains_key(point)))?;
        let killed =
            |database| self.databases.values().flatten().filter(|killed| **killed == database).count();
        let times = Database::ALL.map(|database| format!("{} {}", database.name(), killed(database)));
        let which = missed(&|point| self.databases.contains_key(point));
        writeln!(f, "databases killed at points: {}{which}", times.join(", "))?;
        write!(
            f,
            "of {} points: a server was killed at {}, a database at {}",
            all.len(),
            self.servers.len(),
            self.databases.len()
        )
    }
}
