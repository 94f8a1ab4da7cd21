//! One HTML page with every figure, plots inline, with links to the data.

use std::fmt::Write as _;

use crate::outcome::{Finding, Report};
use crate::plot::escape;

const STYLE: &str = "\
:root{color-scheme:light}\
body{font:16px/1.55 system-ui,'Noto Sans',Helvetica,Arial,sans-serif;color:#1a1a1a;background:#fff;margin:0}\
main{max-width:1000px;margin:0 auto;padding:40px 24px 80px}\
h1{font-size:30px;line-height:1.2;margin:0 0 12px}\
h2{font-size:21px;margin:56px 0 10px;padding-top:24px;border-top:1px solid #ddd}\
p{max-width:760px}\
nav a{margin-right:14px;white-space:nowrap}\
a{color:#0072b2}\
dl{display:grid;grid-template-columns:150px 1fr;gap:6px 16px;margin:14px 0 8px}\
dt{font-weight:600}\
dd{margin:0}\
figure{margin:8px 0 4px}\
figure svg{width:100%;height:auto;display:block}\
figure svg .title{display:none}\
.files{font-size:14px}\
@media(max-width:640px){dl{grid-template-columns:1fr}dd{margin-bottom:8px}}\
@media print{h2{break-before:page}}";

/// The page for the figures and their plots.
pub(crate) fn html(figures: &[(Report, Vec<String>)]) -> String {
    let mut page = String::new();
    let _ = write!(
        page,
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\
         <title>The papers behind Jeton, measured again</title><style>{STYLE}</style></head><body><main>\n\
         <h1>The papers behind Jeton, measured again</h1>\n\
         <p>Subramanyam, Gupta, Leslie and Wang, <i>Idempotent Distributed Counters Using a Forgetful Bloom \
         Filter</i>, evaluate their filter in Figures 8 to 13. Here each of them is rebuilt from the paper's \
         algorithms and from the insertion schedules of the authors' prototype \
         (github.com/rajath26/FBFPrototype). Time is virtual and the keys are fixed: the same numbers come out of \
         every run. Figures 11 to 13 of the paper show the rate that Eq. (3) predicts; here the measured rate \
         stands beside it.</p>\n\
         <p>Kshemkalyani and Misra, <i>The Bloom Clock to Characterize Causality in Distributed Systems</i>, leave the \
         measuring to others. Here it is, on executions drawn from a seed, against the truth of vector clocks.</p>\n<nav>"
    );
    for (report, _) in figures {
        let _ = write!(page, "<a href=\"#{0}\">{0}</a>", report.name);
    }
    page.push_str("</nav>\n");
    for (report, plots) in figures {
        let Finding { paper_says, we_measure, why_they_differ } = &report.finding;
        let _ = write!(
            page,
            "<section id=\"{name}\"><h2>{title}</h2>\n\
             <dl><dt>The paper says</dt><dd>{}</dd><dt>We measure</dt><dd>{}</dd><dt>Why they differ</dt><dd>{}</dd></dl>\n\
             {plots}<p class=\"files\">{files}</p></section>\n",
            sentence(paper_says),
            sentence(we_measure),
            sentence(why_they_differ),
            name = report.name,
            title = escape(report.title),
            plots = plots.iter().map(|svg| plate(svg, report.title)).collect::<String>(),
            files = links(report),
        );
    }
    page.push_str("</main></body></html>\n");
    page
}

fn plate(svg: &str, title: &str) -> String {
    format!("<figure role=\"img\" aria-label=\"{}\">{svg}</figure>\n", escape(title))
}

/// Links to the files of a figure.
fn links(report: &Report) -> String {
    let names = report.files.iter().filter_map(|file| file.file_name()?.to_str());
    let links: Vec<String> = names.map(|name| format!("<a href=\"{0}\">{0}</a>", escape(name))).collect();
    links.join(" · ")
}

/// Turns a finding into a sentence.
fn sentence(text: &str) -> String {
    let mut characters = text.chars();
    let first = characters.next().map(|first| first.to_uppercase().to_string()).unwrap_or_default();
    escape(&format!("{first}{}.", characters.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_self_contained_and_has_all_findings() {
        let finding = Finding {
            paper_says: "a < b".into(),
            we_measure: "b < a".into(),
            why_they_differ: "they & we count differently".into(),
        };
        let (text, files) = (Vec::new(), vec!["out/fig0.csv".into()]);
        let report = Report { name: "fig0", title: "Fig. 0: <nothing>", finding, text, files };
        let page = html(&[(report, vec!["<svg></svg>".into()])]);
        for part in
            ["A &lt; b.", "B &lt; a.", "They &amp; we count differently.", "<svg></svg>", "href=\"fig0.csv\""]
        {
            assert!(page.contains(part), "{part} is missing in {page}");
        }
        for outside in ["http://", "https://", "<script", "<link", "<img", "@import", "url("] {
            assert!(!page.contains(outside), "{outside} in {page}");
        }
    }
}
