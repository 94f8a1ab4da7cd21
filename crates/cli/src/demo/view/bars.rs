//! A chart of bars, one a column, in eighths of a cell.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Color;
use ratatui::widgets::Widget;

const EIGHTHS: [&str; 8] = ["▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"];
const FADED: &str = "░";

/// One column.
#[derive(Debug, Clone, Copy)]
pub struct Bar {
    /// Its height as a share of the chart's.
    pub height: f64,
    pub color: Color,
    /// What is no longer there, and drawn so that it is seen without colours too.
    pub faded: bool,
}

pub struct Bars(pub Vec<Bar>);

impl Widget for Bars {
    fn render(self, area: Rect, buffer: &mut Buffer) {
        let area = area.intersection(buffer.area);
        for (bar, x) in self.0.iter().zip(area.left()..area.right()) {
            let full = usize::from(area.height) * 8;
            if bar.height <= 0.0 {
                continue;
            }
            // Little is not nothing.
            let mut eighths = ((bar.height.min(1.0) * full as f64).round() as usize).max(1);
            if bar.faded {
                // Its pattern has no eighths.
                eighths = ((eighths + 4) / 8 * 8).max(8);
            }
            for y in (area.top()..area.bottom()).rev() {
                if eighths == 0 {
                    break;
                }
                let here = eighths.min(8);
                eighths -= here;
                let symbol = if bar.faded { FADED } else { EIGHTHS[here - 1] };
                buffer[(x, y)].set_symbol(symbol).set_fg(bar.color);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_drawn_to_the_eighth() {
        let bar = |height| Bar { height, color: Color::Reset, faded: false };
        let faded = Bar { faded: true, ..bar(0.8) };
        let faded_low = Bar { faded: true, ..bar(0.1) };
        let faded_none = Bar { faded: true, ..bar(0.0) };
        let mut buffer = Buffer::empty(Rect::new(0, 0, 8, 2));
        let bars = vec![bar(0.0), bar(0.001), bar(0.5), bar(0.75), bar(7.0), faded, faded_low, faded_none];
        Bars(bars).render(buffer.area, &mut buffer);
        let row = |y| (0..8).map(|x| buffer[(x, y)].symbol()).collect::<String>();
        assert_eq!([row(0), row(1)], ["   ▄█░  ", " ▁███░░ "]);
    }
}
