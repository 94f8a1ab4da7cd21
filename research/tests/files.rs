//! The files of a run.
#![allow(clippy::unwrap_used, reason = "clippy does not treat helpers outside `#[test]` functions as tests")]

use std::fs;
use std::path::{Path, PathBuf};

use jeton_research::{Figure, Progress, Setting, Silent, figures, run};

/// An empty directory for one test.
fn fresh_directory(name: &str) -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&directory);
    directory
}

/// The progress that a run reports.
#[derive(Default)]
struct Heard {
    started: Vec<String>,
    last_share: f64,
    finished: usize,
}

impl Progress for Heard {
    fn start(&mut self, number: usize, total: usize, figure: &Figure) {
        self.started.push(format!("{number}/{total} {}", figure.name));
    }
    fn advance(&mut self, share: f64) {
        assert!(share >= self.last_share && share <= 1.0);
        self.last_share = share;
    }
    fn finish(&mut self, _: &Figure) {
        self.finished += 1;
    }
}

#[test]
fn a_figure_writes_the_same_csv_svg_and_png_twice() {
    let (first, second) = (fresh_directory("first"), fresh_directory("second"));
    let mut heard = Heard::default();
    let report = run("fig12", &Setting::new(&first), &mut heard).unwrap();
    assert_eq!((heard.started, heard.last_share, heard.finished), (vec!["1/1 fig12".to_owned()], 1.0, 1));

    let read =
        |directory: &Path, extension: &str| fs::read(directory.join(format!("fig12.{extension}"))).unwrap();
    assert_eq!(report.files.len(), 3);
    let csv = String::from_utf8(read(&first, "csv")).unwrap();
    let header = csv.lines().next().unwrap();
    assert!(header.contains("fpr_eq3_predicted"));
    assert!(csv.lines().all(|line| line.split(',').count() == header.split(',').count()));
    assert!(read(&first, "svg").starts_with(b"<svg "));
    assert!(read(&first, "png").starts_with(b"\x89PNG"));
    let line = report.summary();
    for part in ["paper says:", "we measure:", "why:"] {
        assert!(line.contains(part), "{line}");
    }
    assert!(!line.contains('\n') && !line.contains("NaN"), "{line}");

    run("fig12", &Setting::new(&second), &mut Silent).unwrap();
    for extension in ["csv", "svg", "png"] {
        assert!(read(&first, extension) == read(&second, extension), "two runs gave two {extension} files");
    }
}

#[test]
fn the_error_for_an_unknown_figure_lists_the_known_ones() {
    let error = run("fig7", &Setting::new(fresh_directory("unknown")), &mut Silent).unwrap_err().to_string();
    assert!(figures().iter().all(|figure| error.contains(figure.name)), "{error}");
}

#[test]
fn a_directory_that_cannot_be_written_is_named() {
    let file = fresh_directory("occupied");
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(&file, b"a file, not a directory").unwrap();
    let error = format!("{:#}", run("fig12", &Setting::new(&file), &mut Silent).unwrap_err());
    assert!(error.contains("occupied"), "{error}");
}
