//! Online backup of the store.
//!
//! What must hold: a request cannot make the server write where the operator does not allow it. A backup is
//! written to a new or empty directory outside the store and requires the right to administer the server. With
//! `backup_dir`, the directory must be below it; without it, the request must come from the local machine. On
//! a server without tokens that includes every local user.

use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::TryLockError;

use jeton_auth::UsageFile;
use jeton_engine::BackupError;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::error_mapping::LATER;
use super::json;
use super::problem::{ErrorCode, HttpResult, Problem};
use super::request_context::RequestContext;
use super::server::Peer;
use crate::Service;

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"to": "/var/backups/jeton/2026-11-16"}))]
pub struct BackupBody {
    /// A directory on the server's machine, new or empty, as an absolute path.
    to: String,
    /// The expected directory of the store: a server of another store rejects the request.
    of: Option<String>,
}

#[derive(Debug, Serialize, ToSchema)]
#[schema(example = json!({"to": "/var/backups/jeton/2026-11-16", "files": 12, "log_entries": 3456}))]
pub struct BackupDone {
    to: String,
    /// Number of files, linked or copied.
    files: u64,
    log_entries: u64,
}

/// Creates a consistent backup of the store while it serves requests.
///
/// The backup is a store of its own, complete and durable when the server responds. It continues if the
/// client disconnects. Requires the right to administer the server. With `backup_dir` the directory must be
/// below it; without it, the request must come from the server's own machine.
#[utoipa::path(
    post, path = "/v1/admin/backup", operation_id = "backup", tag = "admin", request_body = BackupBody,
    responses((status = 200, body = BackupDone, description = "The backup is complete."))
)]
pub async fn post(mut request: RequestContext) -> HttpResult {
    request.administer()?;
    let is_local = request
        .parts
        .extensions
        .get::<Peer>()
        .is_some_and(|Peer(address)| address.ip().to_canonical().is_loopback());
    if request.service().options.backup_dir.is_none() && !is_local {
        let detail =
            "a backup requires a request from the server's own machine, unless the server has --backup-dir";
        return Err(Problem::new(ErrorCode::Forbidden, detail));
    }
    let body: BackupBody = request.json().await?;
    let done = request.app.run_blocking(move |service| copy(service, &body)).await??;
    Ok(json::ok(&done))
}

fn copy(service: &Service, body: &BackupBody) -> Result<BackupDone, Problem> {
    // Two concurrent backups would take twice the disk space, and are mostly one that a client retried.
    let _lock = match service.copying.try_lock() {
        Err(TryLockError::WouldBlock) => {
            return Err(Problem::new(ErrorCode::Busy, "another backup is running").retry_in(LATER));
        }
        Ok(lock) => lock,
        Err(TryLockError::Poisoned(lock)) => lock.into_inner(),
    };
    let store = service.engine.folder();
    let store = store.canonicalize().map_err(|error| unusable(store, &error))?;
    if let Some(of) = &body.of
        && Path::new(of) != store
    {
        let detail = format!("the store of this server is in {}, not in {of}", store.display());
        return Err(Problem::new(ErrorCode::BackupTarget, detail));
    }
    let target = target(Path::new(&body.to), &store, service.options.backup_dir.as_deref())?;
    let report = service.engine.checkpoint(&target).map_err(|error| match &error {
        BackupError::NotEmpty(_) => Problem::new(ErrorCode::BackupTarget, error.to_string()),
        BackupError::Io { path, .. } if path.starts_with(&target) => {
            Problem::new(ErrorCode::BackupTarget, format!("{error}; the incomplete backup cannot be opened"))
        }
        _ => Problem::new(ErrorCode::Storage, format!("{error}; the incomplete backup cannot be opened")),
    })?;
    if service.access.has_tokens() {
        // The backup includes the usage of tokens: otherwise a restore would bypass quotas.
        let file = UsageFile::new(target.join(UsageFile::NAME));
        file.write(&service.access.used())
            .map_err(|error| Problem::new(ErrorCode::BackupTarget, error.to_string()))?;
    }
    tracing::info!(to = %target.display(), files = report.files, "backup complete");
    Ok(BackupDone { to: target.display().to_string(), files: report.files, log_entries: report.entries })
}

fn target(to: &Path, store: &Path, root: Option<&Path>) -> Result<PathBuf, Problem> {
    if !to.is_absolute() || to.components().any(|part| part == Component::ParentDir) {
        let detail = "`to` must be an absolute path without `..`";
        return Err(Problem::bad_request(detail));
    }
    let rejected = |why: String| Err(Problem::new(ErrorCode::BackupTarget, why));
    let target = resolved(to).map_err(|error| unusable(to, &error))?;
    if target.starts_with(store) {
        return rejected(format!("{} is in the store itself", to.display()));
    }
    if let Some(root) = root {
        let root = root.canonicalize().map_err(|error| unusable(root, &error))?;
        if target == root || !target.starts_with(&root) {
            let (root, to) = (root.display(), to.display());
            return rejected(format!("backups must be below {root}, and {to} is not"));
        }
    }
    Ok(target)
}

/// Resolves symbolic links in the existing part of a path.
fn resolved(path: &Path) -> io::Result<PathBuf> {
    let mut missing = Vec::new();
    for ancestor in path.ancestors() {
        match ancestor.canonicalize() {
            Ok(there) => return Ok(missing.into_iter().rev().fold(there, |path, name| path.join(name))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => missing.extend(ancestor.file_name()),
            Err(error) => return Err(error),
        }
    }
    Err(io::ErrorKind::NotFound.into())
}

fn unusable(path: &Path, error: &io::Error) -> Problem {
    Problem::new(ErrorCode::BackupTarget, format!("{} cannot be used: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_outside_the_allowed_directories_fail() {
        let folder = tempfile::tempdir().unwrap();
        let here = folder.path().canonicalize().unwrap();
        for name in ["store/log", "root/full", "outside"] {
            std::fs::create_dir_all(here.join(name)).unwrap();
        }
        std::os::unix::fs::symlink(here.join("outside"), here.join("root/link")).unwrap();
        std::os::unix::fs::symlink(here.join("store"), here.join("alias")).unwrap();
        std::fs::write(here.join("file"), "").unwrap();
        let (store, root) = (here.join("store"), here.join("root"));
        let kind = |to: &str, root: Option<&Path>| {
            target(&here.join(to), &store, root).map_err(|problem| problem.code)
        };

        assert_eq!(kind("new/er", None), Ok(here.join("new/er")));
        assert_eq!(kind("outside", None), Ok(here.join("outside")));
        assert_eq!(kind("root/new/er", Some(&root)), Ok(root.join("new/er")));
        for (to, root) in [
            ("store", None),
            ("store/below/it", None),
            ("alias/below", None),
            ("file/below", None),
            ("new", Some(&root)),
            ("root", Some(&root)),
            ("rooted", Some(&root)),
            ("root/link", Some(&root)),
            ("root/link/below", Some(&root)),
        ] {
            assert_eq!(kind(to, root.map(PathBuf::as_path)), Err(ErrorCode::BackupTarget), "{to}");
        }
        assert_eq!(kind("root/../new", Some(&root)), Err(ErrorCode::BadRequest));
        let relative = target(Path::new("new"), &store, None);
        assert_eq!(relative.map_err(|problem| problem.code), Err(ErrorCode::BadRequest));
    }
}
