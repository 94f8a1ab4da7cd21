//! Checks of the disk: permissions, free space, file system, sync latency.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use super::Finding;
use crate::config::Settings;
use crate::number_format;

/// Number of measured syncs, unless they exceed the time limit.
const SYNCS: usize = 200;
const SYNCS_TIME: Duration = Duration::from_secs(5);

/// Every acknowledgement waits for a sync; slower ones get a warning.
const SLOW: Duration = Duration::from_millis(50);
/// A faster sync does not reach a disk.
const TOO_FAST: Duration = Duration::from_micros(10);

/// Tolerated difference between the system clock and file timestamps.
const CLOCK_SLACK: Duration = Duration::from_secs(2);

/// Less free space gets a warning.
const FREE_MIN: u64 = 1 << 30;

pub fn findings(settings: &Settings) -> Vec<Finding> {
    let folder = existing(&settings.data);
    let probe = Probe::new(&folder);
    let mut findings = vec![match &probe {
        Ok(_) if settings.data.is_dir() => {
            Finding::ok("data", format!("{} is writable", settings.data.display()))
        }
        Ok(_) => Finding::ok("data", format!("{} can be created", settings.data.display())),
        Err(error) => {
            let fix = format!(
                "give this user write access (ls -ld {}), or choose another directory with --data",
                folder.display()
            );
            Finding::fail("data", format!("{} cannot be written: {error}", folder.display()), fix)
        }
    }];
    findings.push(free_space(&folder, settings));
    findings.push(file_system(&folder));
    if let Ok(probe) = &probe {
        findings.push(probe.syncs());
        findings.push(probe.clock());
    }
    findings
}

/// The directory, or its nearest existing ancestor.
fn existing(folder: &Path) -> PathBuf {
    let folder = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
    folder.ancestors().find(|above| above.exists()).map_or_else(|| PathBuf::from("/"), Path::to_owned)
}

fn free_space(folder: &Path, settings: &Settings) -> Finding {
    let fix =
        format!("free disk space (df -h {}), or choose another directory with --data", folder.display());
    let found = match rustix::fs::statvfs(folder) {
        Ok(found) => found,
        Err(error) => return Finding::warn("free space", format!("unknown: {error}"), fix),
    };
    let free = found.f_bavail.saturating_mul(found.f_frsize);
    let text = format!("{} free", number_format::bytes(free));
    // The log allocates its next segment in advance.
    match free {
        free if free < 4 * settings.segment_bytes.0 => Finding::fail("free space", text, fix),
        free if free < FREE_MIN => Finding::warn("free space", text, fix),
        _ => Finding::ok("free space", text),
    }
}

/// File systems with a disadvantage, by their magic number.
const KINDS: &[(u64, &str, &str)] = &[
    (0x0102_1994, "tmpfs", "it is memory: all data is lost when the machine stops"),
    (0x8584_58f6, "ramfs", "it is memory: all data is lost when the machine stops"),
    (
        0x794c_7630,
        "overlay",
        "a container layer is slow and lost with the container: mount a volume for --data",
    ),
    (0x6969, "NFS", "locks and syncs of network file systems are unreliable: use a local disk for --data"),
    (
        0xff53_4d42,
        "CIFS",
        "locks and syncs of network file systems are unreliable: use a local disk for --data",
    ),
    (
        0xfe53_4d42,
        "SMB",
        "locks and syncs of network file systems are unreliable: use a local disk for --data",
    ),
    (0x6573_5546, "FUSE", "syncs depend on the FUSE program: use a local disk for --data"),
    (0x0102_1997, "9p", "it is on another machine: use a local disk for --data"),
];

const GOOD: &[(u64, &str)] = &[
    (0xef53, "ext4"),
    (0x5846_5342, "xfs"),
    (0x9123_683e, "btrfs"),
    (0x2fc1_2fc1, "zfs"),
    (0xf2f5_2010, "f2fs"),
];

fn file_system(folder: &Path) -> Finding {
    let Ok(found) = rustix::fs::statfs(folder) else {
        return Finding::warn("file system", "unknown", "");
    };
    // The magic number has 32 bits; wider types are sign-extended.
    let number = (found.f_type as u64) & 0xffff_ffff;
    if let Some((_, name, disadvantage)) = KINDS.iter().find(|(known, _, _)| *known == number) {
        return Finding::warn("file system", *name, *disadvantage);
    }
    match GOOD.iter().find(|(known, _)| *known == number) {
        Some((_, name)) => Finding::ok("file system", *name),
        None => Finding::ok("file system", format!("magic number {number:#x}, no known disadvantage")),
    }
}

/// A temporary file for measurements.
struct Probe {
    path: PathBuf,
    file: File,
}

impl Drop for Probe {
    fn drop(&mut self) {
        let _left = fs::remove_file(&self.path);
    }
}

impl Probe {
    fn new(folder: &Path) -> io::Result<Self> {
        let path = folder.join(format!(".jeton-doctor-{}", std::process::id()));
        let file = OpenOptions::new().write(true).create_new(true).open(&path)?;
        Ok(Self { path, file })
    }

    fn syncs(&self) -> Finding {
        match self.measure() {
            Ok(times) => judge_syncs(times),
            Err(error) => Finding::fail("sync", format!("the disk does not sync: {error}"), "check the disk"),
        }
    }

    /// Latency of each sync of a block.
    fn measure(&self) -> io::Result<Vec<Duration>> {
        let block = [0; 4096];
        // Like the log, the measurement overwrites allocated blocks.
        for at in 0..SYNCS as u64 {
            self.file.write_all_at(&block, at * block.len() as u64)?;
        }
        self.file.sync_all()?;
        let (began, mut times) = (Instant::now(), Vec::new());
        for at in 0..SYNCS as u64 {
            let start = Instant::now();
            self.file.write_all_at(&[at as u8; 4096], at * block.len() as u64)?;
            self.file.sync_data()?;
            times.push(start.elapsed());
            if began.elapsed() > SYNCS_TIME {
                break;
            }
        }
        Ok(times)
    }

    /// Whether file timestamps use the system clock.
    fn clock(&self) -> Finding {
        let dated = self.file.write_all_at(b"now", 0).and_then(|()| self.file.metadata()?.modified());
        let now = SystemTime::now();
        match dated {
            Err(error) => Finding::warn("clock", format!("files have no timestamps: {error}"), ""),
            Ok(dated) => {
                let apart = now.duration_since(dated).unwrap_or_else(|early| early.duration());
                if apart > CLOCK_SLACK {
                    let found =
                        format!("the clocks of the disk and of this machine differ by {} s", apart.as_secs());
                    Finding::warn("clock", found, "synchronise both with NTP")
                } else {
                    super::machine::clock()
                }
            }
        }
    }
}

fn judge_syncs(mut times: Vec<Duration>) -> Finding {
    times.sort();
    let at = |share: usize| {
        times.get((times.len() * share / 100).min(times.len().saturating_sub(1))).copied().unwrap_or_default()
    };
    let (half, most) = (at(50), at(99));
    let millis = |time: Duration| format!("{:.2} ms", time.as_secs_f64() * 1e3);
    let text = format!("p50 {}, p99 {} of {} syncs", millis(half), millis(most), times.len());
    if half < TOO_FAST {
        let fix = "no disk is that fast: check that it is not memory and that syncs are not disabled";
        Finding::warn("sync", text, fix)
    } else if most > SLOW {
        Finding::warn(
            "sync",
            text,
            "every acknowledgement waits for a sync: a disk with power-loss protection is faster",
        )
    } else {
        Finding::ok("sync", text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Level;

    #[test]
    fn syncs_are_judged_by_median_and_p99() {
        for (times, level) in [
            (vec![1_000; 200], Level::Ok),
            (vec![1; 200], Level::Warn),
            ([vec![1_000; 190], vec![80_000; 10]].concat(), Level::Warn),
        ] {
            let times = times.into_iter().map(Duration::from_micros).collect();
            assert_eq!(judge_syncs(times).level, level);
        }
    }

    #[test]
    fn the_nearest_existing_ancestor_is_checked() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(existing(&folder.path().join("a/b")), folder.path());
        assert_eq!(existing(folder.path()), folder.path());
    }
}
