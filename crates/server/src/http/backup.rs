//! A copy of the store, asked for while it serves.
//!
//! What must hold: nobody makes this server write where whoever runs it does not want it to. So a copy goes into a new or empty directory,
//! never into the store itself, and is asked for by somebody who may administer the server; and either all copies go below one directory that was
//! chosen at the start (`backup_dir`), or they are asked for on this machine, where whoever asks can see what became of it. Without tokens
//! that is everybody who can log in here, and they can delete all counters as well.

use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::TryLockError;

use axum::body::Body;
use axum::http::{Response, StatusCode};
use jeton_auth::UsageFile;
use jeton_engine::BackupError;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::error_mapping::LATER;
use super::json;
use super::problem::{ErrorCode, Problem, ProblemBody};
use super::request_context::RequestContext;
use super::server::Peer;
use crate::Service;

/// Where a copy is to be.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"to": "/var/backups/jeton/2026-11-16"}))]
pub struct BackupBody {
    /// A directory on the server's machine, new or empty, as an absolute path.
    to: String,
    /// The directory of the store that is meant, if the caller knows it: a server of another store then refuses.
    of: Option<String>,
}

/// A copy that is complete.
#[derive(Debug, Serialize, ToSchema)]
#[schema(example = json!({"to": "/var/backups/jeton/2026-11-16", "files": 12, "log_entries": 3456}))]
pub struct BackupDone {
    /// Where it is.
    to: String,
    /// Files that it shares with the store, or that were copied.
    files: u64,
    /// Entries of its log.
    log_entries: u64,
}

/// Makes a copy of the store as of one instant, while it serves.
///
/// The copy is a store of its own, complete and durable when this answers, which takes as long as it takes; it goes on if the caller does
/// not wait. Needs the right to administer the server. Unless the server was started with `backup_dir`, it is taken from callers on
/// the server's own machine only; if it was, copies are made below that directory only.
#[utoipa::path(
    post, path = "/v1/admin/backup", operation_id = "backup", tag = "admin", request_body = BackupBody,
    responses((status = 200, body = BackupDone, description = "The copy is complete."),
        (status = 400, body = ProblemBody, content_type = "application/problem+json", description = "No absolute path."),
        (status = 403, body = ProblemBody, content_type = "application/problem+json", description = "No right to administer the server, or asked for from another machine."),
        (status = 409, body = ProblemBody, content_type = "application/problem+json", description = "backup-target: no copy can be made there."),
        (status = 503, body = ProblemBody, content_type = "application/problem+json", description = "busy: another copy is being made."))
)]
pub async fn post(mut asked: RequestContext) -> Result<Response<Body>, Problem> {
    asked.may_administer()?;
    asked.spend(1)?;
    let is_here = asked
        .parts
        .extensions
        .get::<Peer>()
        .is_some_and(|Peer(address)| address.ip().to_canonical().is_loopback());
    if asked.service().options.backup_dir.is_none() && !is_here {
        let detail =
            "copies are asked for on the server's own machine, unless it is started with --backup-dir";
        return Err(Problem::new(ErrorCode::Forbidden, detail));
    }
    let body: BackupBody = asked.json().await?;
    let done = asked.app.aside(move |service| copy(service, &body)).await??;
    Ok(json::response(StatusCode::OK, &done))
}

fn copy(service: &Service, body: &BackupBody) -> Result<BackupDone, Problem> {
    // Two at once would take twice the disk, and mostly are one that somebody asked for again.
    let _alone = match service.copying.try_lock() {
        Err(TryLockError::WouldBlock) => {
            return Err(Problem::new(ErrorCode::Busy, "a copy is being made already").retry_in(LATER));
        }
        Ok(alone) => alone,
        Err(TryLockError::Poisoned(alone)) => alone.into_inner(),
    };
    let store = service.engine.folder();
    let store = store.canonicalize().map_err(|error| unusable(store, &error))?;
    if let Some(of) = &body.of
        && Path::new(of) != store
    {
        let detail = format!("this server has its store in {}, not in {of}", store.display());
        return Err(Problem::new(ErrorCode::BackupTarget, detail));
    }
    let target = target(Path::new(&body.to), &store, service.options.backup_dir.as_deref())?;
    let report = service.engine.checkpoint(&target).map_err(|error| match &error {
        BackupError::NotEmpty(_) => Problem::new(ErrorCode::BackupTarget, error.to_string()),
        BackupError::Io { path, .. } if path.starts_with(&target) => Problem::new(
            ErrorCode::BackupTarget,
            format!("{error}; what there is of the copy cannot be opened"),
        ),
        _ => Problem::new(ErrorCode::Storage, format!("{error}; what there is of the copy cannot be opened")),
    })?;
    if service.access.has_tokens() {
        // What tokens have created is in the copy as well: otherwise restoring it would be a way around their limits.
        let file = UsageFile::new(target.join(UsageFile::NAME));
        file.write(&service.access.used())
            .map_err(|error| Problem::new(ErrorCode::BackupTarget, error.to_string()))?;
    }
    tracing::info!(to = %target.display(), files = report.files, "a copy of the store was made");
    Ok(BackupDone { to: target.display().to_string(), files: report.files, log_entries: report.entries })
}

/// Where the copy is to be made, if it may be there.
fn target(to: &Path, store: &Path, root: Option<&Path>) -> Result<PathBuf, Problem> {
    if !to.is_absolute() || to.components().any(|part| part == Component::ParentDir) {
        let detail =
            "`to` is an absolute path, without `..`: what it is relative to would be the server's affair";
        return Err(Problem::new(ErrorCode::BadRequest, detail));
    }
    let refused = |why: String| Err(Problem::new(ErrorCode::BackupTarget, why));
    let target = resolved(to).map_err(|error| unusable(to, &error))?;
    if target.starts_with(store) {
        return refused(format!("{} is in the store itself", to.display()));
    }
    if let Some(root) = root {
        let root = root.canonicalize().map_err(|error| unusable(root, &error))?;
        if target == root || !target.starts_with(&root) {
            return refused(format!("copies are made below {}, and {} is not", root.display(), to.display()));
        }
    }
    Ok(target)
}

/// Where a path leads, whether anything is there yet or not: links in what is there are followed.
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
    fn a_copy_goes_nowhere_else_than_it_may() {
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
        assert_eq!(
            target(Path::new("new"), &store, None).map_err(|problem| problem.code),
            Err(ErrorCode::BadRequest)
        );
    }
}
