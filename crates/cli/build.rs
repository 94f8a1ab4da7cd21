//! Passes the commit of the sources to the binary for `jeton --version`, without running git.

use std::fs;
use std::path::{Path, PathBuf};

/// Printed characters of the commit hash.
const SHOWN: usize = 12;

fn main() {
    let commit = commit().unwrap_or_default();
    println!("cargo::rustc-env=JETON_COMMIT={commit}");
    println!("cargo::rerun-if-changed=build.rs");
}

/// The checked-out commit, if the sources are a git clone.
fn commit() -> Option<String> {
    let root = Path::new(&std::env::var_os("CARGO_MANIFEST_DIR")?).join("../..");
    let folder = git_folder(&root)?;
    let head = folder.join("HEAD");
    println!("cargo::rerun-if-changed={}", head.display());
    let text = fs::read_to_string(&head).ok()?;
    let whole = match text.trim().strip_prefix("ref: ") {
        None => text.trim().to_owned(),
        Some(name) => named(&folder, name)?,
    };
    let plain = whole.len() >= SHOWN && whole.bytes().all(|byte| byte.is_ascii_hexdigit());
    plain.then(|| whole[..SHOWN].to_owned())
}

/// The git directory. In a linked worktree, `.git` is a file with its path.
fn git_folder(root: &Path) -> Option<PathBuf> {
    let git = root.join(".git");
    if git.is_dir() {
        return Some(git);
    }
    let text = fs::read_to_string(git).ok()?;
    Some(root.join(text.trim().strip_prefix("gitdir: ")?))
}

/// The commit of a ref, from its file or from packed-refs.
fn named(folder: &Path, name: &str) -> Option<String> {
    // A linked worktree has its own HEAD and shares the refs.
    let common = fs::read_to_string(folder.join("commondir")).map(|text| folder.join(text.trim()));
    let folder = common.unwrap_or_else(|_| folder.to_owned());
    let (own, packed) = (folder.join(name), folder.join("packed-refs"));
    for file in [&own, &packed].into_iter().filter(|file| file.exists()) {
        println!("cargo::rerun-if-changed={}", file.display());
    }
    if let Ok(text) = fs::read_to_string(own) {
        return Some(text.trim().to_owned());
    }
    let text = fs::read_to_string(packed).ok()?;
    text.lines().find_map(|line| Some(line.strip_suffix(name)?.trim().to_owned()))
}
