//! The programs of Cassandra, fetched from Maven Central into a cache outside of the repository.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

use crate::server::run;

/// The version of Cassandra.
pub const VERSION: &str = "5.0.9";

/// Names the folder of the cache in place of `$XDG_CACHE_HOME/jeton` or `~/.cache/jeton`.
const CACHE: &str = "JETON_CACHE";

/// The jar of the server, the last one that must exist in a complete folder.
fn server_jar() -> String {
    format!("cassandra-all-{VERSION}.jar")
}

/// Cassandra 5 runs on Java 11 and 17.
pub fn java() -> Result<PathBuf> {
    let debian = ["amd64", "arm64"].map(|arch| format!("/usr/lib/jvm/java-17-openjdk-{arch}/bin/java"));
    let found = debian.iter().map(PathBuf::from).find(|java| java.is_file());
    let java = found.unwrap_or_else(|| "java".into());
    let output = Command::new(&java).arg("-version").stdin(Stdio::null()).output();
    let output = output.context("Java 17 is not installed (no `java`)")?;
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(text.contains("\"17."), "Cassandra needs Java 17, but `java -version` says {text}");
    Ok(java)
}

fn cache() -> Result<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let usual = || Some(set("XDG_CACHE_HOME").or_else(|| Some(set("HOME")?.join(".cache")))?.join("jeton"));
    set(CACHE).or_else(usual).with_context(|| format!("no folder for a cache: set {CACHE}"))
}

/// The folder with the jars. Fetches them if they are not in the cache.
pub fn jars() -> Result<PathBuf> {
    let cache = cache()?;
    let jars = cache.join(format!("cassandra-{VERSION}"));
    if jars.join(server_jar()).is_file() {
        return Ok(jars);
    }
    std::fs::create_dir_all(&cache).with_context(|| format!("cannot create {}", cache.display()))?;
    let folder = tempfile::Builder::new().prefix("fetch-").tempdir_in(&cache)?;
    fetch(folder.path())?;
    let fetched = folder.path().join("lib");
    // Another process may have been faster.
    if let Err(error) = std::fs::rename(&fetched, &jars)
        && !jars.join(server_jar()).is_file()
    {
        bail!("cannot create {}: {error}", jars.display());
    }
    Ok(jars)
}

/// Fetches the jars into `lib` of a folder, with their checksums verified.
fn fetch(folder: &Path) -> Result<()> {
    let pom = format!(
        "<project xmlns=\"http://maven.apache.org/POM/4.0.0\"><modelVersion>4.0.0</modelVersion>
        <groupId>jeton</groupId><artifactId>testbed</artifactId><version>1</version><packaging>pom</packaging>
        <dependencies><dependency>
            <groupId>org.apache.cassandra</groupId><artifactId>cassandra-all</artifactId><version>{VERSION}</version>
        </dependency></dependencies></project>"
    );
    std::fs::write(folder.join("pom.xml"), pom)?;
    let mut command = Command::new("mvn");
    command.args(["-q", "-B", "-C", "dependency:copy-dependencies", "-DincludeScope=runtime"]);
    let mut output = OsString::from("-DoutputDirectory=");
    output.push(folder.join("lib"));
    command.arg(output).current_dir(folder).stdin(Stdio::null());
    run("Maven (`mvn`), which fetches Cassandra", command)?;
    ensure!(folder.join("lib").join(server_jar()).is_file(), "Maven has fetched no {}", server_jar());
    Ok(())
}
