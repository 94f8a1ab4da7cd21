//! The charts: the load and the memory over the whole demo, and what is remembered by the age of the id.

use forgetful_filter::Moment;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Stylize};
use ratatui::text::{Line, Span};

use super::bars::{Bar, Bars};
use super::headline;
use crate::demo::script::{CALM_RATE, SURGE_FACTOR};
use crate::demo::show::{Show, WITNESS_WINDOWS};
use crate::number_format::{bytes, grouped};

/// The bars of a chart are at least and at most this high.
const BARS_MIN: u16 = 2;
const BARS_MAX: u16 = 9;

/// The top of the charts of the load: it wavers by an eighth around its rate, and some of it is sent again.
const RATE_MAX: u64 = CALM_RATE * SURGE_FACTOR * 5 / 4;

/// Memory that the chart has room for from the start, as a multiple of the memory at the start: the surge is known
/// to come, and a scale that changes while one looks is hard to read.
const MEMORY_ROOM: u64 = 12;

/// Draws as many charts as there is room for: the age first, then the load, then the memory.
pub fn draw(frame: &mut Frame<'_>, show: &Show, area: Rect) {
    // A headline and an axis each; load and memory share one axis.
    let needed = |charts: u16| charts * (1 + BARS_MIN) + charts.min(2);
    match (1..=3).rev().find(|charts| area.height >= needed(*charts)) {
        Some(3) => {
            let bars = bars_of(area.height - 5, 3);
            let [load, memory, phases, age] = Layout::vertical([
                Constraint::Length(1 + bars[0]),
                Constraint::Length(1 + bars[1]),
                Constraint::Length(1),
                Constraint::Length(2 + bars[2]),
            ])
            .areas(area);
            draw_load(frame, show, load);
            draw_memory(frame, show, memory);
            frame.render_widget(phase_axis(show, phases.width), phases);
            draw_age(frame, show, age);
        }
        Some(2) => {
            let bars = bars_of(area.height - 4, 2);
            let [load, phases, age] = Layout::vertical([
                Constraint::Length(1 + bars[0]),
                Constraint::Length(1),
                Constraint::Length(2 + bars[1]),
            ])
            .areas(area);
            draw_load(frame, show, load);
            frame.render_widget(phase_axis(show, phases.width), phases);
            draw_age(frame, show, age);
        }
        Some(_) => draw_age(frame, show, area),
        None => {}
    }
}

/// The heights of so many charts in so many rows; what does not divide goes to the first ones.
fn bars_of(rows: u16, charts: u16) -> Vec<u16> {
    (0..charts).map(|chart| ((rows + charts - 1 - chart) / charts).min(BARS_MAX)).collect()
}

fn draw_load(frame: &mut Frame<'_>, show: &Show, area: Rect) {
    let body = draw_headline(frame, "ids a second", &grouped(show.history().rate()), Color::Cyan, area);
    let values = show.history().columns(area.width, |sample| sample.rate);
    frame.render_widget(solid(values, RATE_MAX, Color::Cyan), body);
}

fn draw_memory(frame: &mut Frame<'_>, show: &Show, area: Rect) {
    let peak = show.history().peak_bytes() as u64;
    let value = format!("{}, peak {}", bytes(show.status().bytes as u64), bytes(peak));
    let body = draw_headline(frame, "memory", &value, Color::Magenta, area);
    let values = show.history().columns(area.width, |sample| sample.status.bytes as u64);
    let first = values.first().copied().flatten().unwrap_or(0);
    frame.render_widget(solid(values, peak.max(first * MEMORY_ROOM), Color::Magenta), body);
}

/// The surge wanders through this chart to the right, and ends at the window.
fn draw_age(frame: &mut Frame<'_>, show: &Show, area: Rect) {
    let [area, axis] = Layout::vertical([Constraint::Min(0), Constraint::Length(1)]).areas(area);
    let value = format!("{} remembered", grouped(show.status().ids));
    let body = draw_headline(frame, "ids by age: █ remembered ░ forgotten", &value, Color::Green, area);
    let bars = show.ages(area.width).into_iter().map(|age| {
        let forgotten = age.remembered < 0.5;
        Bar {
            // The root, so that the calm is seen beside the surge.
            height: (age.rate as f64 / RATE_MAX as f64).sqrt(),
            color: if forgotten { Color::DarkGray } else { Color::Green },
            faded: forgotten,
        }
    });
    frame.render_widget(Bars(bars.collect()), body);
    frame.render_widget(age_axis(show, axis.width), axis);
}

/// Draws the headline of a chart; returns the area below it.
fn draw_headline(frame: &mut Frame<'_>, label: &str, value: &str, color: Color, area: Rect) -> Rect {
    let [head, body] = Layout::vertical([Constraint::Length(1), Constraint::Min(0)]).areas(area);
    frame.render_widget(headline(label, value, color, area.width), head);
    body
}

fn solid(values: Vec<Option<u64>>, max: u64, color: Color) -> Bars {
    let height = |value: Option<u64>| value.unwrap_or(0) as f64 / max.max(1) as f64;
    Bars(values.into_iter().map(|value| Bar { height: height(value), color, faded: false }).collect())
}

/// The phases under a chart of the whole demo; the present one stands out.
fn phase_axis(show: &Show, width: u16) -> Line<'static> {
    let script = show.script();
    let present = script.phase(show.now());
    let column = |moment: Moment| {
        let share = moment.as_nanos() as f64 / script.end().as_nanos() as f64;
        (share * f64::from(width)) as usize
    };
    let mut spans = Vec::new();
    let mut from = 0;
    for (phase, end) in script.phases() {
        let room = column(end).saturating_sub(from).saturating_sub(1);
        let text = format!("└{:<room$}", phase.name().chars().take(room).collect::<String>());
        spans.push(if phase == present { Span::from(text).bold() } else { Span::from(text).dim() });
        from = column(end);
    }
    Line::from(spans)
}

/// The ages under the chart of ages.
fn age_axis(show: &Show, width: u16) -> Line<'static> {
    let window = show.script().window().as_secs_f64();
    let half = usize::from(width) / WITNESS_WINDOWS as usize;
    let rest = usize::from(width).saturating_sub(half + 1);
    let end = format!("{} s ago", window * f64::from(WITNESS_WINDOWS));
    let room = rest.saturating_sub(end.len());
    let border = format!("window: {window} s").chars().take(room).collect::<String>();
    Line::from(format!("{:<half$}└{border:<room$}{end}", "now")).dim()
}
