//! System packages that tests and benchmarks need, and how to install them on Debian.
//!
//! A new package for the tests is an entry in [`NEEDS`]. Packages that only a benchmark needs are in a list
//! of their own.

use std::path::Path;

use anyhow::{Result, bail};

use crate::process::{is_installed, program, run, succeeds};

/// A program that cargo cannot install.
struct Need {
    what: &'static str,
    is_met: fn() -> bool,
    debian_packages: &'static [&'static str],
}

const REDIS: Need = Need {
    what: "Redis (`redis-server`)",
    is_met: || is_installed("redis-server"),
    debian_packages: &["redis-server"],
};

const POSTGRESQL: Need = Need {
    what: "PostgreSQL (`initdb`)",
    // Debian installs each version in its own directory, outside PATH.
    is_met: || is_installed("initdb") || has_program(Path::new("/usr/lib/postgresql"), "bin/initdb"),
    debian_packages: &["postgresql"],
};

/// Cassandra 5 needs it.
const JAVA: Need = Need {
    what: "Java 17 (`java`)",
    is_met: || is_installed("java"),
    debian_packages: &["openjdk-17-jre-headless"],
};

const MAVEN: Need =
    Need { what: "Maven (`mvn`)", is_met: || is_installed("mvn"), debian_packages: &["maven"] };

/// Ends servers with their parent process, even if that is killed.
const SETPRIV: Need =
    Need { what: "`setpriv`", is_met: || is_installed("setpriv"), debian_packages: &["util-linux"] };

const NEEDS: &[Need] = &[
    // Cargo may be configured with another linker. On a machine without any, begin with `.ci/run`.
    Need { what: "a C linker (`cc`)", is_met: || is_installed("cc"), debian_packages: &["build-essential"] },
    // Tests of full disks mount file systems.
    Need {
        what: "`unshare` and `mount`",
        is_met: || is_installed("unshare") && is_installed("mount"),
        debian_packages: &["util-linux", "mount"],
    },
    // Replies are compared with those of Redis.
    REDIS,
    // Participants of transactions. The tests start instances of their own; the services of the packages are
    // not used.
    POSTGRESQL,
    Need {
        what: "MariaDB (`mariadbd`)",
        // Debian installs it in a directory of root's PATH.
        is_met: || is_installed("mariadbd") || Path::new("/usr/sbin/mariadbd").is_file(),
        debian_packages: &["mariadb-server"],
    },
    SETPRIV,
    // Cassandra, which the testbed fetches from Maven Central.
    JAVA,
    MAVEN,
    // The Python client is tested in a virtual environment.
    Need {
        what: "Python with venv",
        is_met: || succeeds(&mut program("python3", &["-c", "import venv, ensurepip"])),
        debian_packages: &["python3", "python3-venv"],
    },
];

/// The rivals of `cargo xtask bench rivals`.
const RIVALS: &[Need] = &[REDIS, POSTGRESQL, SETPRIV];

/// Installs missing packages of the tests, or fails with their names.
pub fn prepare() -> Result<()> {
    install("the tests need", NEEDS)
}

/// Installs what a Cassandra cluster needs, or fails with the names.
pub fn prepare_cassandra() -> Result<()> {
    install("Cassandra needs", &[JAVA, MAVEN, SETPRIV])
}

/// Installs missing rivals, or fails with their names.
pub fn prepare_rivals() -> Result<()> {
    install("the comparison needs", RIVALS)
}

/// Returns whether one of the version directories has the program.
fn has_program(versions: &Path, program: &str) -> bool {
    std::fs::read_dir(versions)
        .into_iter()
        .flatten()
        .flatten()
        .any(|entry| entry.path().join(program).is_file())
}

fn install(who: &str, needs: &[Need]) -> Result<()> {
    let missing: Vec<&Need> = needs.iter().filter(|need| !(need.is_met)()).collect();
    match plan(who, &missing, is_installed("apt-get"), is_root()) {
        Plan::Nothing => Ok(()),
        Plan::Install(packages) => {
            run(&mut program("apt-get", &["update"]))?;
            let arguments: Vec<&str> =
                ["install", "-y", "--no-install-recommends"].into_iter().chain(packages).collect();
            run(program("apt-get", &arguments).env("DEBIAN_FRONTEND", "noninteractive"))
        }
        Plan::Ask(message) => bail!(message),
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Plan {
    Nothing,
    Install(Vec<&'static str>),
    Ask(String),
}

fn plan(who: &str, missing: &[&Need], has_apt: bool, is_root: bool) -> Plan {
    if missing.is_empty() {
        return Plan::Nothing;
    }
    let packages: Vec<&str> = missing.iter().flat_map(|need| need.debian_packages).copied().collect();
    if has_apt && is_root {
        return Plan::Install(packages);
    }
    let what = missing.iter().map(|need| need.what).collect::<Vec<_>>().join(", ");
    let packages = packages.join(" ");
    Plan::Ask(if has_apt {
        format!("{who} {what}; install it with\n    sudo apt-get install {packages}")
    } else {
        format!("{who} {what}; install it with your package manager (on Debian it is: {packages})")
    })
}

fn is_root() -> bool {
    succeeds(&mut program("sh", &["-c", "[ \"$(id -u)\" = 0 ]"]))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINKER: Need = Need { what: "a linker", is_met: || false, debian_packages: &["build-essential"] };
    const DATABASE: Need =
        Need { what: "a database", is_met: || false, debian_packages: &["db", "db-tools"] };

    #[test]
    fn root_on_debian_installs_missing_packages_others_are_asked() {
        assert_eq!(plan("the tests need", &[], true, true), Plan::Nothing);
        let missing = [&LINKER, &DATABASE];
        assert_eq!(
            plan("the tests need", &missing, true, true),
            Plan::Install(vec!["build-essential", "db", "db-tools"])
        );
        for (has_apt, is_root, expected) in [
            (true, false, "sudo apt-get install build-essential db db-tools"),
            (false, true, "on Debian it is: build"),
        ] {
            let Plan::Ask(message) = plan("the tests need", &missing, has_apt, is_root) else {
                panic!("nothing is asked for")
            };
            assert!(message.contains("a linker, a database") && message.contains(expected), "{message}");
        }
    }
}
