//! `plot`: bars from the JSON lines of `istack`, and of `namely --json perf object`, `request` and
//! `crypto`.
//!
//! It draws its input and nothing else; it never measures.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use serde_json::Value;

use clap::Args;
use namely_bench::error::Error;
use namely_bench::output;

/// Options of `plot`.
#[derive(Args, Debug)]
pub struct Plot {
    /// Files with JSON lines.
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// The SVG file to write.
    #[arg(long, value_name = "FILE")]
    pub to: PathBuf,
}

/// Maximum number of bars in a plot. More would not be readable.
const BARS_MAX: usize = 200;

/// Maximum octets of one line. The programs print lines of a few hundred octets.
const LINE_OCTETS_MAX: usize = 64 << 10;

const WIDTH: i32 = 900;
const ROW: i32 = 20;
const TITLE: i32 = 34;
const LABELS: i32 = 340;
const FIGURES: i32 = 150;
const FONT: &str = "sans-serif";

/// A bar with the interval of its measurement.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Bar {
    pub(crate) panel: String,
    pub(crate) label: String,
    pub(crate) value: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
}

/// Runs `plot`.
///
/// # Errors
/// Returns an error if a file cannot be read or written, or if a line is of no experiment.
pub fn run(options: &Plot) -> Result<(), Error> {
    let mut bars = Vec::new();
    for path in &options.files {
        let file = std::fs::File::open(path)
            .map_err(|e| Error::environment(format!("cannot open {}", path.display()), e))?;
        read(BufReader::new(file), &path.display().to_string(), &mut bars)?;
    }
    if bars.is_empty() {
        return Err(Error::Usage(
            "no experiment in these files: they need a program's output with --json".into(),
        ));
    }
    output::lines(table(&bars));
    write(&options.to, &bars)
}

/// Writes the bars as SVG.
///
/// # Errors
/// Returns an error if the file cannot be written.
pub(crate) fn write(to: &Path, bars: &[Bar]) -> Result<(), Error> {
    draw(to, bars).map_err(|e| {
        Error::environment(format!("cannot write {}", to.display()), std::io::Error::other(e.to_string()))
    })
}

fn read(lines: impl BufRead, file: &str, bars: &mut Vec<Bar>) -> Result<(), Error> {
    for (n, line) in lines.lines().enumerate() {
        let line = line.map_err(|e| Error::environment(format!("cannot read {file}"), e))?;
        let refused = |why: &str| Error::Usage(format!("{file}, line {}: {why}", n + 1));
        if line.len() > LINE_OCTETS_MAX {
            return Err(refused("too long"));
        }
        let value = serde_json::from_str(&line).map_err(|e| refused(&e.to_string()))?;
        bars.push(bar(&value).ok_or_else(|| refused("no line of an experiment"))?);
        if bars.len() > BARS_MAX {
            return Err(refused(&format!("more than {BARS_MAX} bars")));
        }
    }
    Ok(())
}

/// The bar of one line; none if it is of no experiment.
fn bar(line: &Value) -> Option<Bar> {
    let text = |key: &str| line[key].as_str();
    let number = |key: &str| line[key].as_u64();
    if let Some(experiment) = text("experiment") {
        let flows = number("flows")?;
        let plural = if flows == 1 { "" } else { "s" };
        let label = format!("{}, {} octets, {flows} flow{plural}", text("what")?, number("payload_octets")?);
        let of = |key: &str| line["goodput_mbps"][key].as_f64();
        return Some(Bar {
            panel: format!("{experiment}: goodput, Mbit/s"),
            label,
            value: of("median")?,
            low: of("min")?,
            high: of("max")?,
        });
    }
    let sample = |panel: String, label: String, sample: &Value| {
        let (mean, half) = (sample["mean"].as_f64()?, sample["ci99_half"].as_f64()?);
        Some(Bar { panel, label, value: mean, low: (mean - half).max(0.0), high: mean + half })
    };
    match text("kind")? {
        "object" => {
            let panel = format!("goodput, segments of {} octets, Mbit/s", number("segment_octets")?);
            let consumers = match number("consumers")? {
                1 => String::new(),
                n => format!(", {n} consumers"),
            };
            let label =
                format!("{}, {}, {}{consumers}", text("production")?, text("suite")?, text("signed")?);
            sample(panel, label, &line["goodput_mbps"])
        }
        "request" => {
            let panel = format!("a request of {} octets, mean us", number("payload_octets")?);
            sample(panel, text("suite")?.to_owned(), &line["mean_us"])
        }
        "crypto" => {
            let label = format!("{}, {} octets", text("operation")?, number("octets")?);
            sample("cryptography in a loop, us".to_owned(), label, &line["vector_us"])
        }
        _ => None,
    }
}

/// The bars of each panel, in the order in which panels appear.
fn panels(bars: &[Bar]) -> Vec<(&str, Vec<&Bar>)> {
    let mut panels: Vec<(&str, Vec<&Bar>)> = Vec::new();
    for bar in bars {
        match panels.iter_mut().find(|(title, _)| *title == bar.panel) {
            Some((_, of)) => of.push(bar),
            None => panels.push((&bar.panel, vec![bar])),
        }
    }
    panels
}

fn figures(bar: &Bar) -> String {
    let digits = if bar.value < 10.0 { 2 } else { usize::from(bar.value < 100.0) };
    format!("{:.digits$} ({:.digits$}-{:.digits$})", bar.value, bar.low, bar.high)
}

/// The bars as text.
fn table(bars: &[Bar]) -> String {
    let width = bars.iter().map(|bar| bar.label.chars().count()).max().unwrap_or(0);
    let mut text = String::new();
    for (title, bars) in panels(bars) {
        let _ = writeln!(text, "{title}");
        for bar in bars {
            let _ = writeln!(text, "  {:<width$}  {}", bar.label, figures(bar));
        }
    }
    text
}

type Drawn = Result<(), Box<dyn std::error::Error>>;

fn draw(path: &Path, bars: &[Bar]) -> Drawn {
    let panels = panels(bars);
    let height: i32 = panels.iter().map(|(_, bars)| TITLE + ROW * bars.len() as i32).sum::<i32>() + 12;
    let area = SVGBackend::new(path, (WIDTH as u32, height as u32)).into_drawing_area();
    area.fill(&WHITE)?;
    let mut y = 0;
    for (title, bars) in panels {
        area.draw(&Text::new(title, (10, y + 12), (FONT, 15).into_font().style(FontStyle::Bold)))?;
        y += TITLE;
        let most = bars.iter().map(|bar| bar.high).fold(f64::MIN_POSITIVE, f64::max);
        for bar in bars {
            draw_bar(&area, bar, y, most)?;
            y += ROW;
        }
    }
    area.present()?;
    Ok(())
}

fn draw_bar(
    area: &DrawingArea<SVGBackend<'_>, plotters::coord::Shift>,
    bar: &Bar,
    y: i32,
    most: f64,
) -> Drawn {
    let at = |value: f64| LABELS + (value / most * f64::from(WIDTH - LABELS - FIGURES)) as i32;
    let middle = y + ROW / 2;
    let style = |right| {
        let pos = Pos::new(if right { HPos::Right } else { HPos::Left }, VPos::Center);
        (FONT, 12).into_font().color(&BLACK).pos(pos)
    };
    area.draw(&Text::new(bar.label.as_str(), (LABELS - 8, middle), style(true)))?;
    let corners = [(LABELS, y + 3), (at(bar.value), y + ROW - 3)];
    area.draw(&Rectangle::new(corners, RGBColor(31, 95, 168).mix(0.75).filled()))?;
    area.draw(&PathElement::new(vec![(at(bar.low), middle), (at(bar.high), middle)], BLACK))?;
    for end in [bar.low, bar.high] {
        area.draw(&PathElement::new(vec![(at(end), middle - 3), (at(end), middle + 3)], BLACK))?;
    }
    let end = at(bar.value.max(bar.high)) + 8;
    area.draw(&Text::new(figures(bar), (end, middle), style(false)))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINES: &str = r#"{"experiment":"IS-46","what":"1 worker","payload_octets":1300,"flows":4,"goodput_mbps":{"median":7414.0,"min":5821.0,"max":7453.0}}
{"kind":"object","suite":"Ed25519","signed":"manifests","production":"async","consumers":2,"goodput_mbps":{"mean":3351.0,"ci99_half":4000.0},"segment_octets":8000}
{"kind":"request","suite":"RSA-2048","payload_octets":1200,"mean_us":{"mean":871.0,"ci99_half":27.0}}
{"kind":"crypto","operation":"SHA-256","octets":1500,"vector_us":{"mean":0.88,"ci99_half":0.01}}
"#;

    fn of(text: &str) -> Result<Vec<Bar>, Error> {
        let mut bars = Vec::new();
        read(text.as_bytes(), "x", &mut bars).map(|()| bars)
    }

    #[test]
    fn every_result_line_becomes_a_bar() {
        let bars = of(LINES).unwrap();
        assert_eq!((bars[0].value, bars[0].low, bars[0].high), (7414.0, 5821.0, 7453.0));
        assert_eq!((bars[1].low, bars[1].high), (0.0, 7351.0));
        assert_eq!(panels(&bars).len(), 4);
        let table = table(&bars);
        assert!(table.contains("async, Ed25519, manifests, 2 consumers  3351 (0-7351)"), "{table}");
        assert!(table.contains("SHA-256, 1500 octets                    0.88 (0.87-0.89)"), "{table}");
    }

    #[test]
    fn an_invalid_result_line_is_refused_by_number() {
        for text in ["{\"kind\":\"summary\"}\n", "{}\n", "hello\n", "{\"experiment\":\"IS-46\"}\n"] {
            let error = of(&format!("{LINES}{text}")).unwrap_err();
            assert!(error.to_string().contains("line 5"), "{error}");
        }
        let line = LINES.lines().next().unwrap();
        assert_eq!(of(&format!("{line}\n").repeat(BARS_MAX)).unwrap().len(), BARS_MAX);
        assert!(of(&format!("{line}\n").repeat(BARS_MAX + 1)).is_err());
    }

    #[test]
    fn bars_are_as_long_as_their_values() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("plot.svg");
        let bars = of(&LINES.lines().take(1).collect::<String>()).unwrap();
        let half = Bar { label: "half".into(), value: 7453.0 / 2.0, ..bars[0].clone() };
        draw(&path, &[bars[0].clone(), half]).unwrap();
        let svg = std::fs::read_to_string(path).unwrap();
        assert!(svg.contains("1 worker, 1300 octets, 4 flows") && svg.contains("IS-46: goodput"), "{svg}");
        let width = (WIDTH - LABELS - FIGURES) / 2;
        assert!(svg.contains(&format!("width=\"{width}\"")), "{svg}");
    }
}
