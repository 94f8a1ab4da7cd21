//! What a run leaves on disk.
#![allow(clippy::unwrap_used, reason = "clippy knows helpers outside `#[test]` functions not to be tests")]

use std::fs;
use std::path::{Path, PathBuf};

use jeton_lab::{Figure, Progress, Silent, figures, run};

/// A directory of this test's own, empty at the start.
fn fresh_directory(name: &str) -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&directory);
    directory
}

#[test]
fn the_same_csv_and_svg_come_out_twice() {
    let (first, second) = (fresh_directory("first"), fresh_directory("second"));
    for directory in [&first, &second] {
        run("fig9", directory, &mut Silent).unwrap();
    }
    for file in ["fig9.csv", "fig9.svg", "fig9.png"] {
        assert_eq!(fs::read(first.join(file)).unwrap(), fs::read(second.join(file)).unwrap(), "{file}");
    }
}

#[test]
fn a_figure_is_a_csv_an_svg_a_png_and_a_line() {
    let directory = fresh_directory("one");
    let report = run("fig12", &directory, &mut Silent).unwrap();
    let read = |extension: &str| fs::read(directory.join(format!("fig12.{extension}"))).unwrap();
    assert_eq!(report.files.len(), 3);
    let csv = String::from_utf8(read("csv")).unwrap();
    let columns = csv.lines().next().unwrap().split(',').count();
    assert!(csv.lines().next().unwrap().contains("fpr_eq3_predicted"));
    assert!(csv.lines().all(|line| line.split(',').count() == columns));
    assert!(String::from_utf8(read("svg")).unwrap().starts_with("<svg "));
    assert!(read("png").starts_with(b"\x89PNG"));
    let line = report.summary();
    for part in ["paper says:", "we measure:", "why:"] {
        assert!(line.contains(part), "{line}");
    }
    assert!(!line.contains('\n') && !line.contains("NaN"), "{line}");
}

#[test]
fn progress_names_the_figure_and_ends_at_the_whole() {
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
    let mut heard = Heard::default();
    run("fig12", &fresh_directory("progress"), &mut heard).unwrap();
    assert_eq!(
        (heard.started.as_slice(), heard.last_share, heard.finished),
        (["1/1 fig12".to_owned()].as_slice(), 1.0, 1)
    );
}

#[test]
fn an_unknown_figure_is_refused_with_the_known_ones() {
    let error = run("fig7", &fresh_directory("unknown"), &mut Silent).unwrap_err().to_string();
    assert!(figures().iter().all(|figure| error.contains(figure.name)), "{error}");
}

#[test]
fn a_directory_that_cannot_be_written_is_named() {
    let file = fresh_directory("occupied");
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(&file, b"a file, not a directory").unwrap();
    let error = format!("{:#}", run("fig12", &file, &mut Silent).unwrap_err());
    assert!(error.contains("occupied"), "{error}");
}
