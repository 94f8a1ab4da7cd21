//! `cargo xtask fuzz`: fuzzes every parser of untrusted bytes.
//!
//! Not part of `test`: it needs a nightly compiler and time. Its findings are in `testing/fuzz/corpus`, and
//! every test run replays them.

use anyhow::{Result, bail};

use crate::process::{cargo, run, succeeds};

/// The targets of `testing/fuzz/Cargo.toml`.
#[rustfmt::skip]
const TARGETS: &[&str] = &[
    "resp_request", "resp_reply", "resp_session", "http_body", "http_request", "id", "entry", "log", "snapshot",
    "clock", "run", "config",
];

/// Options of the sanitizer. An input can request filters of any size, so a single allocation is limited:
/// code that does not handle the failed allocation aborts, and that is a finding.
const SANITIZER: &str = "allocator_may_return_null=1:max_allocation_size_mb=64";

/// Runs one target or all targets for the given seconds each: `fuzz [target|all] [seconds]`.
pub fn fuzz(arguments: &[String]) -> Result<()> {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let (wanted, seconds) = match words[..] {
        [] => ("all", 60),
        [target] => (target, 60),
        [target, seconds] => match seconds.parse::<u32>() {
            Ok(seconds) => (target, seconds),
            Err(_) => bail!("`{seconds}` is not a number of seconds"),
        },
        _ => bail!("write `cargo xtask fuzz [target|all] [seconds]`"),
    };
    let targets: Vec<&&str> = TARGETS.iter().filter(|target| wanted == "all" || **target == wanted).collect();
    if targets.is_empty() {
        bail!("there is no target `{wanted}`; the targets are: {}", TARGETS.join(", "));
    }
    if !succeeds(&mut cargo(&["+nightly", "fuzz", "--version"])) {
        bail!(
            "cargo-fuzz is not installed; install it with\n    rustup toolchain install nightly && cargo install --locked cargo-fuzz"
        );
    }
    for target in targets {
        let time = format!("-max_total_time={seconds}");
        let arguments = [
            "+nightly",
            "fuzz",
            "run",
            "--fuzz-dir",
            "testing/fuzz",
            target,
            "--",
            &time,
            "-max_len=4096",
            "-print_final_stats=1",
        ];
        run(cargo(&arguments).env("ASAN_OPTIONS", SANITIZER))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_targets_are_those_of_the_manifest() {
        let manifest = std::fs::read_to_string(crate::process::root().join("testing/fuzz/Cargo.toml"))
            .expect("a manifest");
        let named: Vec<String> = TARGETS.iter().map(|target| format!("name = \"{target}\"")).collect();
        assert_eq!(manifest.matches("[[bin]]").count(), named.len());
        for name in named {
            assert!(manifest.contains(&name), "{name}");
        }
    }

    #[test]
    fn an_unknown_target_is_rejected() {
        let error = fuzz(&["nothing".into()]).expect_err("refused");
        assert!(error.to_string().contains("snapshot"), "{error}");
        assert!(fuzz(&["id".into(), "soon".into()]).is_err());
    }
}
