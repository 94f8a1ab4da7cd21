//! The numbers: how the filter did, and how it is inside.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Color, Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

use super::headline;
use crate::demo::script::TARGET;
use crate::demo::show::Show;
use crate::number_format::{bytes, grouped, percent};

/// Numbers in a panel.
pub const ROWS: u16 = 6;

/// Columns of the words and of the numbers; the rest is for a note.
const LABEL: usize = 17;
const VALUE: usize = 9;

/// Beyond this many bits an id, memory is waiting for ids rather than holding them.
const BITS_TOLD_MAX: f64 = 999.0;

/// The score, kept by the exact table.
pub fn draw_score(frame: &mut Frame<'_>, show: &Show, area: Rect) {
    let (score, status) = (show.score(), show.status());
    let good = Style::new().fg(Color::Green);
    let bad = Style::new().fg(Color::Red).bold();
    let mistaken = if score.mistaken_share() > TARGET { bad } else { Style::new() };
    let expected = if status.over_target() { bad } else { Style::new() };
    let rows = vec![
        row("new ids accepted", grouped(score.accepted), "", Style::new()),
        row("retries caught", grouped(score.caught), "", good),
        if score.missed == 0 {
            row("retries missed", "0".into(), "as it must", good.bold())
        } else {
            row("retries missed", grouped(score.missed), "broken!", bad)
        },
        row("new ids mistaken", grouped(score.mistaken), &percent(score.mistaken_share()), mistaken),
        row(
            "  expected rate",
            percent(status.false_positive_rate),
            &format!("≤ {}", percent(TARGET)),
            expected,
        ),
        row("old ids forgotten", grouped(score.forgotten), "", good),
    ];
    draw(frame, "score", "checked by an exact table", rows, area);
}

/// What the filter tells about itself.
pub fn draw_inside(frame: &mut Frame<'_>, show: &Show, area: Rect) {
    let status = show.status();
    let bits = status.bits_per_id();
    let bits_note = if bits <= BITS_TOLD_MAX { format!("{bits:.0} bits/id") } else { String::new() };
    let sizes = if status.segments == 1 { "one size".into() } else { format!("{} sizes", status.segments) };
    let rows = vec![
        row("ids remembered", grouped(status.ids), "", Style::new()),
        row("memory", bytes(status.bytes as u64), &bits_note, Style::new()),
        row("generations", status.generations.to_string(), &sizes, Style::new()),
        row("refreshed by age", grouped(status.refreshes_by_age), "", Style::new()),
        row("refreshed by fill", grouped(status.refreshes_by_fill), "", Style::new()),
        row("resizes", grouped(status.resizes), "", Style::new()),
    ];
    draw(frame, "inside the filter", "", rows, area);
}

fn draw(frame: &mut Frame<'_>, label: &str, note: &str, rows: Vec<Line<'static>>, area: Rect) {
    let mut lines = vec![headline(label, note, Color::Reset, area.width)];
    lines.extend(rows);
    frame.render_widget(Paragraph::new(lines), area);
}

fn row(label: &str, value: String, note: &str, style: Style) -> Line<'static> {
    Line::from(vec![
        Span::from(format!("{label:<LABEL$}")),
        Span::styled(format!("{value:>VALUE$}"), style),
        Span::from(format!(" {note}")).dim(),
    ])
}
