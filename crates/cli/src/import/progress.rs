//! The progress bar of an import, on standard error if that is a terminal.

use indicatif::{ProgressBar, ProgressStyle};

/// A bar for a file of known length, a spinner for standard input.
pub fn bar(total: Option<u64>) -> ProgressBar {
    let (bar, template) = match total {
        Some(total) => (ProgressBar::new(total), "[{bar:24}] {percent:>3} %  {msg}"),
        None => (ProgressBar::new_spinner(), "{spinner} {msg}"),
    };
    let style = ProgressStyle::with_template(template).expect("the template is a valid constant");
    bar.with_style(style.progress_chars("#>-"))
}
