//! What the tests need from the machine, and how a Debian machine gets it.
//!
//! A new need, such as a database server or a browser, is one more entry in [`NEEDS`].

use anyhow::{Result, bail};

use crate::process::{is_installed, program, run, succeeds};

/// Something that the tests need and cargo cannot fetch.
struct Need {
    what: &'static str,
    is_met: fn() -> bool,
    debian_packages: &'static [&'static str],
}

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
];

/// Installs what is missing, or fails with what to install.
pub fn prepare() -> Result<()> {
    let missing: Vec<&Need> = NEEDS.iter().filter(|need| !(need.is_met)()).collect();
    match plan(&missing, is_installed("apt-get"), is_root()) {
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

fn plan(missing: &[&Need], has_apt: bool, is_root: bool) -> Plan {
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
        format!("the tests need {what}; install it with\n    sudo apt-get install {packages}")
    } else {
        format!("the tests need {what}; install it with your package manager (on Debian it is: {packages})")
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
        assert_eq!(plan(&[], true, true), Plan::Nothing);
        let missing = [&LINKER, &DATABASE];
        assert_eq!(plan(&missing, true, true), Plan::Install(vec!["build-essential", "db", "db-tools"]));
        for (has_apt, is_root, expected) in [
            (true, false, "sudo apt-get install build-essential db db-tools"),
            (false, true, "on Debian it is: build"),
        ] {
            let Plan::Ask(message) = plan(&missing, has_apt, is_root) else { panic!("nothing is asked for") };
            assert!(message.contains("a linker, a database") && message.contains(expected), "{message}");
        }
    }
}
