//! Checks of the disk: may we write, is there room, what kind is it, and how long does it take until something is there for good.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use super::Finding;
use crate::config::Settings;
use crate::number_format;

/// Syncs that are measured, unless they take too long together.
const SYNCS: usize = 200;
const SYNCS_TIME: Duration = Duration::from_secs(5);

/// Every acknowledgement waits for one of these.
const SLOW: Duration = Duration::from_millis(50);
/// No disk that keeps its word is faster than this.
const TOO_FAST: Duration = Duration::from_micros(10);

/// A clock that differs from that of the files by more is not the same clock.
const CLOCK_SLACK: Duration = Duration::from_secs(2);

/// Room below which there is a warning.
const ROOM: u64 = 1 << 30;

/// What the disk is like where the data is, or will be.
pub fn findings(settings: &Settings) -> Vec<Finding> {
    let place = existing(&settings.data);
    let probe = Probe::new(&place);
    let mut findings = vec![match &probe {
        Ok(_) if settings.data.is_dir() => {
            Finding::ok("data", format!("{} can be written", settings.data.display()))
        }
        Ok(_) => Finding::ok("data", format!("{} can be made", settings.data.display())),
        Err(why) => {
            let fix = format!(
                "let this user write there (ls -ld {}), or choose another with --data",
                place.display()
            );
            Finding::fail("data", format!("{} cannot be written: {why}", place.display()), fix)
        }
    }];
    findings.push(room(&place, settings));
    findings.push(kind(&place));
    if let Ok(probe) = &probe {
        findings.push(probe.syncs());
        findings.push(probe.clock());
    }
    findings
}

/// The directory itself, or the nearest above it that is there.
fn existing(folder: &Path) -> PathBuf {
    let folder = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
    folder.ancestors().find(|above| above.exists()).map_or_else(|| PathBuf::from("/"), Path::to_owned)
}

fn room(place: &Path, settings: &Settings) -> Finding {
    let fix = format!("make room (df -h {}), or choose another directory with --data", place.display());
    let found = match rustix::fs::statvfs(place) {
        Ok(found) => found,
        Err(why) => return Finding::warn("room", format!("it cannot be told: {why}"), fix),
    };
    let free = found.f_bavail.saturating_mul(found.f_frsize);
    let text = format!("{} free", number_format::bytes(free));
    // The log makes its next segment before it needs it.
    match free {
        free if free < 4 * settings.segment_bytes.0 => Finding::fail("room", text, fix),
        free if free < ROOM => Finding::warn("room", text, fix),
        _ => Finding::ok("room", text),
    }
}

/// File systems with something to say about, by the number that the system has for them.
const KINDS: &[(u64, &str, &str)] = &[
    (0x0102_1994, "tmpfs", "it is memory: everything is lost when the machine stops"),
    (0x8584_58f6, "ramfs", "it is memory: everything is lost when the machine stops"),
    (
        0x794c_7630,
        "overlay",
        "it is a layer of a container: it is lost with the container, and slow. Mount a volume for --data",
    ),
    (
        0x6969,
        "NFS",
        "a network file system: locks and syncs are not what they are on a disk. Use a local disk for --data",
    ),
    (
        0xff53_4d42,
        "CIFS",
        "a network file system: locks and syncs are not what they are on a disk. Use a local disk for --data",
    ),
    (
        0xfe53_4d42,
        "SMB",
        "a network file system: locks and syncs are not what they are on a disk. Use a local disk for --data",
    ),
    (
        0x6573_5546,
        "FUSE",
        "a file system of a program: whether a sync is one is up to it. Use a local disk for --data",
    ),
    (0x0102_1997, "9p", "a file system of another machine: use a local disk for --data"),
];

const GOOD: &[(u64, &str)] = &[
    (0xef53, "ext4"),
    (0x5846_5342, "xfs"),
    (0x9123_683e, "btrfs"),
    (0x2fc1_2fc1, "zfs"),
    (0xf2f5_2010, "f2fs"),
];

fn kind(place: &Path) -> Finding {
    let Ok(found) = rustix::fs::statfs(place) else {
        return Finding::warn("file system", "it cannot be told which it is", "");
    };
    // The number is of 32 bits; where the system's type has more, the sign is in them.
    let number = (found.f_type as u64) & 0xffff_ffff;
    if let Some((_, name, why)) = KINDS.iter().find(|(known, _, _)| *known == number) {
        return Finding::warn("file system", *name, *why);
    }
    match GOOD.iter().find(|(known, _)| *known == number) {
        Some((_, name)) => Finding::ok("file system", *name),
        None => Finding::ok("file system", format!("number {number:#x}, of which nothing bad is known")),
    }
}

/// A file to try things with, removed in the end.
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
    fn new(place: &Path) -> io::Result<Self> {
        let path = place.join(format!(".jeton-doctor-{}", std::process::id()));
        let file = OpenOptions::new().write(true).create_new(true).open(&path)?;
        Ok(Self { path, file })
    }

    fn syncs(&self) -> Finding {
        match self.measure() {
            Ok(times) => judge_syncs(times),
            Err(why) => Finding::fail(
                "sync",
                format!("the disk does not keep what is written: {why}"),
                "look after the disk",
            ),
        }
    }

    /// How long each sync of a block took.
    fn measure(&self) -> io::Result<Vec<Duration>> {
        let block = [0; 4096];
        // As the log does it: the blocks are there before they are overwritten.
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

    /// Whether files are dated by the same clock.
    fn clock(&self) -> Finding {
        let dated = self.file.write_all_at(b"now", 0).and_then(|()| self.file.metadata()?.modified());
        let now = SystemTime::now();
        match dated {
            Err(why) => Finding::warn("clock", format!("files have no dates: {why}"), ""),
            Ok(dated) => {
                let apart = now.duration_since(dated).unwrap_or_else(|early| early.duration());
                if apart > CLOCK_SLACK {
                    let found =
                        format!("the disk's clock and this machine's differ by {} s", apart.as_secs());
                    Finding::warn("clock", found, "set both by NTP")
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
    let text = format!("{} (half of {}), {} (99 of 100)", millis(half), times.len(), millis(most));
    if half < TOO_FAST {
        let fix = "no disk is that fast: see that it is not memory, and that syncs are not switched off";
        Finding::warn("sync", text, fix)
    } else if most > SLOW {
        Finding::warn(
            "sync",
            text,
            "every acknowledgement waits for a sync: a disk with a protected cache is faster",
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
    fn syncs_are_judged_by_their_middle_and_their_end() {
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
    fn the_nearest_directory_that_is_there_is_looked_at() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(existing(&folder.path().join("a/b")), folder.path());
        assert_eq!(existing(folder.path()), folder.path());
    }
}
