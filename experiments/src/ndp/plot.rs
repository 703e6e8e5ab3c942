//! The plots of the three experiments.

use std::error::Error as StdError;
use std::path::Path;

use namely_bench::error::Error;
use plotters::coord::Shift;
use plotters::prelude::*;

use super::arm::Arm;
use super::results::{Case, METRICS, Point, Row};
use crate::statistics;

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Drawn = Result<(), Box<dyn StdError>>;

const FONT: (&str, i32) = ("sans-serif", 15);

fn write(path: &Path, width: u32, height: u32, draw: impl FnOnce(&Area<'_>) -> Drawn) -> Result<(), Error> {
    let area = SVGBackend::new(path, (width, height)).into_drawing_area();
    let drawn = area.fill(&WHITE).map_err(Into::into).and_then(|()| draw(&area));
    let drawn = drawn.and_then(|()| area.present().map_err(Into::into));
    drawn.map_err(|e| Error::Subject(format!("cannot draw {}: {e}", path.display())))
}

/// A square for each pair of MTUs: green where every transfer was complete, red where none was.
pub(super) fn matrix(path: &Path, mtus: &[u32], cases: &[Case]) -> Result<(), Error> {
    const CELL: i32 = 60;
    let side = 110 + CELL * mtus.len() as i32;
    write(path, 2 * side as u32, side as u32 + 30, |area| {
        let label = |text: &str, x: i32, y: i32| {
            area.draw(&Text::new(text.to_owned(), (x, y), ("sans-serif", 13)))
                .map_err(Box::<dyn StdError>::from)
        };
        for case in cases {
            let index = |mtu: u32| mtus.iter().position(|known| *known == mtu).unwrap_or(0) as i32;
            let left = 90 + if case.arm == Arm::Plain { side } else { 0 } + index(case.consumer) * CELL;
            let top = 70 + index(case.producer) * CELL;
            let share = f64::from(case.succeeded) / f64::from(case.runs.max(1));
            let color = RGBColor((220.0 - 150.0 * share) as u8, (90.0 + 90.0 * share) as u8, 90);
            let corners = [(left, top), (left + CELL - 4, top + CELL - 4)];
            area.draw(&Rectangle::new(corners, color.filled()))?;
            label(&format!("{}/{}", case.succeeded, case.runs), left + 16, top + 22)?;
        }
        for (n, title) in ["with discovery", "plain"].into_iter().enumerate() {
            let left = n as i32 * side;
            label(&format!("{title}: MTU of the consumer across, of the producer down"), left + 20, 20)?;
            for (index, mtu) in mtus.iter().enumerate() {
                label(&mtu.to_string(), left + 100 + index as i32 * CELL, 50)?;
                label(&mtu.to_string(), left + 40, 90 + index as i32 * CELL)?;
            }
        }
        Ok(())
    })
}

/// A panel for each metric: both arms with their intervals.
pub(super) fn grid(path: &Path, arms: &[(Arm, Vec<Row>); 2]) -> Result<(), Error> {
    write(path, 1200, 320, |area| {
        for (n, (panel, (title, ..))) in area.split_evenly((1, METRICS.len())).iter().zip(METRICS).enumerate()
        {
            let bars = arms
                .each_ref()
                .map(|(_, rows)| statistics::mean(&rows.iter().map(|row| row[n]).collect::<Vec<_>>()));
            let most = bars.iter().map(|(mean, half)| mean + half.unwrap_or(0.0)).fold(0.0, f64::max);
            let mut chart = ChartBuilder::on(panel)
                .caption(title, FONT)
                .margin(8)
                .x_label_area_size(28)
                .y_label_area_size(48)
                .build_cartesian_2d(0.0..2.0, 0.0..(most * 1.1).max(0.1))?;
            let name = |x: &f64| if *x < 1.0 { "discovery".to_owned() } else { "plain".to_owned() };
            let mut mesh = chart.configure_mesh();
            mesh.disable_x_mesh().x_labels(2).x_label_formatter(&name).y_labels(5).draw()?;
            for (index, ((mean, half), color)) in bars.iter().zip([BLUE, RED]).enumerate() {
                let x = index as f64;
                let corners = [(x + 0.2, 0.0), (x + 0.8, *mean)];
                chart.draw_series([Rectangle::new(corners, color.mix(0.5).filled())])?;
                if let Some(half) = half {
                    let ends = vec![(x + 0.5, (mean - half).max(0.0)), (x + 0.5, mean + half)];
                    chart.draw_series([PathElement::new(ends, BLACK.stroke_width(2))])?;
                }
            }
        }
        Ok(())
    })
}

/// Two panels against T_h.
pub(super) fn heartbeat(path: &Path, points: &[Point]) -> Result<(), Error> {
    type Panel = (&'static str, fn(&Point) -> f64);
    let panels: [Panel; 2] = [
        ("multicast Interests heard a minute", |point| point.heard_per_min.0),
        ("set-up, ms", |point| point.set_up_ms.0),
    ];
    write(path, 900, 320, |area| {
        let longest = points.iter().map(|point| point.heartbeat_ms).max().unwrap_or(1) as f64 / 1000.0;
        for (panel, (title, of)) in area.split_evenly((1, 2)).iter().zip(panels) {
            let most = points.iter().map(of).fold(0.0, f64::max).max(1.0);
            let mut chart = ChartBuilder::on(panel)
                .caption(title, FONT)
                .margin(8)
                .x_label_area_size(36)
                .y_label_area_size(56)
                .build_cartesian_2d(0.0..longest * 1.05, 0.0..most * 1.1)?;
            chart.configure_mesh().x_desc("T_h, s").x_labels(6).y_labels(6).draw()?;
            let line: Vec<_> = points.iter().map(|p| (p.heartbeat_ms as f64 / 1000.0, of(p))).collect();
            chart.draw_series(LineSeries::new(line.clone(), &BLUE))?;
            chart.draw_series(line.into_iter().map(|point| Circle::new(point, 3, BLUE.filled())))?;
        }
        Ok(())
    })
}
