//! The view: the router in a few lines, faces, counters and keys, from 80 columns and 24 lines on.

use namely_client::rates::Rates;
use namely_wire::text::Plain;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Paragraph, Row, Table};

use super::Sort;
use super::prefixes::Hot;
use super::rates::{FACE_COLUMNS, TopSnapshot, faces, heading, peer, short};

/// The user's choices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ViewOptions {
    pub(super) sort: Sort,
    pub(super) filter: String,
    /// Whether typed characters go to the filter.
    pub(super) is_typing: bool,
    pub(super) is_paused: bool,
}

/// Draws the view. `trouble` is the reason why there is no new data.
pub(super) fn draw(
    frame: &mut Frame<'_>,
    shown: Option<&TopSnapshot>,
    chosen: &ViewOptions,
    trouble: Option<&str>,
) {
    let Some(TopSnapshot { rates, prefixes: hottest }) = shown else {
        return frame.render_widget(Paragraph::new(plain(trouble.unwrap_or("polling ..."))), frame.area());
    };
    let heading = heading(rates);
    let events = rates.events.len().min(6) as u16;
    let hot = hottest.len().min(5) as u16;
    let [head, faces, prefixes, counted, keys] = Layout::vertical([
        Constraint::Length(heading.len() as u16),
        Constraint::Min(4),
        Constraint::Length(if hot > 0 { hot + 2 } else { 0 }),
        Constraint::Length(if events > 0 { events + 2 } else { 0 }),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    let heading: Vec<Line<'_>> = heading.iter().map(|line| plain(line)).collect();
    frame.render_widget(Paragraph::new(heading), head);
    draw_faces(frame, faces, rates, chosen);
    if hot > 0 {
        draw_prefixes(frame, prefixes, hottest);
    }
    if events > 0 {
        draw_events(frame, counted, rates);
    }
    frame.render_widget(Paragraph::new(plain(&keys_line(chosen, trouble))).style(reversed()), keys);
}

/// A line of text from a router or a user, escaped.
fn plain(text: &str) -> Line<'static> {
    Line::from(String::from(Plain::new(text)))
}

fn reversed() -> Style {
    Style::new().add_modifier(Modifier::REVERSED)
}

fn bold() -> Style {
    Style::new().add_modifier(Modifier::BOLD)
}

fn draw_faces(frame: &mut Frame<'_>, area: Rect, rates: &Rates, chosen: &ViewOptions) {
    let faces = faces(rates, chosen.sort, &chosen.filter);
    // Lines for the table's head, and for the number of omitted rows.
    let room = usize::from(area.height.saturating_sub(3));
    let rows = faces.iter().take(room).map(|face| {
        let [bits_in, bits_out] = face.octets.map(|octets| short(octets * 8.0));
        let [interests_in, interests_out] = face.interests.map(short);
        let [data_in, data_out] = face.data.map(short);
        let numbers =
            [face.id.to_string(), bits_in, bits_out, interests_in, interests_out, data_in, data_out];
        let aligned = numbers.into_iter().map(|number| Line::from(number).right_aligned());
        Row::new(aligned.chain([plain(peer(face))]))
    });
    let (numbers, remote) = FACE_COLUMNS.split_at(FACE_COLUMNS.len() - 1);
    let head = numbers.iter().map(|title| Line::from(*title).right_aligned());
    let head = head.chain(remote.iter().map(|title| Line::from(*title)));
    let widths = [
        Constraint::Length(6),
        Constraint::Length(8),
        Constraint::Length(7),
        Constraint::Length(8),
        Constraint::Length(7),
        Constraint::Length(9),
        Constraint::Length(7),
        Constraint::Min(10),
    ];
    let [above, below] = Layout::vertical([Constraint::Min(2), Constraint::Length(1)]).areas(area);
    let table = Table::new(rows, widths).header(Row::new(head).style(bold()).top_margin(1));
    frame.render_widget(table, above);
    if let Some(more) = faces.len().checked_sub(room).filter(|more| *more > 0) {
        frame.render_widget(Paragraph::new(format!("       and {more} more")), below);
    }
}

fn draw_prefixes(frame: &mut Frame<'_>, area: Rect, hottest: &[Hot]) {
    let rows = hottest.iter().map(|hot| {
        let part = Line::from(format!("{:.0} %", hot.part * 100.0)).right_aligned();
        Row::new([part, plain(&hot.prefix)])
    });
    let head = [Line::from("part").right_aligned(), Line::from("prefix")];
    let widths = [Constraint::Length(6), Constraint::Min(20)];
    let table = Table::new(rows, widths).header(Row::new(head).style(bold()).top_margin(1));
    frame.render_widget(table, area);
}

fn draw_events(frame: &mut Frame<'_>, area: Rect, rates: &Rates) {
    let rows = rates.events.iter().map(|event| {
        let face = event.face.map(|face| face.to_string()).unwrap_or_default();
        let numbers = [face, short(event.rate), event.total.to_string()];
        let numbers = numbers.into_iter().map(|number| Line::from(number).right_aligned());
        Row::new([plain(&event.name)].into_iter().chain(numbers))
    });
    let head = ["face", "a second", "in all"].into_iter().map(|title| Line::from(title).right_aligned());
    let head = Row::new([Line::from("counter")].into_iter().chain(head)).style(bold()).top_margin(1);
    let widths = [Constraint::Min(36), Constraint::Length(6), Constraint::Length(10), Constraint::Length(14)];
    frame.render_widget(Table::new(rows, widths).header(head), area);
}

fn keys_line(chosen: &ViewOptions, trouble: Option<&str>) -> String {
    if let Some(trouble) = trouble {
        return format!(" {trouble}; retrying, q quits");
    }
    if chosen.is_typing {
        return format!(" faces with: {}_   (Enter keeps it, Esc ends it)", chosen.filter);
    }
    let paused = if chosen.is_paused { "paused, p goes on" } else { "p pauses" };
    let filter = if chosen.filter.is_empty() { "/ filters".into() } else { format!("/ {}", chosen.filter) };
    format!(" s sorted by {}   {filter}   {paused}   q quits", chosen.sort.name())
}

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::super::rates::tests::rates;
    use super::*;

    fn chosen() -> ViewOptions {
        ViewOptions { sort: Sort::Octets, filter: String::new(), is_typing: false, is_paused: false }
    }

    fn drawn(columns: u16, lines: u16, chosen: &ViewOptions, trouble: Option<&str>) -> Vec<String> {
        let mut terminal = Terminal::new(TestBackend::new(columns, lines)).unwrap();
        let shown = TopSnapshot { rates: rates(), prefixes: Vec::new() };
        terminal.draw(|frame| draw(frame, Some(&shown), chosen, trouble)).unwrap();
        let buffer = terminal.backend().buffer();
        let line = |y| (0..columns).map(|x| buffer[(x, y)].symbol()).collect::<String>();
        (0..lines).map(line).collect()
    }

    #[test]
    fn the_view_fits_a_standard_terminal() {
        let screen = drawn(80, 24, &chosen(), None);
        let all = screen.join("\n");
        for part in
            ["up 1 min 1 s", "satisfied 75 %", "hits 75 % of 20 a second", "udp4://192.0.2.1:6363", "12.00M"]
        {
            assert!(all.contains(part), "{part}:\n{all}");
        }
        let at = |part: &str| {
            screen.iter().position(|line| line.contains(part)).unwrap_or_else(|| panic!("{part}:\n{all}"))
        };
        assert!(at("udp4://") < at("tcp4://"), "the face with most first:\n{all}");
        assert!(at("forwarder.no_route") < at("forwarder.loop"), "{all}");
        assert_eq!(at("q quits"), 23);
    }

    #[test]
    fn hot_prefixes_have_their_own_section() {
        let hot = |prefix: &str, part| Hot { prefix: prefix.into(), part };
        let prefixes = vec![hot("/lab/data", 0.75), hot("/other", 0.25)];
        let shown = TopSnapshot { rates: rates(), prefixes };
        let mut terminal = Terminal::new(TestBackend::new(80, 24)).unwrap();
        terminal.draw(|frame| draw(frame, Some(&shown), &chosen(), None)).unwrap();
        let buffer = terminal.backend().buffer();
        let line = |y| (0..80).map(|x| buffer[(x, y)].symbol()).collect::<String>();
        let all: Vec<String> = (0..24).map(line).collect();
        let at = |part: &str| all.iter().position(|line| line.contains(part));
        assert!(at("75 % /lab/data").is_some() && at("75 % /lab/data") < at("25 % /other"), "{all:#?}");
        assert!(at("udp4://192.0.2.1:6363").is_some() && at("forwarder.no_route").is_some(), "{all:#?}");
    }

    #[test]
    fn a_small_terminal_truncates_the_view() {
        for (columns, lines) in [(80, 24), (40, 10), (20, 5), (1, 1)] {
            drawn(columns, lines, &chosen(), None);
        }
    }

    #[test]
    fn the_last_line_shows_keys_and_trouble() {
        let last = |chosen: &ViewOptions, trouble| drawn(80, 24, chosen, trouble).pop().unwrap();
        assert!(last(&ViewOptions { is_paused: true, ..chosen() }, None).contains("p goes on"));
        assert!(
            last(&ViewOptions { filter: "udp".into(), is_typing: true, ..chosen() }, None)
                .contains("with: udp_")
        );
        assert!(last(&chosen(), Some("no router")).contains("no router; retrying"));
    }
}
