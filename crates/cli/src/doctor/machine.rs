//! Checks of the machine: clock, limit of open files, kernel settings.

use std::fs;
use std::path::Path;

use super::Finding;
use crate::config::Settings;
use crate::{date, id, open_file_limit};

/// A time before the first version, in milliseconds since 1970: an earlier clock was never set.
const FIRST_VERSION: u64 = 1_750_000_000_000;

/// Backlog of the listeners.
const BACKLOG: u64 = 1024;

pub fn findings(settings: &Settings) -> Vec<Finding> {
    let mut findings = vec![open_files(settings)];
    findings.extend(backlog());
    findings.extend(huge_pages());
    findings
}

/// Whether the clock was set and is synchronised.
pub fn clock() -> Finding {
    let now = id::millis();
    let text = date::text(now);
    if now < FIRST_VERSION {
        return Finding::fail(
            "clock",
            format!("{text}: it was never set"),
            "set it, preferably by NTP: ids contain the time",
        );
    }
    if Path::new("/run/systemd/timesync/synchronized").exists() {
        return Finding::ok("clock", format!("{text}, set by NTP"));
    }
    // Other NTP clients leave no such file.
    Finding::ok("clock", format!("{text}; synchronisation unknown"))
}

fn open_files(settings: &Settings) -> Finding {
    // The server raises its soft limit to the hard limit.
    let (limit, needed) = (open_file_limit::hard_limit(), open_file_limit::needed(settings));
    if limit < needed {
        let found = format!(
            "{limit} may be open, and {} connections per protocol need {needed}",
            settings.connections_max
        );
        let fix =
            format!("ulimit -Hn {needed} (LimitNOFILE={needed} in systemd), or lower --connections-max");
        return Finding::warn("open files", found, fix);
    }
    Finding::ok("open files", format!("{limit} may be open"))
}

fn backlog() -> Option<Finding> {
    let text = fs::read_to_string("/proc/sys/net/core/somaxconn").ok()?;
    let limit: u64 = text.trim().parse().ok()?;
    Some(if limit < BACKLOG {
        let found = format!("{limit} connections may wait to be accepted");
        Finding::warn("backlog", found, format!("sysctl net.core.somaxconn={BACKLOG}"))
    } else {
        Finding::ok("backlog", format!("{limit} connections may wait to be accepted"))
    })
}

fn huge_pages() -> Option<Finding> {
    let text = fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled").ok()?;
    Some(if text.contains("[always]") {
        let fix = "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled";
        Finding::warn("huge pages", "always: processes may use more memory than they need", fix)
    } else {
        Finding::ok("huge pages", "not forced")
    })
}
