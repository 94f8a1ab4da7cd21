//! Checks of the machine: its clock, how many files may be open, and settings of the kernel that are worth a word.

use std::fs;
use std::path::Path;

use super::Finding;
use crate::config::Settings;
use crate::{date, id, open_file_limit};

/// The year of the first version, in milliseconds since 1970: a clock before it was never set.
const FIRST_VERSION: u64 = 1_750_000_000_000;

/// Clients that may wait to be accepted.
const BACKLOG: u64 = 1024;

/// What the machine is like.
pub fn findings(settings: &Settings) -> Vec<Finding> {
    let mut findings = vec![open_files(settings)];
    findings.extend(backlog());
    findings.extend(huge_pages());
    findings
}

/// Whether the clock was set, and is kept.
pub fn clock() -> Finding {
    let now = id::millis();
    let text = date::text(now);
    if now < FIRST_VERSION {
        return Finding::fail(
            "clock",
            format!("{text}: it was never set"),
            "set it, best by NTP: ids carry the time",
        );
    }
    if Path::new("/run/systemd/timesync/synchronized").exists() {
        return Finding::ok("clock", format!("{text}, set by NTP"));
    }
    // Others keep the clock too, and do not tell: then that is all that is known.
    Finding::ok("clock", format!("{text}; whether something keeps it is not known here"))
}

fn open_files(settings: &Settings) -> Finding {
    // A server raises its own limit as far as it may.
    let (limit, wanted) = (open_file_limit::most(), open_file_limit::wanted(settings));
    if limit < wanted {
        let found = format!(
            "{limit} may be open, and {} connections of each protocol need {wanted}",
            settings.connections_max
        );
        let fix =
            format!("ulimit -Hn {wanted} (LimitNOFILE={wanted} in systemd), or a smaller --connections-max");
        return Finding::warn("open files", found, fix);
    }
    Finding::ok("open files", format!("{limit} may be open"))
}

fn backlog() -> Option<Finding> {
    let text = fs::read_to_string("/proc/sys/net/core/somaxconn").ok()?;
    let limit: u64 = text.trim().parse().ok()?;
    Some(if limit < BACKLOG {
        let found = format!("{limit} clients may wait to be accepted");
        Finding::warn("backlog", found, format!("sysctl net.core.somaxconn={BACKLOG}"))
    } else {
        Finding::ok("backlog", format!("{limit} clients may wait to be accepted"))
    })
}

fn huge_pages() -> Option<Finding> {
    let text = fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled").ok()?;
    Some(if text.contains("[always]") {
        let fix = "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled";
        Finding::warn("huge pages", "always: memory may be taken in larger pieces than is used", fix)
    } else {
        Finding::ok("huge pages", "not forced")
    })
}
