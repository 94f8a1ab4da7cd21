//! The plot of `etx-fig8`: the latency that each protocol adds to plain commits, by the duration of the SQL.

use super::latency::Row;
use super::protocol::Protocol;
use crate::chart::{Axis, Chart, Colour, Line, Marker, Panel, Series};

const TITLE: &str = "Latency that exactly-once adds to two plain commits";

/// Of the first MariaDB, both databases.
pub(crate) fn of(rows: &[Row]) -> Chart {
    let mariadb = rows.first().map_or("", |row| row.mariadb);
    let rows: Vec<&Row> =
        rows.iter().filter(|row| row.mariadb == mariadb && row.protocol.databases() == 2).collect();
    let mut protocols: Vec<Protocol> = Vec::new();
    for row in &rows {
        if row.protocol != Protocol::Baseline && !protocols.contains(&row.protocol) {
            protocols.push(row.protocol);
        }
    }
    let added = |row: &Row, ratio: f64| row.summary.median / row.over_baseline.value * (ratio - 1.0);
    let share = |_: &Row, ratio: f64| (ratio - 1.0) * 100.0;
    let series = |value: &dyn Fn(&Row, f64) -> f64| -> Vec<Series> {
        protocols
            .iter()
            .enumerate()
            .map(|(place, protocol)| line(&rows, *protocol, place, protocols.len(), value))
            .collect()
    };
    let (added, share) = (series(&added), series(&share));
    let top = |series: &[Series]| {
        let highs = series.iter().flat_map(|series| series.bars.iter().map(|(_, _, high)| *high));
        highs.fold(0.1, f64::max) * 1.1
    };
    let panel = |heading, label, series: Vec<Series>| Panel {
        heading,
        y: Axis::linear(label, 0.0, top(&series)),
        series,
        height: 250.0,
    };
    Chart {
        title: TITLE,
        x: Axis::log("milliseconds of SQL in each branch (1 stands for none)", 0.7, 280.0)
            .with_ticks(&[1.0, 10.0, 187.0]),
        panels: vec![
            panel("In milliseconds, of the median", "ms added", added),
            panel("In per cent, of the median", "% added", share),
        ],
    }
}

fn line(
    rows: &[&Row],
    protocol: Protocol,
    place: usize,
    places: usize,
    value: &dyn Fn(&Row, f64) -> f64,
) -> Series {
    let (colour, marker) = match protocol {
        Protocol::PresumedNothing => (Colour::Grey, Marker::Cross),
        Protocol::PresumedAbort => (Colour::Black, Marker::Cross),
        Protocol::EtxMemory => (Colour::Sky, Marker::Disc),
        Protocol::EtxEmbedded => (Colour::Blue, Marker::Disc),
        Protocol::EtxRaft => (Colour::Green, Marker::Disc),
        _ => (Colour::Vermilion, Marker::Disc),
    };
    // Side by side, so that no interval hides another.
    let beside = 1.07_f64.powf(place as f64 - (places as f64 - 1.0) / 2.0);
    let mut series = Series::new(protocol.name(), colour, Line::None, marker);
    for row in rows.iter().filter(|row| row.protocol == protocol) {
        let x = f64::from(row.sql_ms.max(1)) * beside;
        let over = row.over_baseline;
        series.points.push((x, value(row, over.value)));
        series.bars.push((x, value(row, over.low), value(row, over.high)));
    }
    series
}
