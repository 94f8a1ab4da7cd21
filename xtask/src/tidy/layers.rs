//! The dependencies between the crates of this repository: exactly the edges of this table.
//!
//! The crate map of ARCHITECTURE.md is generated from the same table; `cargo xtask fix` writes it.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result};
use toml::de::{DeTable, DeValue};

use super::Violation;
use super::code::line;
use super::tree::Tree;

const WHY: &str = "a crate that depends only on lower layers can be read, tested and replaced on its own";

/// The file of the table, for the messages.
const TABLE: &str = "xtask/src/tidy/layers.rs";

/// The file that contains the generated crate map, and the marks around it.
const MAP: &str = "ARCHITECTURE.md";
const MAP_BEGIN: &str = "<!-- crate map: written by cargo xtask fix -->\n";
const MAP_END: &str = "<!-- end of crate map -->\n";

/// A crate: its directory, what it is, and the crates of this repository that it uses directly. Dependencies
/// of tests and benchmarks (dev-dependencies) are not restricted.
struct Crate {
    directory: &'static str,
    about: &'static str,
    uses: &'static [&'static str],
}

const fn entry(directory: &'static str, about: &'static str, uses: &'static [&'static str]) -> Crate {
    Crate { directory, about, uses }
}

#[rustfmt::skip]
const CRATES: &[Crate] = &[
    entry("crates/filter", "forgetful Bloom filter; publishable; pure", &[]),
    entry("crates/clock", "Bloom clock and vector clock; publishable; pure", &[]),
    entry("crates/core", "ids, operations, tables, sessions, the state machine of a partition; pure", &["crates/filter"]),
    entry("crates/wal", "write-ahead log: segments, frames, group commit, reservations, and the disk, real or with faults", &["crates/core"]),
    entry("crates/register", "write-once registers: trait, conformance suite, memory and embedded engines", &["crates/wal"]),
    entry("crates/register-cassandra", "write-once registers in Cassandra, by lightweight transactions", &["crates/register", "crates/wal"]),
    entry("crates/register-postgres", "write-once registers in PostgreSQL, and encrypted connections to it", &["crates/register", "crates/wal"]),
    entry("crates/peer", "connections between nodes: authenticated, framed, many requests at a time", &[]),
    entry("crates/register-raft", "write-once registers replicated by Raft", &["crates/peer", "crates/register", "crates/wal"]),
    entry("crates/engine", "shards, group commit, id index, value store, checkpoints, recovery, backup", &["crates/core", "crates/wal"]),
    entry("crates/cluster", "nodes over shared registers: stripes with one owner each, takeover, routing of requests", &["crates/core", "crates/engine", "crates/peer", "crates/register", "crates/wal"]),
    entry("crates/etx", "e-Transactions: the protocol as a pure state machine, and the coordinator that runs it", &["crates/register"]),
    entry("crates/participants", "PostgreSQL, MariaDB and Jeton as participants of transactions", &["crates/client", "crates/etx", "crates/register-postgres"]),
    entry("crates/procedures", "transactions declared in the configuration file", &["crates/etx"]),
    entry("crates/resp", "RESP2 and RESP3 for both ends; no I/O", &[]),
    entry("crates/auth", "tokens, rights, rate limits", &[]),
    entry("crates/server", "the service: RESP, HTTP, TLS, metrics, change feed; `node` assembles a server process", &["crates/auth", "crates/client", "crates/cluster", "crates/core", "crates/engine", "crates/etx", "crates/participants", "crates/procedures", "crates/register", "crates/register-postgres", "crates/register-raft", "crates/resp", "crates/wal"]),
    entry("crates/client", "Rust client: retries with the same id, outbox, transactions", &["crates/core", "crates/resp"]),
    entry("crates/cli", "the `jeton` binary", &["crates/auth", "crates/client", "crates/core", "crates/engine", "crates/register", "crates/server", "crates/wal"]),
    entry("testing/testkit", "helpers for tests: one random number generator", &[]),
    entry("testing/testbed", "PostgreSQL, MariaDB and Cassandra for tests: started, killed, paused, behind a breakable network", &[]),
    entry("testing/sim", "seeded simulator: the engine on a simulated disk and clock", &["crates/core", "crates/engine", "crates/wal"]),
    entry("testing/chaos-bank", "a bank on three databases whose servers and databases are killed", &["crates/client", "crates/etx", "testing/testbed", "testing/testkit"]),
    entry("testing/chaos-registers", "clients of registers whose nodes are killed and paused, with their history checked", &["crates/register", "crates/register-cassandra", "testing/testbed", "testing/testkit"]),
    entry("testing/bench-rivals", "Jeton, Redis and PostgreSQL under the same load", &["crates/resp", "testing/testbed", "testing/testkit"]),
    entry("testing/attack", "attacks a server beside a well-behaved client", &["crates/resp", "testing/testbed", "testing/testkit"]),
    entry("testing/fuzz", "fuzz targets for every parser of untrusted bytes; a workspace of its own", &["crates/auth", "crates/clock", "crates/core", "crates/engine", "crates/etx", "crates/filter", "crates/procedures", "crates/resp", "crates/server", "crates/wal"]),
    entry("research", "figures and evaluations of the papers; a workspace of its own", &["crates/clock", "crates/etx", "crates/filter", "crates/participants", "crates/register", "crates/register-raft", "crates/wal", "testing/testbed", "testing/testkit"]),
    entry("xtask", "`cargo xtask`: tests, checks, benchmarks", &[]),
];

pub fn check(tree: &Tree) -> Vec<Violation> {
    let mut violations = Vec::new();
    let mut manifests = BTreeMap::new();
    for (path, text) in
        tree.texts("Cargo.toml").filter(|(path, _)| path.rsplit('/').next() == Some("Cargo.toml"))
    {
        match DeTable::parse(text) {
            Ok(table) => {
                manifests.insert(path, (text, table.into_inner()));
            }
            Err(error) => violations.push(Violation {
                path: path.into(),
                line: error.span().map_or(1, |span| line(text, span.start)),
                what: format!("not TOML: {}", error.message()),
                why: WHY,
                fix: "correct the syntax".into(),
            }),
        }
    }

    // From the name of a package to its directory.
    let ours: BTreeMap<&str, &str> = manifests
        .iter()
        .filter_map(|(path, (_, manifest))| Some((package_name(manifest)?, directory(path))))
        .collect();
    let inherited = manifests.get("Cargo.toml").map(|(_, root)| root);

    for (path, (text, manifest)) in &manifests {
        let Some(name) = package_name(manifest) else { continue };
        let user = directory(path);
        let Some(known) = CRATES.iter().find(|known| known.directory == user) else {
            violations.push(Violation {
                path: (*path).into(),
                line: 1,
                what: format!("the crate `{name}` is not in the table of crates"),
                why: WHY,
                fix: format!("add `{user}` and the crates that it uses to CRATES in {TABLE}"),
            });
            continue;
        };
        let mut unused: Vec<&str> = known.uses.to_vec();
        for dependency in dependencies(manifest, inherited) {
            let Some(used) = ours.get(dependency.package.as_str()) else { continue };
            unused.retain(|listed| listed != used);
            if !known.uses.contains(used) {
                violations.push(Violation {
                    path: (*path).into(),
                    line: line(text, dependency.at),
                    what: format!("`{user}` depends on `{used}`, which the table does not list"),
                    why: WHY,
                    fix: format!("move the shared part down a layer, or add the edge to CRATES in {TABLE}"),
                });
            }
        }
        violations.extend(unused.into_iter().map(|listed| Violation {
            path: TABLE.into(),
            line: 1,
            what: format!("the table lists `{user}` -> `{listed}`, which {path} does not have"),
            why: "the crate map is generated from this table",
            fix: "remove the edge from the table".into(),
        }));
    }
    if let Some((_, text)) = tree.texts(MAP).find(|(path, _)| *path == MAP)
        && with_map(text).is_some_and(|fresh| fresh != text)
    {
        violations.push(Violation {
            path: MAP.into(),
            line: 1,
            what: "the crate map is not the one of the table".into(),
            why: WHY,
            fix: "run `cargo xtask fix`".into(),
        });
    }
    violations
}

/// Writes the crate map into ARCHITECTURE.md.
pub fn write_map(root: &Path) -> Result<()> {
    let path = root.join(MAP);
    let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {MAP}"))?;
    let fresh = with_map(&text).with_context(|| format!("{MAP} has no marks for the crate map"))?;
    std::fs::write(&path, fresh).with_context(|| format!("cannot write {MAP}"))
}

/// The text with a fresh crate map between its marks. `None` without marks.
fn with_map(text: &str) -> Option<String> {
    let (before, rest) = text.split_once(MAP_BEGIN)?;
    let (_, after) = rest.split_once(MAP_END)?;
    let mut map = String::from("\n| crate | what it is | uses |\n|---|---|---|\n");
    for Crate { directory, about, uses } in CRATES {
        let names: Vec<&str> = uses.iter().filter_map(|used| used.rsplit('/').next()).collect();
        map += &format!("| `{directory}` | {about} | {} |\n", names.join(", "));
    }
    Some(format!("{before}{MAP_BEGIN}{map}\n{MAP_END}{after}"))
}

/// A dependency that is not only for tests.
struct Dependency {
    package: String,
    at: usize,
}

fn dependencies(manifest: &DeTable<'_>, inherited: Option<&DeTable<'_>>) -> Vec<Dependency> {
    let targets = child(manifest, "target").into_iter().flat_map(|targets| targets.values());
    let sections = std::iter::once(manifest).chain(targets.filter_map(|target| target.get_ref().as_table()));
    let workspace = inherited.and_then(|root| child(child(root, "workspace")?, "dependencies"));

    let mut found = Vec::new();
    for section in sections {
        for kind in ["dependencies", "build-dependencies"] {
            for (key, value) in child(section, kind).into_iter().flatten() {
                let name: &str = key.get_ref();
                // `other-name = { package = "name" }` is possible here and in the workspace's table.
                let renamed = package_key(value.get_ref()).or_else(|| {
                    let inherits = value.get_ref().get("workspace").and_then(|flag| flag.get_ref().as_bool());
                    package_key(workspace.filter(|_| inherits == Some(true))?.get(name)?.get_ref())
                });
                let package = renamed.unwrap_or(name).into();
                found.push(Dependency { package, at: key.span().start });
            }
        }
    }
    found
}

fn package_key<'a>(dependency: &'a DeValue<'_>) -> Option<&'a str> {
    dependency.get("package")?.get_ref().as_str()
}

fn package_name<'a>(manifest: &'a DeTable<'_>) -> Option<&'a str> {
    child(manifest, "package")?.get("name")?.get_ref().as_str()
}

fn child<'a, 'i>(table: &'a DeTable<'i>, key: &str) -> Option<&'a DeTable<'i>> {
    table.get(key)?.get_ref().as_table()
}

/// `crates/filter/Cargo.toml` is the manifest of `crates/filter`.
fn directory(manifest_path: &str) -> &str {
    manifest_path.strip_suffix("Cargo.toml").unwrap_or(manifest_path).trim_end_matches('/')
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The violations of a workspace of all crates, in which `user` has the edges of the table and these
    /// lines.
    fn check_manifest(user: &str, lines: &str) -> Vec<(usize, String)> {
        let name = |directory: &str| format!("our-{}", directory.replace('/', "-"));
        let mut files: Vec<(String, String)> = Vec::new();
        for Crate { directory, uses, .. } in CRATES {
            let mut text = format!("[package]\nname = \"{}\"\n", name(directory));
            if *directory == user {
                text += lines;
            }
            for used in *uses {
                text += &format!("[dependencies.{}]\nworkspace = true\n", name(used));
            }
            files.push((format!("{directory}/Cargo.toml"), text));
        }
        let root =
            "[workspace.dependencies]\nhidden = { path = \"crates/cli\", package = \"our-crates-cli\" }\n";
        files.push(("Cargo.toml".into(), root.into()));
        let files: Vec<(&str, &str)> =
            files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
        check(&Tree::of(&files)).into_iter().map(|violation| (violation.line, violation.what)).collect()
    }

    #[test]
    fn an_unlisted_edge_is_found_with_its_line() {
        let found = check_manifest(
            "crates/core",
            "[build-dependencies]\nanyhow = \"1\"\nour-crates-engine = \"1\"\n",
        );
        let what = "`crates/core` depends on `crates/engine`, which the table does not list";
        assert_eq!(found, [(5, what.to_string())]);
    }

    #[test]
    fn every_kind_of_dependency_but_a_tests_is_checked() {
        for (lines, expected) in [
            ("[build-dependencies]\nour-crates-cli = \"1\"\n", 1),
            ("[target.'cfg(loom)'.dependencies]\nour-crates-cli = \"1\"\n", 1),
            ("[dependencies.our-crates-cli]\nworkspace = true\n", 1),
            ("[dependencies]\nother = { package = \"our-crates-cli\", version = \"1\" }\n", 1),
            ("[dependencies]\nhidden.workspace = true\n", 1),
            ("[dev-dependencies]\nour-crates-cli = \"1\"\n", 0),
            ("[target.'cfg(loom)'.dev-dependencies]\nour-crates-cli = \"1\"\n", 0),
            ("[dependencies]\nhidden = \"1\"\n", 0),
        ] {
            assert_eq!(check_manifest("crates/filter", lines).len(), expected, "{lines}");
        }
    }

    #[test]
    fn a_listed_edge_that_is_not_used_is_found() {
        let Some(Crate { directory, uses, .. }) = CRATES.iter().find(|known| known.uses.len() == 1) else {
            panic!("no crate of the table uses exactly one other");
        };
        let path = format!("{directory}/Cargo.toml");
        let found = check(&Tree::of(&[(&path, "[package]\nname = \"alone\"\n")]));
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].what.contains(uses[0]), "{}", found[0].what);
    }

    #[test]
    fn an_unknown_crate_and_a_broken_manifest_are_found() {
        for (path, text, line, words) in [
            ("crates/new/Cargo.toml", "[package]\nname = \"jeton-new\"\n", 1, "not in the table of crates"),
            ("crates/filter/Cargo.toml", "[package]\nname = \n", 2, "not TOML"),
        ] {
            let violations = check(&Tree::of(&[(path, text)]));
            assert!(violations.len() == 1 && violations[0].line == line, "{violations:?}");
            assert!(violations[0].what.contains(words), "{violations:?}");
        }
    }

    #[test]
    fn an_outdated_crate_map_is_found() {
        let old = format!("# Title\n{MAP_BEGIN}old\n{MAP_END}rest\n");
        assert_eq!(check(&Tree::of(&[(MAP, &old)])).len(), 1);
        let fresh = with_map(&old).unwrap();
        assert!(fresh.starts_with("# Title\n") && fresh.ends_with("rest\n"), "{fresh}");
        assert_eq!(check(&Tree::of(&[(MAP, &fresh)])), []);
    }

    #[test]
    fn product_crates_use_no_test_crates() {
        for Crate { directory, uses, .. } in
            CRATES.iter().filter(|known| known.directory.starts_with("crates/"))
        {
            assert!(uses.iter().all(|used| used.starts_with("crates/")), "{directory}");
        }
    }
}
