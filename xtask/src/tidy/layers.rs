//! Dependencies between our own crates point one way, down this table.

use std::collections::{BTreeMap, BTreeSet};

use toml::de::{DeTable, DeValue};

use super::Violation;
use super::code::line;
use super::tree::Tree;

const WHY: &str = "a crate that knows only what is below it can be read, tested and replaced on its own";

/// The file of the table, for the messages.
const TABLE: &str = "xtask/src/tidy/layers.rs";

/// Which of our crates a crate may use; what those may use, it may use too. Tests (dev-dependencies) may use everything.
/// A crate is named by its folder, without `crates/`.
const LAYERS: &[(&str, Below)] = &[
    // Publishable: they know nothing of us.
    ("filter", Below::These(&[])),
    ("clock", Below::These(&[])),
    // The database, from the inside out.
    ("core", Below::These(&["filter", "clock"])),
    ("register", Below::These(&["core"])),
    ("register-postgres", Below::These(&["register"])),
    ("register-raft", Below::These(&["register"])),
    ("engine", Below::These(&["register"])),
    ("etx", Below::These(&["engine"])),
    ("participants", Below::These(&["etx"])),
    ("procedures", Below::These(&["etx"])),
    ("geo", Below::These(&["engine"])),
    // The protocol, for both ends; and who may do what. Neither knows the database.
    ("resp", Below::These(&[])),
    ("auth", Below::These(&[])),
    ("server", Below::These(&["etx", "participants", "geo", "resp", "auth"])),
    // A client links no engine into the program of its user.
    ("client", Below::These(&["core", "resp"])),
    // The figures of the papers. The product must not depend on it, nor on anything in testing/.
    ("research", Below::These(&["filter", "clock", "participants", "register-raft", "testbed", "testkit"])),
    // It alone knows which registers and databases there are to choose from.
    ("cli", Below::These(&["server", "client", "procedures", "register-postgres", "register-raft"])),
    // Feeds what reads the bytes of strangers.
    ("fuzz", Below::Everything),
    // The random numbers of tests and experiments.
    ("testkit", Below::These(&[])),
    // Databases of others, for tests and comparisons.
    ("testbed", Below::These(&[])),
    // The rivals, and everybody under the same load.
    ("bench-rivals", Below::These(&["resp", "testbed"])),
    // The example, which talks to servers as strangers do.
    ("chaos-bank", Below::These(&["etx", "testbed"])),
    // They look at the whole, and nothing is built on them.
    ("sim", Below::Everything),
    ("xtask", Below::Everything),
];

#[derive(Clone, Copy)]
enum Below {
    These(&'static [&'static str]),
    Everything,
}

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
                fix: "mend the syntax".into(),
            }),
        }
    }

    // From the name of a package to its folder.
    let ours: BTreeMap<&str, &str> = manifests
        .iter()
        .filter_map(|(path, (_, manifest))| Some((package_name(manifest)?, folder(path))))
        .collect();
    let inherited = manifests.get("Cargo.toml").map(|(_, root)| root);

    for (path, (text, manifest)) in &manifests {
        let Some(name) = package_name(manifest) else { continue };
        let user = folder(path);
        let Some(allowed) = allowed(user) else {
            violations.push(Violation {
                path: (*path).into(),
                line: 1,
                what: format!("the crate `{name}` has no place among the layers"),
                why: WHY,
                fix: format!("add `{user}` with what it may use to LAYERS in {TABLE}"),
            });
            continue;
        };
        for dependency in dependencies(manifest, inherited) {
            let Some(used) = ours.get(dependency.package.as_str()) else { continue };
            if !allowed.contains(used) {
                violations.push(Violation {
                    path: (*path).into(),
                    line: line(text, dependency.at),
                    what: format!("`{user}` may not depend on `{used}` ({})", dependency.package),
                    why: WHY,
                    fix: format!(
                        "move the shared part down a layer, or argue for a new edge in LAYERS in {TABLE}"
                    ),
                });
            }
        }
    }
    violations
}

/// A dependency that ends up in the build of the crate's users.
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

/// `crates/filter/Cargo.toml` is the manifest of `filter`.
fn folder(manifest_path: &str) -> &str {
    let folder = manifest_path.strip_suffix("Cargo.toml").unwrap_or(manifest_path).trim_end_matches('/');
    folder.strip_prefix("crates/").or_else(|| folder.strip_prefix("testing/")).unwrap_or(folder)
}

/// What a crate may use, what is below that included; nothing if the table does not know the crate.
fn allowed(user: &str) -> Option<BTreeSet<&'static str>> {
    let mut allowed = BTreeSet::new();
    let mut ahead = vec![below(user)?];
    while let Some(below_one) = ahead.pop() {
        match below_one {
            Below::Everything => allowed.extend(LAYERS.iter().map(|(name, _)| *name)),
            Below::These(names) => {
                ahead.extend(
                    names.iter().filter(|name| allowed.insert(**name)).filter_map(|name| below(name)),
                );
            }
        }
    }
    Some(allowed)
}

fn below(user: &str) -> Option<Below> {
    LAYERS.iter().find(|(name, _)| *name == user).map(|(_, below)| *below)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The violations of a workspace in which `user` has these lines and every crate of the table exists.
    fn check_manifest(user: &str, lines: &str) -> Vec<(usize, String)> {
        let path = |name: &str| {
            if name == "xtask" { "xtask/Cargo.toml".into() } else { format!("crates/{name}/Cargo.toml") }
        };
        let mut files: Vec<(String, String)> = LAYERS
            .iter()
            .filter(|(name, _)| *name != user)
            .map(|(name, _)| (path(name), format!("[package]\nname = \"our-{name}\"\n")))
            .collect();
        files.push((path(user), format!("[package]\nname = \"our-{user}\"\n{lines}")));
        let root = "[workspace.dependencies]\nhidden = { path = \"crates/cli\", package = \"our-cli\" }\n";
        files.push(("Cargo.toml".into(), root.into()));
        let files: Vec<(&str, &str)> =
            files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
        check(&Tree::of(&files)).into_iter().map(|violation| (violation.line, violation.what)).collect()
    }

    #[test]
    fn an_upward_edge_is_found_with_its_line() {
        let found = check_manifest("core", "[dependencies]\nanyhow = \"1\"\nour-engine.workspace = true\n");
        assert_eq!(found, [(5, "`core` may not depend on `engine` (our-engine)".into())]);
    }

    #[test]
    fn every_kind_of_dependency_but_a_tests_is_checked() {
        for (lines, expected) in [
            ("[build-dependencies]\nour-cli = \"1\"\n", 1),
            ("[target.'cfg(loom)'.dependencies]\nour-cli = \"1\"\n", 1),
            ("[dependencies.our-cli]\nworkspace = true\n", 1),
            ("[dependencies]\nother = { package = \"our-cli\", version = \"1\" }\n", 1),
            ("[dependencies]\nhidden.workspace = true\n", 1),
            ("[dev-dependencies]\nour-cli = \"1\"\n", 0),
            ("[target.'cfg(loom)'.dev-dependencies]\nour-cli = \"1\"\n", 0),
            ("[dependencies]\nhidden = \"1\"\n", 0),
        ] {
            assert_eq!(check_manifest("filter", lines).len(), expected, "{lines}");
        }
    }

    #[test]
    fn what_is_below_may_be_used_from_any_height() {
        for (user, used) in [
            ("engine", "filter"),
            ("server", "clock"),
            ("cli", "engine"),
            ("research", "filter"),
            ("sim", "server"),
        ] {
            assert_eq!(
                check_manifest(user, &format!("[dependencies]\nour-{used} = \"1\"\n")),
                [],
                "{user} {used}"
            );
        }
        for (user, used) in [
            ("filter", "clock"),
            ("client", "server"),
            ("research", "server"),
            ("cli", "research"),
            ("cli", "testbed"),
            ("etx", "geo"),
            ("server", "cli"),
            ("geo", "xtask"),
        ] {
            let found = check_manifest(user, &format!("[dependencies]\nour-{used} = \"1\"\n"));
            assert_eq!(found.len(), 1, "{user} {used}");
        }
    }

    #[test]
    fn an_unknown_crate_is_told_where_to_enter() {
        let violations = check(&Tree::of(&[("crates/new/Cargo.toml", "[package]\nname = \"jeton-new\"\n")]));
        assert_eq!(violations.len(), 1);
        assert!(violations[0].fix.contains(TABLE), "{}", violations[0].fix);
    }

    #[test]
    fn a_broken_manifest_is_found() {
        let violations = check(&Tree::of(&[("crates/filter/Cargo.toml", "[package]\nname = \n")]));
        assert_eq!(violations.len(), 1);
        assert_eq!(violations[0].line, 2);
    }

    #[test]
    fn the_table_has_no_circle_and_no_stranger() {
        for (name, below) in LAYERS {
            let Below::These(names) = below else { continue };
            assert!(
                names.iter().all(|used| self::below(used).is_some()),
                "{name} uses a crate without an entry"
            );
            assert!(allowed(name).is_some_and(|allowed| !allowed.contains(name)), "{name} is below itself");
        }
    }
}
