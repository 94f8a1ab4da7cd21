//! The memory that this process may use, and defaults that depend on it.

use std::fs;
use std::path::Path;

/// If neither a cgroup nor the system states a size.
const UNKNOWN: usize = 1 << 30;

const MIB: usize = 1 << 20;

/// What a store needs whatever its size: recent ids, buffers of the log and of checkpoints, code.
const FIXED: usize = 192 * MIB;

/// This fraction of the memory that this process may use, in whole MiB: of the machine's, or of the lowest
/// limit of its cgroups.
pub fn memory_fraction(fraction: usize) -> usize {
    whole_mib(available() / fraction)
}

fn available() -> usize {
    let read = |path: &Path| fs::read_to_string(path).ok();
    cgroup_limits(&read).chain(machine(&read)).min().unwrap_or(UNKNOWN)
}

fn whole_mib(bytes: usize) -> usize {
    (bytes / MIB).max(1) * MIB
}

/// Clients, caches and sessions need the other half.
pub(crate) fn default_memory_max() -> usize {
    half_besides_fixed(available())
}

/// Half of what is left after the fixed part, which is at most half of all.
fn half_besides_fixed(available: usize) -> usize {
    whole_mib((available - FIXED.min(available / 2)) / 2)
}

/// The default of a cache of at most `max` bytes: less on machines with less than 16 times of it.
pub(crate) fn default_cache(max: usize) -> usize {
    max.min(default_memory_max() / 8).max(MIB)
}

fn machine(read: &impl Fn(&Path) -> Option<String>) -> Option<usize> {
    let info = read(Path::new("/proc/meminfo"))?;
    let line = info.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<usize>().ok()?.checked_mul(1024)
}

/// The limits of the cgroup of this process and of its ancestors, of version 2 and 1.
fn cgroup_limits(read: &impl Fn(&Path) -> Option<String>) -> impl Iterator<Item = usize> {
    let own = read(Path::new("/proc/self/cgroup")).unwrap_or_default();
    own.lines()
        .filter_map(|line| {
            let mut fields = line.splitn(3, ':').skip(1);
            let (root, file) = match fields.next()? {
                "" => ("/sys/fs/cgroup", "memory.max"),
                controllers if controllers.split(',').any(|one| one == "memory") => {
                    ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")
                }
                _ => return None,
            };
            Some((root, file, fields.next()?.trim_start_matches('/')))
        })
        .flat_map(|(root, file, group)| {
            // In a container the path may be that of the host: then only the root exists.
            let groups = Path::new(group).ancestors().filter(|group| !group.has_root());
            groups.map(|group| Path::new(root).join(group).join(file)).collect::<Vec<_>>()
        })
        .filter_map(|path| read(&path)?.trim().parse().ok())
        .collect::<Vec<_>>()
        .into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(files: &[(&str, &str)]) -> Vec<usize> {
        let read = |path: &Path| {
            files.iter().find(|(name, _)| Path::new(name) == path).map(|(_, text)| (*text).to_owned())
        };
        cgroup_limits(&read).chain(machine(&read)).collect()
    }

    #[test]
    fn limits_of_cgroups_and_machine_are_found() {
        let own = ("/proc/self/cgroup", "4:cpu,memory:/one\n0::/a/b\n");
        for (files, expected) in [
            (vec![], vec![]),
            (vec![own], vec![]),
            (vec![own, ("/sys/fs/cgroup/memory/one/memory.limit_in_bytes", "700\n")], vec![700]),
            (
                vec![
                    own,
                    ("/sys/fs/cgroup/a/b/memory.max", "max\n"),
                    ("/sys/fs/cgroup/a/memory.max", "500\n"),
                    ("/sys/fs/cgroup/memory.max", "900\n"),
                ],
                vec![500, 900],
            ),
            (vec![("/proc/meminfo", "MemFree: 1 kB\nMemTotal:     2 kB\n")], vec![2048]),
        ] {
            assert_eq!(limits(&files), expected, "{files:?}");
        }
        assert!(default_memory_max() >= MIB);
        let halves = [0, 256 * MIB, 512 * MIB, 16 << 30].map(half_besides_fixed);
        assert_eq!(halves, [MIB, 64 * MIB, 160 * MIB, (8 << 30) - 96 * MIB]);
    }
}
