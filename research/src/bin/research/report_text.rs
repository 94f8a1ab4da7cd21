//! A report as text for the terminal.

use jeton_research::Report;

/// Columns of the labels.
const LABEL: usize = 17;

/// The paper's claim, the measured result, the reason for the difference, and the files written.
pub fn render(report: &Report, width: usize) -> String {
    let Report { name, title, finding, text, files } = report;
    let mut out = format!("{name}: {title}\n");
    for (label, sentence) in [
        ("paper says", &finding.paper_says),
        ("we measure", &finding.we_measure),
        ("why they differ", &finding.why_they_differ),
    ] {
        out += &entry(label, sentence, width);
    }
    for line in text {
        out += &format!("  {line}\n");
    }
    for file in files {
        out += &format!("  {:<LABEL$}{}\n", "written", file.display());
    }
    out
}

/// A label and a sentence, wrapped at `width` and indented to the column after the label.
fn entry(label: &str, sentence: &str, width: usize) -> String {
    let mut text = format!("  {label:<LABEL$}");
    let mut column = 2 + LABEL;
    for (index, word) in sentence.split_whitespace().enumerate() {
        let length = word.chars().count();
        if index > 0 && column + 1 + length > width {
            text += &format!("\n  {:<LABEL$}", "");
            column = 2 + LABEL;
        } else if index > 0 {
            text.push(' ');
            column += 1;
        }
        text += word;
        column += length;
    }
    text + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use jeton_research::Finding;

    fn report() -> Report {
        let finding = Finding {
            paper_says: "a third".into(),
            we_measure: "a quarter".into(),
            why_they_differ: "another hash and another load".into(),
        };
        let files = vec!["out/fig0.csv".into(), "out/fig0.png".into()];
        Report { name: "fig0", title: "A title", finding, text: vec!["a  table".into()], files }
    }

    #[test]
    fn report_has_every_part() {
        let expected = [
            "fig0: A title",
            "  paper says       a third",
            "  we measure       a quarter",
            "  why they differ  another hash and another load",
            "  a  table",
            "  written          out/fig0.csv",
            "  written          out/fig0.png",
        ];
        assert_eq!(render(&report(), usize::MAX).lines().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn text_wraps_between_words() {
        let begins = "  why they differ  another hash";
        for (width, why) in [
            (35, format!("{begins} and\n{:19}another load\n", "")),
            (34, format!("{begins}\n{:19}and another\n", "")),
        ] {
            let text = render(&report(), width);
            assert!(text.contains(&why), "{text}");
        }
    }
}
