//! One picture of the demo: a headline, three charts, two panels of numbers.
//!
//! What must hold: any size of terminal gives a picture. A small one leaves out what matters least: first the room
//! above the bars, then the charts, then the filter's inside; the score stays.

mod bars;
mod charts;
mod panels;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

use super::script::Phase;
use super::show::Show;

/// Below this width the panels stand above each other, or alone.
const WIDE: u16 = 76;

/// Rows of a panel: its headline and its numbers.
const PANEL_ROWS: u16 = 1 + panels::ROWS;

/// Draws the show as it is now.
pub fn draw(frame: &mut Frame<'_>, show: &Show, paused: bool) {
    let area = frame.area();
    let wide = area.width >= WIDE;
    // What is left out of a low terminal, and in which order.
    let story_rows = if area.height >= 9 { if wide { 1 } else { 2 } } else { 0 };
    let footer_rows = u16::from(area.height >= 12);
    let beside = wide || area.height < 1 + story_rows + 2 * PANEL_ROWS + footer_rows;
    let panel_rows = if beside { PANEL_ROWS } else { 2 * PANEL_ROWS };
    let [header, story, charts, panels, footer] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(story_rows),
        Constraint::Min(0),
        Constraint::Length(panel_rows),
        Constraint::Length(footer_rows),
    ])
    .areas(area);

    draw_header(frame, show, paused, header);
    frame.render_widget(
        Paragraph::new(story_of(show)).wrap(ratatui::widgets::Wrap { trim: true }).italic(),
        inset(story),
    );
    charts::draw(frame, show, inset(charts));
    draw_panels(frame, show, wide, inset(panels));
    frame.render_widget(Line::from(" q quit   space pause").dim(), footer);
}

fn draw_header(frame: &mut Frame<'_>, show: &Show, paused: bool, area: Rect) {
    let phase = show.script().phase(show.now());
    let load = match phase {
        Phase::Calm | Phase::CalmAgain => " calm ".black().on_green(),
        Phase::Surge => " SURGE x10 ".black().on_yellow().bold(),
        Phase::Silence => " silence ".white().on_blue(),
    };
    let clock =
        format!("{:.1} of {} s ", show.now().as_nanos() as f64 / 1e9, show.script().total().as_secs());
    let mut spans = vec![Span::from(" jeton demo  ").bold(), load];
    if paused {
        spans.push(" paused ".black().on_white());
    }
    let [left, right] =
        Layout::horizontal([Constraint::Min(0), Constraint::Length(clock.len() as u16)]).areas(area);
    frame.render_widget(Line::from(spans), left);
    frame.render_widget(Line::from(clock), right);
}

/// What the user sees now, in a sentence.
fn story_of(show: &Show) -> Line<'static> {
    let window = show.script().window().as_secs_f64();
    if let Some(pressure) = show.status().pressure {
        return Line::from(format!("The filter reports that it is under pressure: {pressure:?}")).red();
    }
    Line::from(match show.script().phase(show.now()) {
        Phase::Calm => format!("Each id is remembered for {window} s: its retries are caught, new ids pass."),
        Phase::Surge => "Ten times the load: the filter takes more memory, so mistakes stay rare.".to_owned(),
        Phase::CalmAgain if show.status().bytes < show.history().peak_bytes() / 4 => {
            "The surge is forgotten, and its memory with it. All as it was before.".to_owned()
        }
        Phase::CalmAgain => {
            format!("The ids of the surge are kept for their {window} s, then their memory is let go.")
        }
        Phase::Silence => {
            format!("Nothing arrives. Ids older than {window} s are forgotten, till none is left.")
        }
    })
}

fn draw_panels(frame: &mut Frame<'_>, show: &Show, wide: bool, area: Rect) {
    let (score, inside) = if wide {
        let [score, _, inside] =
            Layout::horizontal([Constraint::Fill(1), Constraint::Length(2), Constraint::Fill(1)]).areas(area);
        (score, inside)
    } else {
        let [score, inside] =
            Layout::vertical([Constraint::Length(PANEL_ROWS), Constraint::Min(0)]).areas(area);
        (score, inside)
    };
    panels::draw_score(frame, show, score);
    panels::draw_inside(frame, show, inside);
}

/// A headline: what it is on the left, its value on the right, a rule between them.
fn headline(label: &str, value: &str, color: Color, width: u16) -> Line<'static> {
    let used = label.chars().count() + value.chars().count() + 2;
    let rule = "─".repeat(usize::from(width).saturating_sub(used));
    Line::from(vec![
        Span::from(label.to_owned()).bold(),
        Span::from(format!(" {rule} ")).dim(),
        Span::styled(value.to_owned(), Style::new().fg(color).bold()),
    ])
}

/// The area without a column at either side.
fn inset(area: Rect) -> Rect {
    Rect { x: area.x + 1.min(area.width), width: area.width.saturating_sub(2), ..area }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::script::Script;
    use forgetful_filter::Moment;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use std::time::Duration;

    fn picture(width: u16, height: u16, show: &Show) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| draw(frame, show, false)).unwrap();
        terminal.backend().to_string()
    }

    fn show_at(millis: u64) -> Show {
        let mut show = Show::new(Script::new(Duration::from_secs(6)), 1).unwrap();
        show.play(Moment::from_millis(millis), usize::MAX);
        show
    }

    #[test]
    fn every_size_gives_a_picture() {
        for millis in [0, 2_000, 6_000] {
            let show = show_at(millis);
            for width in [1, 2, 10, 40, 75, 76, 80, 300, 400] {
                for height in [1, 2, 3, 8, 10, 16, 24, 40, 100] {
                    picture(width, height, &show);
                }
            }
        }
    }

    #[test]
    fn the_score_is_there_even_in_a_small_terminal() {
        let show = show_at(2_000);
        for (width, height) in [(40, 10), (80, 24), (120, 40)] {
            let picture = picture(width, height, &show);
            for words in ["jeton demo", "SURGE", "retries caught", "retries missed", "old ids forgotten"] {
                assert!(picture.contains(words), "{width}x{height} lacks {words:?}:\n{picture}");
            }
        }
    }

    #[test]
    fn a_usual_terminal_has_the_charts_and_the_inside() {
        let show = show_at(2_000);
        for (width, height) in [(80, 24), (120, 40)] {
            let picture = picture(width, height, &show);
            for words in ["ids a second", "memory", "by age", "window", "generations", "resizes", "q quit"] {
                assert!(picture.contains(words), "{width}x{height} lacks {words:?}:\n{picture}");
            }
        }
    }
}
