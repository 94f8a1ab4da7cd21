//! Data model of a plot; `plot.rs` draws it.

/// A figure: panels below each other that share the x axis.
pub(crate) struct Chart {
    pub(crate) title: &'static str,
    pub(crate) x: Axis,
    pub(crate) panels: Vec<Panel>,
}

pub(crate) struct Panel {
    /// A short heading; empty for a chart of one panel.
    pub(crate) heading: &'static str,
    pub(crate) y: Axis,
    pub(crate) series: Vec<Series>,
    /// Height of the data area in points.
    pub(crate) height: f64,
}

#[derive(Debug, Clone)]
pub(crate) struct Axis {
    pub(crate) label: &'static str,
    pub(crate) scale: Scale,
    pub(crate) from: f64,
    pub(crate) to: f64,
    /// Tick positions; chosen automatically if empty.
    pub(crate) ticks: Vec<f64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scale {
    Linear,
    Log,
}

impl Axis {
    pub(crate) fn linear(label: &'static str, from: f64, to: f64) -> Self {
        Self { label, scale: Scale::Linear, from, to, ticks: Vec::new() }
    }

    pub(crate) fn log(label: &'static str, from: f64, to: f64) -> Self {
        Self { label, scale: Scale::Log, from, to, ticks: Vec::new() }
    }

    pub(crate) fn with_ticks(mut self, ticks: &[f64]) -> Self {
        self.ticks = ticks.to_vec();
        self
    }

    /// The relative position of a value, from 0 to 1; `None` if the axis cannot show it.
    pub(crate) fn place(&self, value: f64) -> Option<f64> {
        let share = match self.scale {
            Scale::Linear => (value - self.from) / (self.to - self.from),
            Scale::Log if value > 0.0 => (value / self.from).ln() / (self.to / self.from).ln(),
            Scale::Log => return None,
        };
        share.is_finite().then_some(share)
    }
}

pub(crate) struct Series {
    /// Legend entry; a line break starts a second line.
    pub(crate) label: String,
    pub(crate) colour: Colour,
    pub(crate) line: Line,
    pub(crate) marker: Marker,
    pub(crate) points: Vec<(f64, f64)>,
    /// Confidence intervals: x, low, high.
    pub(crate) bars: Vec<(f64, f64, f64)>,
}

impl Series {
    pub(crate) fn new(label: impl Into<String>, colour: Colour, line: Line, marker: Marker) -> Self {
        Self { label: label.into(), colour, line, marker, points: Vec::new(), bars: Vec::new() }
    }

    pub(crate) fn with_points(mut self, points: impl IntoIterator<Item = (f64, f64)>) -> Self {
        self.points.extend(points);
        self
    }
}

/// The palette of Okabe and Ito, which is safe for colour-blind readers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Colour {
    Black,
    Orange,
    Sky,
    Green,
    Blue,
    Vermilion,
    Grey,
}

impl Colour {
    pub(crate) fn code(self) -> &'static str {
        match self {
            Self::Black => "#1a1a1a",
            Self::Orange => "#e69f00",
            Self::Sky => "#56b4e9",
            Self::Green => "#009e73",
            Self::Blue => "#0072b2",
            Self::Vermilion => "#d55e00",
            Self::Grey => "#8a8a8a",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Line {
    None,
    Solid,
    Dashed,
    Dotted,
    /// Solid, and each value holds until the next one.
    Steps,
    DashedSteps,
}

impl Line {
    pub(crate) fn dashes(self) -> Option<&'static str> {
        match self {
            Self::Dashed | Self::DashedSteps => Some("7 4"),
            Self::Dotted => Some("2 3.5"),
            Self::None | Self::Solid | Self::Steps => None,
        }
    }

    pub(crate) fn holds(self) -> bool {
        matches!(self, Self::Steps | Self::DashedSteps)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Marker {
    None,
    Disc,
    Ring,
    Cross,
}
