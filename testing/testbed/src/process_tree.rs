//! A process and its descendants.
//!
//! The backends of PostgreSQL are in process groups of their own: a signal to the group of the first process does not reach them.

use rustix::process::{Pid, Signal, kill_process};

/// Sends a signal to a process and to all its descendants. The first process is stopped before the others are looked for: it can
/// start no more of them.
pub fn signal(process: u32, signal: Signal) -> Vec<u32> {
    send(process, Signal::STOP);
    let family = members(process);
    // The eldest last: the others do not see it go before their own turn has come.
    for member in family.iter().rev() {
        send(*member, signal);
    }
    family
}

/// Whether a process is there, and not only as a record of how it ended.
pub fn is_alive(process: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, fields)| !fields.trim_start().starts_with('Z'))
}

/// Whether none of the threads of a process runs any more: all are stopped, or gone. A signal to stop reaches them one after the other.
pub fn is_stopped(process: u32) -> bool {
    let threads = std::fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("stat")).ok()).all(|stat| {
        stat.rsplit_once(')').is_none_or(|(_, fields)| fields.trim_start().starts_with(['T', 'Z', 'X']))
    })
}

fn send(process: u32, signal: Signal) {
    if let Some(pid) = i32::try_from(process).ok().and_then(Pid::from_raw) {
        let _gone_already = kill_process(pid, signal);
    }
}

/// The process and all its descendants, parents before their children.
fn members(process: u32) -> Vec<u32> {
    let all: Vec<(u32, u32)> = std::fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| parentage(&std::fs::read_to_string(entry.path().join("stat")).ok()?))
        .collect();
    let mut family = vec![process];
    let mut at = 0;
    while let Some(&member) = family.get(at) {
        family.extend(all.iter().filter(|(_, parent)| *parent == member).map(|(child, _)| child));
        at += 1;
    }
    family
}

/// Process and parent of a line of `/proc/<process>/stat`.
fn parentage(stat: &str) -> Option<(u32, u32)> {
    // The name is in brackets and may hold spaces.
    let (head, tail) = stat.rsplit_once(')')?;
    Some((head.split_once(' ')?.0.parse().ok()?, tail.split_whitespace().nth(1)?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parent_is_read_past_a_name_with_spaces() {
        assert_eq!(parentage("42 (a (b) c) S 7 42 42 0"), Some((42, 7)));
        assert!(is_alive(std::process::id()) && !is_stopped(std::process::id()));
        assert_eq!(members(u32::MAX), [u32::MAX]);
    }

    #[test]
    fn grandchildren_in_groups_of_their_own_are_reached() {
        let mut child = std::process::Command::new("sh")
            .args(["-c", "setsid sh -c 'sleep 600; true' & sleep 600; true"])
            .spawn()
            .unwrap();
        while members(child.id()).len() < 4 {
            std::thread::yield_now();
        }
        let family = signal(child.id(), Signal::KILL);
        child.wait().unwrap();
        assert!(family.len() >= 4, "{family:?}");
        while family.iter().any(|member| is_alive(*member)) {
            std::thread::yield_now();
        }
    }
}
