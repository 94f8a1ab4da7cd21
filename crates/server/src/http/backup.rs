//! Online backup of the store.
//!
//! What must hold: a request cannot make the server write where the operator does not allow it. A backup is
//! written to a new or empty directory below `backup_dir` and outside the store, and requires the right to
//! administer the server. Without `backup_dir` there are no backups over HTTP: on a server without tokens
//! every local process could otherwise create directories with the rights of the server.

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
use crate::Service;

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"to": "2026-11-16"}))]
pub struct BackupBody {
    /// A directory below `backup_dir` of the server, new or empty: relative to it, or as an absolute path.
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
/// client disconnects. Requires the right to administer the server, and the setting `backup_dir`, below which
/// the directory must be.
#[utoipa::path(
    post, path = "/v1/admin/backup", operation_id = "backup", tag = "admin", request_body = BackupBody,
    responses((status = 200, body = BackupDone, description = "The backup is complete."))
)]
pub async fn post(mut request: RequestContext) -> HttpResult {
    request.administer()?;
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
    let Some(engine) = service.engine.local() else {
        return Err(Problem::not_in_cluster("back up the database of the cluster: see docs/cluster.md"));
    };
    let store = engine.folder();
    let store = store.canonicalize().map_err(|error| unusable(store, &error))?;
    if let Some(of) = &body.of
        && Path::new(of) != store
    {
        let detail = format!("the store of this server is in {}, not in {of}", store.display());
        return Err(Problem::new(ErrorCode::BackupTarget, detail));
    }
    let Some(root) = &service.options.backup_dir else {
        let detail = "the server makes no backups over HTTP: set the directory below which they may be, with the \
                      setting backup_dir (--backup-dir)";
        return Err(Problem::new(ErrorCode::BackupTarget, detail));
    };
    let target = target(Path::new(&body.to), &store, root)?;
    let report = engine.checkpoint(&target).map_err(|error| match &error {
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

fn target(to: &Path, store: &Path, root: &Path) -> Result<PathBuf, Problem> {
    if to.components().any(|part| part == Component::ParentDir) {
        return Err(Problem::bad_request("`to` must be a path without `..`"));
    }
    let root = root.canonicalize().map_err(|error| unusable(root, &error))?;
    // An absolute path replaces the root.
    let target = resolved(&root.join(to)).map_err(|error| unusable(to, &error))?;
    let rejected = |why: String| Err(Problem::new(ErrorCode::BackupTarget, why));
    if target == root || !target.starts_with(&root) {
        let (root, to) = (root.display(), to.display());
        return rejected(format!("backups must be below {root} (setting backup_dir), and {to} is not"));
    }
    if target.starts_with(store) {
        return rejected(format!("{} is in the store itself", to.display()));
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
        let kind =
            |to: &str, root: &Path| target(Path::new(to), &store, root).map_err(|problem| problem.code);
        let below = |name: &str| here.join(name).display().to_string();

        for to in ["new/er", "./new/er", &below("root/new/er")] {
            assert_eq!(kind(to, &root), Ok(root.join("new/er")), "{to}");
        }
        for to in
            ["", ".", "link", "link/below", &below("root"), &below("rooted"), &below("outside/new"), "/"]
        {
            assert_eq!(kind(to, &root), Err(ErrorCode::BackupTarget), "{to}");
        }
        for to in ["store", "store/below/it", "alias/below", "file/below"] {
            assert_eq!(kind(to, &here), Err(ErrorCode::BackupTarget), "{to}");
        }
        for to in ["..", "../new", "new/../../outside/new", &below("root/../new")] {
            assert_eq!(kind(to, &root), Err(ErrorCode::BadRequest), "{to}");
        }
        assert_eq!(kind("new", &here.join("missing")), Err(ErrorCode::BackupTarget));
    }
}
