//! What the tests and the benchmarks need from the machine, and how a Debian machine gets it.
//!
//! A new need of the tests, such as a browser, is one more entry in [`NEEDS`]. What only a benchmark needs is in a list of its own: nobody who
//! runs the tests is to get servers that they do not use.

use std::path::Path;

use anyhow::{Result, bail};

use crate::process::{is_installed, program, run, succeeds};

/// Something that cargo cannot fetch.
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
    // Debian keeps the versions apart, and none of them in the path.
    is_met: || is_installed("initdb") || has_program(Path::new("/usr/lib/postgresql"), "bin/initdb"),
    debian_packages: &["postgresql"],
};

/// Servers end with who started them, even if that one is killed.
const SETPRIV: Need =
    Need { what: "`setpriv`", is_met: || is_installed("setpriv"), debian_packages: &["util-linux"] };

const NEEDS: &[Need] = &[
    // Building this program took a linker, but perhaps another one, by somebody's cargo configuration. On a machine
    // without any, `.ci/run` is the command to begin with.
    Need { what: "a C linker (`cc`)", is_met: || is_installed("cc"), debian_packages: &["build-essential"] },
    // The tests of full disks have file systems of their own.
    Need {
        what: "`unshare` and `mount`",
        is_met: || is_installed("unshare") && is_installed("mount"),
        debian_packages: &["util-linux", "mount"],
    },
    // What we answer is compared with what Redis answers.
    REDIS,
    // Databases that take part in transactions: instances of the tests' own, in folders of their own. What the packages start by themselves
    // is not used.
    POSTGRESQL,
    Need {
        what: "MariaDB (`mariadbd`)",
        // Debian keeps it where only root looks.
        is_met: || is_installed("mariadbd") || Path::new("/usr/sbin/mariadbd").is_file(),
        debian_packages: &["mariadb-server"],
    },
    SETPRIV,
    // The Python client is tested in an environment of its own.
    Need {
        what: "Python with venv",
        is_met: || succeeds(&mut program("python3", &["-c", "import venv, ensurepip"])),
        debian_packages: &["python3", "python3-venv"],
    },
];

/// Those whom `cargo xtask bench peers` measures us against.
const RIVALS: &[Need] = &[REDIS, POSTGRESQL, SETPRIV];

/// Installs what the tests miss, or fails with what to install.
pub fn prepare() -> Result<()> {
    install("the tests need", NEEDS)
}

/// Installs the rivals that are missing, or fails with what to install.
pub fn prepare_rivals() -> Result<()> {
    install("the comparison needs", RIVALS)
}

/// Whether a folder of versions has a program in one of them.
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
    fn what_is_missing_is_installed_by_root_on_debian_and_asked_for_elsewhere() {
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
