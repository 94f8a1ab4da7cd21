//! The usage file.

use jeton_auth::{FileError, UsageFile, Used};

fn used(name: &str, tables: u64, counters: u64) -> Used {
    Used { name: name.into(), tables, counters }
}

#[test]
fn usage_round_trips_and_a_missing_file_is_empty() {
    let folder = tempfile::tempdir().unwrap();
    let file = UsageFile::new(folder.path().join(UsageFile::NAME));
    assert_eq!(file.read().unwrap(), []);
    let first = [used("a", 1, u64::MAX), used("b@c", 0, 7)];
    file.write(&first).unwrap();
    assert_eq!(file.read().unwrap(), first);
    file.write(&first[..1]).unwrap();
    assert_eq!(file.read().unwrap(), first[..1]);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "no other file is left");
}

#[test]
fn a_malformed_file_is_an_error_and_not_empty() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(UsageFile::NAME);
    let file = UsageFile::new(&path);
    file.write(&[used("a", 1, 2)]).unwrap();
    let whole = std::fs::read_to_string(&path).unwrap();
    for broken in [
        String::new(),
        whole[..whole.len() / 2].to_owned(),
        whole.replace("\"version\": 1", "\"version\": 2"),
        whole.replace("\"counters\": 2", "\"counters\": -2"),
        whole.replace("counters", "kounters"),
    ] {
        std::fs::write(&path, &broken).unwrap();
        let error = file.read().unwrap_err();
        assert!(matches!(error, FileError::Broken { .. }), "{broken}: {error}");
        assert!(error.to_string().contains(path.to_str().unwrap()), "{error}");
    }
}
