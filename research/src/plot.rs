//! Draws a [`Chart`] as SVG.
//!
//! Invariant: the same chart gives the same text, byte for byte; every coordinate is rounded.

use std::fmt::Write as _;

use crate::chart::{Axis, Chart, Colour, Line, Marker, Panel, Scale, Series};

const WIDTH: f64 = 980.0;
const LEFT: f64 = 92.0;
const LEGEND: f64 = 262.0;
const TOP: f64 = 58.0;
const HEADING: f64 = 26.0;
const BOTTOM: f64 = 58.0;
const PANEL_GAP: f64 = 20.0;
const INK: &str = "#1a1a1a";
const FAINT: &str = "#e3e3e3";

/// The data area of a panel.
#[derive(Clone, Copy)]
struct Area {
    x: f64,
    y: f64,
    width: f64,
    height: f64,
}

pub(crate) fn svg(chart: &Chart) -> String {
    let heading = |panel: &Panel| if panel.heading.is_empty() { 0.0 } else { HEADING };
    let inner: f64 = chart.panels.iter().map(|panel| panel.height + heading(panel)).sum();
    let height = TOP + inner + PANEL_GAP * (chart.panels.len().saturating_sub(1)) as f64 + BOTTOM;
    let mut out = String::new();
    let _ = write!(
        out,
        r##"<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}" font-family="Noto Sans, Helvetica, Arial, sans-serif" fill="{INK}"><rect width="{WIDTH}" height="{height}" fill="#ffffff"/>"##
    );
    // The report shows the title as a heading and hides this one.
    out.push_str(r#"<g class="title">"#);
    text(&mut out, LEFT, 34.0, 18.0, "start", true, chart.title);
    out.push_str("</g>");
    let mut y = TOP;
    for (index, panel) in chart.panels.iter().enumerate() {
        if !panel.heading.is_empty() {
            text(&mut out, LEFT, y + 14.0, 14.0, "start", true, panel.heading);
            y += HEADING;
        }
        let area = Area { x: LEFT, y, width: WIDTH - LEFT - LEGEND, height: panel.height };
        let is_last = index + 1 == chart.panels.len();
        draw_panel(&mut out, chart, panel, area, index, is_last);
        y += panel.height + PANEL_GAP;
    }
    out.push_str("</svg>\n");
    out
}

fn draw_panel(out: &mut String, chart: &Chart, panel: &Panel, area: Area, index: usize, is_last: bool) {
    draw_axes(out, &chart.x, &panel.y, area, is_last);
    let clip = format!("{}-{index}", slug(chart.title));
    let Area { x, y, width, height } = area;
    let _ = write!(
        out,
        r#"<clipPath id="{clip}"><rect x="{x}" y="{}" width="{width}" height="{}"/></clipPath><g clip-path="url(#{clip})">"#,
        y - 1.0,
        height + 2.0
    );
    for series in &panel.series {
        draw_lines(out, &chart.x, &panel.y, area, series);
    }
    out.push_str("</g>");
    for series in &panel.series {
        draw_markers(out, &chart.x, &panel.y, area, series);
    }
    draw_legend(out, area, &panel.series);
}

fn draw_axes(out: &mut String, x_axis: &Axis, y_axis: &Axis, area: Area, label_x: bool) {
    let Area { x, y, width, height } = area;
    for (value, major) in ticks(y_axis) {
        let Some(place) = y_axis.place(value).filter(|place| (-1e-9..=1.0 + 1e-9).contains(place)) else {
            continue;
        };
        let at = y + height * (1.0 - place);
        if major {
            line(out, x, at, x + width, at, FAINT, 1.0);
            line(out, x - 5.0, at, x, at, INK, 1.0);
            label_tick(out, x - 9.0, at + 4.5, "end", y_axis, value);
        } else {
            line(out, x - 3.0, at, x, at, INK, 0.7);
        }
    }
    for (value, major) in ticks(x_axis) {
        let Some(place) = x_axis.place(value).filter(|place| (-1e-9..=1.0 + 1e-9).contains(place)) else {
            continue;
        };
        let at = x + width * place;
        let length = if major { 5.0 } else { 3.0 };
        if major {
            line(out, at, y, at, y + height, FAINT, 1.0);
            if label_x {
                label_tick(out, at, y + height + 20.0, "middle", x_axis, value);
            }
        }
        line(out, at, y + height, at, y + height + length, INK, 1.0);
    }
    let _ = write!(
        out,
        r#"<rect x="{x}" y="{y}" width="{width}" height="{height}" fill="none" stroke="{INK}" stroke-width="1"/>"#
    );
    if label_x {
        text(out, x + width / 2.0, y + height + 44.0, 14.0, "middle", false, x_axis.label);
    }
    let middle = y + height / 2.0;
    let _ = write!(
        out,
        r#"<text x="24" y="{middle}" font-size="14" text-anchor="middle" transform="rotate(-90 24 {middle})">{}</text>"#,
        escape(y_axis.label)
    );
}

/// The position of a value on the page. Coordinates far outside the area are clamped.
fn spot(x_axis: &Axis, y_axis: &Axis, area: Area, x: f64, y: f64) -> Option<(f64, f64)> {
    let (px, py) = (x_axis.place(x)?, y_axis.place(y)?);
    Some((area.x + area.width * px, area.y + area.height * (1.0 - py.clamp(-0.5, 1.5))))
}

fn draw_lines(out: &mut String, x_axis: &Axis, y_axis: &Axis, area: Area, series: &Series) {
    let spot = |x: f64, y: f64| spot(x_axis, y_axis, area, x, y);
    let colour = series.colour.code();
    for &(x, low, high) in &series.bars {
        let floor = if y_axis.scale == Scale::Log { low.max(y_axis.from * 0.5) } else { low };
        if let (Some((px, bottom)), Some((_, top))) = (spot(x, floor), spot(x, high)) {
            line(out, px, bottom, px, top, colour, 1.3);
            line(out, px - 3.0, bottom, px + 3.0, bottom, colour, 1.3);
            line(out, px - 3.0, top, px + 3.0, top, colour, 1.3);
        }
    }
    if series.line != Line::None {
        let path = path(series.points.iter().map(|&(x, y)| spot(x, y)), series.line.holds());
        stroke(out, &path, series.colour, series.line);
    }
}

/// Markers may overlap the frame, but not lie outside.
fn draw_markers(out: &mut String, x_axis: &Axis, y_axis: &Axis, area: Area, series: &Series) {
    let within = |&(x, y): &(f64, f64)| {
        (area.x - 0.1..=area.x + area.width + 0.1).contains(&x)
            && (area.y - 0.1..=area.y + area.height + 0.1).contains(&y)
    };
    let spots = series.points.iter().filter_map(|&(x, y)| spot(x_axis, y_axis, area, x, y));
    for (x, y) in spots.filter(within) {
        mark(out, x, y, series.colour, series.marker);
    }
}

/// A path through the points; a missing point interrupts the line.
fn path(spots: impl Iterator<Item = Option<(f64, f64)>>, holds: bool) -> String {
    let mut path = String::new();
    let mut before: Option<(f64, f64)> = None;
    for spot in spots {
        if let Some((x, y)) = spot {
            match before {
                None => {
                    let _ = write!(path, "M{x:.1} {y:.1}");
                }
                Some(_) if holds => {
                    let _ = write!(path, "H{x:.1}V{y:.1}");
                }
                Some(_) => {
                    let _ = write!(path, "L{x:.1} {y:.1}");
                }
            }
        }
        before = spot;
    }
    path
}

fn draw_legend(out: &mut String, area: Area, series: &[Series]) {
    let x = area.x + area.width + 18.0;
    let mut y = area.y + 10.0;
    for series in series.iter().filter(|series| !series.label.is_empty()) {
        stroke(out, &format!("M{x:.1} {y:.1}H{:.1}", x + 30.0), series.colour, series.line);
        mark(out, x + 15.0, y, series.colour, series.marker);
        for (row, label) in series.label.split('\n').enumerate() {
            text(out, x + 38.0, y + 4.5 + 16.0 * row as f64, 12.5, "start", false, label);
        }
        y += 8.0 + 16.0 * series.label.split('\n').count() as f64;
    }
}

fn stroke(out: &mut String, path: &str, colour: Colour, style: Line) {
    if style == Line::None || path.is_empty() {
        return;
    }
    let dashes = style.dashes().map_or(String::new(), |dashes| format!(r#" stroke-dasharray="{dashes}""#));
    let _ = write!(
        out,
        r#"<path d="{path}" fill="none" stroke="{}" stroke-width="2" stroke-linejoin="round"{dashes}/>"#,
        colour.code()
    );
}

fn mark(out: &mut String, x: f64, y: f64, colour: Colour, marker: Marker) {
    let code = colour.code();
    let _ = match marker {
        Marker::None => Ok(()),
        Marker::Disc => write!(out, r#"<circle cx="{x:.1}" cy="{y:.1}" r="3.6" fill="{code}"/>"#),
        Marker::Ring => write!(
            out,
            r#"<circle cx="{x:.1}" cy="{y:.1}" r="6" fill="none" stroke="{code}" stroke-width="1.7"/>"#
        ),
        Marker::Cross => write!(
            out,
            r#"<path d="M{:.1} {:.1}l8 8m0 -8l-8 8" stroke="{code}" stroke-width="1.8"/>"#,
            x - 4.0,
            y - 4.0
        ),
    };
}

fn line(out: &mut String, x1: f64, y1: f64, x2: f64, y2: f64, colour: &str, width: f64) {
    let _ = write!(
        out,
        r#"<path d="M{x1:.1} {y1:.1}L{x2:.1} {y2:.1}" stroke="{colour}" stroke-width="{width}" fill="none"/>"#
    );
}

fn text(out: &mut String, x: f64, y: f64, size: f64, anchor: &str, bold: bool, content: &str) {
    let weight = if bold { r#" font-weight="bold""# } else { "" };
    let _ = write!(
        out,
        r#"<text x="{x:.1}" y="{y:.1}" font-size="{size}" text-anchor="{anchor}"{weight}>{}</text>"#,
        escape(content)
    );
}

/// The ticks of an axis; the flag marks those with a label and a grid line.
fn ticks(axis: &Axis) -> Vec<(f64, bool)> {
    if !axis.ticks.is_empty() {
        return axis.ticks.iter().map(|&tick| (tick, true)).collect();
    }
    match axis.scale {
        Scale::Linear => {
            let step = nice_step((axis.to - axis.from) / 6.0);
            let first = (axis.from / step).ceil() as i64;
            let last = (axis.to / step + 1e-9).floor() as i64;
            (first..=last).map(|n| (n as f64 * step, true)).collect()
        }
        Scale::Log => {
            let (first, last) = (axis.from.log10().floor() as i32, axis.to.log10().ceil() as i32);
            let every = ((last - first) / 8 + 1).max(1);
            let decade = |power: i32| {
                let minors =
                    (2..10).filter(|_| every == 1).map(move |n| (f64::from(n) * 10f64.powi(power), false));
                std::iter::once((10f64.powi(power), power.rem_euclid(every) == 0)).chain(minors)
            };
            (first..=last).flat_map(decade).collect()
        }
    }
}

/// The 1, 2 or 5 times a power of ten nearest to a desired distance.
fn nice_step(wished: f64) -> f64 {
    let power = 10f64.powf(wished.log10().floor());
    [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .map(|n| n * power)
        .find(|step| *step >= wished * 0.8)
        .unwrap_or(10.0 * power)
}

/// Powers of ten get a raised exponent, drawn explicitly: few fonts have a superscript minus.
fn label_tick(out: &mut String, x: f64, y: f64, anchor: &str, axis: &Axis, value: f64) {
    let _ = write!(out, r#"<text x="{x:.1}" y="{y:.1}" font-size="12.5" text-anchor="{anchor}">"#);
    let _ = match axis.scale {
        Scale::Log if axis.ticks.is_empty() => {
            let exponent = format!("{:.0}", value.log10()).replace('-', "\u{2212}");
            write!(out, r#"10<tspan dy="-5" font-size="9.5">{exponent}</tspan>"#)
        }
        _ if axis.to >= 10_000.0 => write!(out, "{}k", value / 1000.0),
        _ => write!(out, "{}", (value * 1e6).round() / 1e6),
    };
    out.push_str("</text>");
}

fn slug(title: &str) -> String {
    title.chars().filter(char::is_ascii_alphanumeric).collect()
}

/// Escapes text for SVG and HTML.
pub(crate) fn escape(content: &str) -> String {
    content.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markers_outside_the_area_are_not_drawn() {
        let points = [(0.5, 0.5), (1.0, 1.0), (2.0, 0.5), (0.5, 1.2)];
        let series = Series::new("", Colour::Blue, Line::None, Marker::Disc).with_points(points);
        let panel = Panel { heading: "", y: Axis::linear("", 0.0, 1.0), series: vec![series], height: 100.0 };
        let chart = Chart { title: "", x: Axis::linear("", 0.0, 1.0), panels: vec![panel] };
        assert_eq!(svg(&chart).matches("<circle").count(), 2);
    }
}
