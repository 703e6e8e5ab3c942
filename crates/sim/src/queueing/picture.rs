//! The models' results as pictures.

use crate::plot::{Panel, svg_with_names};

use super::bypass::Steady;
use super::pipeline::RING_PACKETS;

/// Draws packets, loss and utilization of models over their load, as figure 9 of NB-Cache. A model
/// has a line: its name, and its steady states in the order of loads.
pub fn bypass_svg(models: &[(String, Vec<Steady>)]) -> String {
    type Figure = (&'static str, fn(&Steady) -> f64);
    let figures: [Figure; 4] = [
        ("packets in all queues", Steady::packets_mean),
        ("packets in a queue", |s| s.packets_mean() / s.queues() as f64),
        ("share that is lost", Steady::loss),
        ("utilisation of servers", Steady::utilisation),
    ];
    let panels = figures.map(|(title, value)| {
        let points = |states: &Vec<Steady>| states.iter().map(|s| (s.load(), value(s))).collect();
        panel(title, models.iter().map(|(_, states)| points(states)).collect())
    });
    let names: Vec<&str> = models.iter().map(|(name, _)| name.as_str()).collect();
    svg_with_names(&panels, 2, "arrivals for each service of one queue", &names)
}

/// A line's points.
pub type Line = Vec<(f64, f64)>;

/// Draws the packets in rings over time in s, as figure 2 of NB-Cache. Each title has a panel of
/// lines.
pub fn ring_svg(panels: Vec<(String, Vec<Line>)>, names: &[&str]) -> String {
    let panels: Vec<Panel> = panels
        .into_iter()
        .map(|(title, lines)| Panel { y_max: RING_PACKETS as f64, ..panel(&title, lines) })
        .collect();
    svg_with_names(&panels, 3, "s", names)
}

/// Creates a panel with axes that fit its lines.
fn panel(title: &str, lines: Vec<Line>) -> Panel {
    let most = |of: fn(&(f64, f64)) -> f64| lines.iter().flatten().map(of).fold(0.0, f64::max);
    let (x_max, y_max) = (most(|p| p.0), round_up(most(|p| p.1)));
    Panel { title: title.into(), x_max, y_max, lines }
}

/// Rounds up to 1, 2, 4 or 8 times a power of ten. The quarters of such a number are short.
fn round_up(value: f64) -> f64 {
    if !value.is_finite() || value <= 0.0 {
        return 1.0;
    }
    let power = 10f64.powf(value.log10().floor());
    [1.0, 2.0, 4.0, 8.0, 10.0].map(|step| step * power).into_iter().find(|up| *up >= value).unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queueing::Bypass;

    #[test]
    fn a_picture_has_one_panel_per_figure() {
        let solved = |bypass: Bypass| [0.5, 1.0].map(|load| bypass.solve(load).unwrap()).to_vec();
        let models = [
            ("one".to_owned(), solved(Bypass::dropping(10).unwrap())),
            ("two".to_owned(), solved(Bypass::new(2, 3).unwrap())),
        ];
        let svg = bypass_svg(&models);
        assert_eq!(svg.matches("<polyline").count(), 8, "{svg}");
        assert!(svg.contains(">one<") && svg.contains(">share that is lost<"), "{svg}");
    }

    #[test]
    fn an_axis_ends_at_a_round_number() {
        let ends = [0.0, 0.0031, 0.9, 1.0, 9.6, 17.0, f64::NAN].map(round_up);
        let expected = [1.0, 0.004, 1.0, 1.0, 10.0, 20.0, 1.0];
        assert!(ends.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-12), "{ends:?}");
    }
}
