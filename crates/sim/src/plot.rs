//! Plots of results: small panels of lines side by side, as SVG text that depends on the numbers
//! only.

use std::fmt::Write;

const PANEL: (f64, f64) = (300.0, 150.0);
const MARGIN: (f64, f64) = (44.0, 36.0);
const LEGEND_ROW: f64 = 18.0;
const COLOURS: [&str; 4] = ["#1f5fa8", "#c8551b", "#2c8a4b", "#7a4aa0"];

/// One panel: lines over a common x.
#[derive(Clone, Debug)]
pub struct Panel {
    /// Title, with the unit of y.
    pub title: String,
    /// Maximum of x; the minimum is 0.
    pub x_max: f64,
    /// Maximum of y; the minimum is 0. Greater values are cut.
    pub y_max: f64,
    /// Points of each line.
    pub lines: Vec<Vec<(f64, f64)>>,
}

/// Draws panels in rows of `columns`, with `x_label` below each.
pub fn svg(panels: &[Panel], columns: usize, x_label: &str) -> String {
    svg_with_names(panels, columns, x_label, &[])
}

/// As [`svg`], with a legend of the lines' `names`, in their order, below all panels.
pub fn svg_with_names(panels: &[Panel], columns: usize, x_label: &str, names: &[&str]) -> String {
    let columns = columns.max(1);
    let cell = (PANEL.0 + MARGIN.0 + 12.0, PANEL.1 + 2.0 * MARGIN.1);
    let legend_y = cell.1 * panels.len().div_ceil(columns) as f64;
    let (width, height) =
        (cell.0 * columns as f64, legend_y + LEGEND_ROW * names.len().div_ceil(columns) as f64);
    let mut out = String::new();
    let _ = writeln!(
        out,
        r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="11">"#
    );
    let _ = writeln!(out, r#"<rect width="{width}" height="{height}" fill="white"/>"#);
    for (i, panel) in panels.iter().enumerate() {
        let (x, y) = ((i % columns) as f64 * cell.0 + MARGIN.0, (i / columns) as f64 * cell.1 + MARGIN.1);
        let _ = writeln!(out, r#"<g transform="translate({x} {y})">"#);
        draw(panel, x_label, &mut out);
        out.push_str("</g>\n");
    }
    for (i, (name, colour)) in names.iter().zip(COLOURS.iter().cycle()).enumerate() {
        let x = (i % columns) as f64 * cell.0 + MARGIN.0;
        let y = legend_y + (i / columns) as f64 * LEGEND_ROW + 4.0;
        let _ = writeln!(out, r#"<path d="M{x} {y}h24" stroke="{colour}" stroke-width="2"/>"#);
        let _ = writeln!(out, r#"<text x="{}" y="{}">{}</text>"#, x + 30.0, y + 4.0, escaped(name));
    }
    out.push_str("</svg>\n");
    out
}

fn draw(panel: &Panel, x_label: &str, out: &mut String) {
    let (width, height) = PANEL;
    let _ = writeln!(out, r#"<text y="-10" font-weight="bold">{}</text>"#, escaped(&panel.title));
    for quarter in 0..=4 {
        let share = f64::from(quarter) / 4.0;
        let (x, y) = (share * width, height - share * height);
        let _ = writeln!(out, r##"<path d="M0 {y}H{width}" stroke="#ddd"/>"##);
        let _ =
            writeln!(out, r#"<text x="-6" y="{}" text-anchor="end">{}</text>"#, y + 4.0, share * panel.y_max);
        let _ = writeln!(
            out,
            r#"<text x="{x}" y="{}" text-anchor="middle">{}</text>"#,
            height + 14.0,
            share * panel.x_max
        );
    }
    let _ = writeln!(
        out,
        r#"<text x="{}" y="{}" text-anchor="middle">{}</text>"#,
        width / 2.0,
        height + 28.0,
        escaped(x_label)
    );
    for (line, colour) in panel.lines.iter().zip(COLOURS.iter().cycle()) {
        let points: Vec<String> = line
            .iter()
            .map(|(x, y)| {
                let y = (y / panel.y_max).clamp(0.0, 1.0);
                format!("{:.1},{:.1}", x / panel.x_max * width, height - y * height)
            })
            .collect();
        let points = points.join(" ");
        let _ = writeln!(
            out,
            r#"<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.2"/>"#
        );
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plotted_lines_are_cut_at_the_panel() {
        let panel = Panel {
            title: "a < b".into(),
            x_max: 10.0,
            y_max: 5.0,
            lines: vec![vec![(0.0, 0.0), (5.0, 9.0), (10.0, 5.0)]],
        };
        let svg = svg(&[panel.clone(), panel], 1, "s");
        assert_eq!(svg.matches(r#"points="0.0,150.0 150.0,0.0 300.0,0.0""#).count(), 2);
        assert!(svg.contains("a &lt; b") && svg.contains(r#"viewBox="0 0 356 444""#), "{svg}");
    }

    #[test]
    fn line_names_have_their_lines_colors() {
        let panel = Panel { title: "y".into(), x_max: 1.0, y_max: 1.0, lines: vec![vec![(0.0, 0.0)]; 2] };
        let svg = svg_with_names(&[panel.clone(), panel], 2, "s", &["one", "other & more"]);
        assert!(svg.contains(">one<") && svg.contains(">other &amp; more<"), "{svg}");
        assert!(svg.contains(r#"viewBox="0 0 712 240""#), "{svg}");
        for colour in &COLOURS[..2] {
            assert_eq!(svg.matches(colour).count(), 3, "a line in each panel and the name: {svg}");
        }
    }
}
