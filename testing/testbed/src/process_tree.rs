//! A process and its descendants.
//!
//! PostgreSQL puts its backends into process groups of their own, so a signal to the group of the root
//! process does not reach them.

use rustix::process::{Pid, Signal, kill_process};

/// Sends a signal to a process and all its descendants. The root process is stopped first, so that it starts
/// no more children while they are listed.
pub fn signal(process: u32, signal: Signal) -> Vec<u32> {
    send(process, Signal::STOP);
    let processes = descendants(process);
    // The root last, so that its children do not react to its end.
    for process in processes.iter().rev() {
        send(*process, signal);
    }
    processes
}

/// Whether a process exists and is not a zombie.
pub fn is_alive(process: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, fields)| !fields.trim_start().starts_with('Z'))
}

/// Whether all threads of a process are stopped or gone. A stop signal reaches the threads one after the
/// other.
pub fn is_stopped(process: u32) -> bool {
    let threads = std::fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("stat")).ok()).all(|stat| {
        stat.rsplit_once(')').is_none_or(|(_, fields)| fields.trim_start().starts_with(['T', 'Z', 'X']))
    })
}

fn send(process: u32, signal: Signal) {
    if let Some(pid) = i32::try_from(process).ok().and_then(Pid::from_raw) {
        let _already_exited = kill_process(pid, signal);
    }
}

/// The process and all its descendants, parents before their children.
fn descendants(process: u32) -> Vec<u32> {
    let all: Vec<(u32, u32)> = std::fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| parse_stat(&std::fs::read_to_string(entry.path().join("stat")).ok()?))
        .collect();
    let mut tree = vec![process];
    let mut next = 0;
    while let Some(&process) = tree.get(next) {
        tree.extend(all.iter().filter(|(_, parent)| *parent == process).map(|(child, _)| child));
        next += 1;
    }
    tree
}

/// The process id and the parent id in `/proc/<process>/stat`.
fn parse_stat(stat: &str) -> Option<(u32, u32)> {
    // The name is in parentheses and may contain spaces.
    let (head, tail) = stat.rsplit_once(')')?;
    Some((head.split_once(' ')?.0.parse().ok()?, tail.split_whitespace().nth(1)?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stat_with_spaces_in_the_name_is_parsed() {
        assert_eq!(parse_stat("42 (a (b) c) S 7 42 42 0"), Some((42, 7)));
        assert!(is_alive(std::process::id()) && !is_stopped(std::process::id()));
        assert_eq!(descendants(u32::MAX), [u32::MAX]);
    }

    #[test]
    fn grandchildren_in_other_groups_are_signalled() {
        let mut child = std::process::Command::new("sh")
            .args(["-c", "setsid sh -c 'sleep 600; true' & sleep 600; true"])
            .spawn()
            .unwrap();
        while descendants(child.id()).len() < 4 {
            std::thread::yield_now();
        }
        let processes = signal(child.id(), Signal::KILL);
        child.wait().unwrap();
        assert!(processes.len() >= 4, "{processes:?}");
        while processes.iter().any(|process| is_alive(*process)) {
            std::thread::yield_now();
        }
    }
}
