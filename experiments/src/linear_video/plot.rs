//! The plot: the server's load against the number of viewers, over TCP and over names.

use std::error::Error;
use std::path::Path;

use plotters::prelude::*;

use super::experiment::{Mode, Outcome};

/// Size of the picture, pixels.
const SIZE: (u32, u32) = (1080, 360);

/// A panel: its title and the value of a run that it shows.
type Panel = (&'static str, fn(&Outcome) -> f64);

const PANELS: [Panel; 3] = [
    ("requests at the server", |o| o.server_requests as f64),
    ("memory of the server, MiB", |o| o.server_mib),
    ("processor time of the server, s", |o| o.server_cpu_s),
];

/// Writes the plot of `outcomes` to `path`.
pub(crate) fn write(path: &Path, outcomes: &[Outcome]) -> Result<(), Box<dyn Error + Send + Sync>> {
    let area = SVGBackend::new(path, SIZE).into_drawing_area();
    let failed = |e: &dyn Error| Box::<dyn Error + Send + Sync>::from(e.to_string());
    area.fill(&WHITE).map_err(|e| failed(&e))?;
    for (area, panel) in area.split_evenly((1, PANELS.len())).iter().zip(PANELS) {
        draw(area, panel, outcomes).map_err(|e| failed(&*e))?;
    }
    area.present().map_err(|e| failed(&e))
}

fn draw(
    area: &DrawingArea<SVGBackend<'_>, plotters::coord::Shift>,
    (title, value): Panel,
    outcomes: &[Outcome],
) -> Result<(), Box<dyn Error>> {
    let most = outcomes.iter().map(value).fold(0.0, f64::max) * 1.1;
    let viewers = outcomes.iter().map(|o| o.viewers).max().unwrap_or(1);
    let mut chart = ChartBuilder::on(area)
        .caption(title, ("sans-serif", 16))
        .margin(10)
        .x_label_area_size(36)
        .y_label_area_size(56)
        .build_cartesian_2d(0..viewers + viewers / 10 + 1, 0.0..most.max(1.0))?;
    chart.configure_mesh().x_desc("viewers").x_labels(6).y_labels(6).draw()?;
    for (mode, label, color) in [(Mode::Tcp, "TCP", RED), (Mode::Names, "names", BLUE)] {
        let points: Vec<_> =
            outcomes.iter().filter(|o| o.mode == mode).map(|o| (o.viewers, value(o))).collect();
        let key = move |(x, y)| PathElement::new(vec![(x, y), (x + 18, y)], color);
        chart.draw_series(LineSeries::new(points.clone(), &color))?.label(label).legend(key);
        chart.draw_series(points.into_iter().map(|point| Circle::new(point, 3, color.filled())))?;
    }
    chart.configure_series_labels().position(SeriesLabelPosition::UpperLeft).border_style(BLACK).draw()?;
    Ok(())
}
