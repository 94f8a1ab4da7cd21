//! The files of the repository, in memory, so that a test can plant a violation without a disk.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result};

/// The files of a repository by their path from the root.
#[derive(Default)]
pub struct Tree {
    /// The text of each file. `None` for files that are not text.
    files: BTreeMap<String, Option<String>>,
}

impl Tree {
    /// Reads the files that git tracks and new files, so that a violation is found before the commit. Without
    /// git, reads all files but build output.
    pub fn read(root: &Path) -> Result<Self> {
        let paths = match listed_by_git(root) {
            Some(paths) => paths,
            None => walked(root)?,
        };
        let mut files = BTreeMap::new();
        for path in paths {
            let full = root.join(&path);
            // Deleted, but still in the index.
            let Ok(metadata) = full.symlink_metadata() else { continue };
            let text = if metadata.is_file() {
                String::from_utf8(fs::read(&full).with_context(|| format!("cannot read {path}"))?).ok()
            } else {
                None
            };
            files.insert(path, text);
        }
        Ok(Self { files })
    }

    /// A tree of the given files.
    #[cfg(test)]
    pub fn of(files: &[(&str, &str)]) -> Self {
        Self { files: files.iter().map(|(path, text)| ((*path).into(), Some((*text).into()))).collect() }
    }

    /// Number of files.
    pub fn len(&self) -> usize {
        self.files.len()
    }

    /// The path and text of every text file whose path ends with `suffix`.
    pub fn texts<'a>(&'a self, suffix: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.files
            .iter()
            .filter(move |(path, _)| path.ends_with(suffix))
            .filter_map(|(path, text)| Some((path.as_str(), text.as_deref()?)))
    }

    /// The text of the file at exactly this path.
    #[cfg(test)]
    pub fn text(&self, path: &str) -> Option<&str> {
        self.files.get(path)?.as_deref()
    }

    /// Whether a file or directory has this path. The empty path is the root.
    pub fn has(&self, path: &str) -> bool {
        let path = path.trim_end_matches('/');
        path.is_empty()
            || self.files.contains_key(path)
            || self.files.keys().any(|file| file.strip_prefix(path).is_some_and(|rest| rest.starts_with('/')))
    }
}

fn listed_by_git(root: &Path) -> Option<Vec<String>> {
    let output = Command::new("git")
        // In many CI containers the clone belongs to another user.
        .args(["-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(root)
        .stdin(Stdio::null())
        .output()
        .ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let paths: Vec<String> = text.split('\0').filter(|path| !path.is_empty()).map(Into::into).collect();
    // A copy inside another repository may be ignored by that repository.
    (output.status.success() && paths.iter().any(|path| path == "Cargo.toml")).then_some(paths)
}

fn walked(root: &Path) -> Result<Vec<String>> {
    let mut paths = Vec::new();
    let mut folders = vec![String::new()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(root.join(&folder)).with_context(|| format!("cannot list {folder}"))? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let path = if folder.is_empty() { name } else { format!("{folder}/{name}") };
            if [".git", "target", "research/target", "research-out"].contains(&path.as_str()) {
                continue;
            }
            if entry.file_type()?.is_dir() {
                folders.push(path);
            } else {
                paths.push(path);
            }
        }
    }
    Ok(paths)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_of_files_exist() {
        let tree = Tree::of(&[("docs/a/b.md", "")]);
        for path in ["", "docs", "docs/", "docs/a", "docs/a/b.md"] {
            assert!(tree.has(path), "{path:?}");
        }
        for path in ["doc", "docs/a/b", "docs/a/b.md/c"] {
            assert!(!tree.has(path), "{path:?}");
        }
    }

    #[test]
    fn without_git_all_files_but_build_output_are_read() {
        let root = std::env::temp_dir().join(format!("xtask-tree-{}", std::process::id()));
        for folder in ["src/deep", "target/debug", "research/target", ".git"] {
            fs::create_dir_all(root.join(folder)).unwrap();
        }
        for file in
            ["Cargo.toml", "src/deep/a.rs", "target/debug/b.rs", "research/target/c.rs", ".git/config"]
        {
            fs::write(root.join(file), "x").unwrap();
        }
        fs::write(root.join("picture.png"), [0xff, 0xfe]).unwrap();
        let mut paths = walked(&root).unwrap();
        paths.sort();
        let read = Tree::read(&root).unwrap();
        fs::remove_dir_all(&root).unwrap();

        assert_eq!(paths, ["Cargo.toml", "picture.png", "src/deep/a.rs"]);
        assert_eq!(read.text("src/deep/a.rs"), Some("x"));
        assert!(read.has("picture.png") && read.text("picture.png").is_none());
    }
}
