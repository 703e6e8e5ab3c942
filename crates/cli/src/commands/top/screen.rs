//! The terminal: reads keys and draws the view until the user quits.

use std::io::ErrorKind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use namely_client::Client;
use namely_client::rates::{Rates, Sample};
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};

use super::Sort;
use super::prefixes::look;
use super::rates::TopSnapshot;
use super::view::{ViewOptions, draw};
use crate::failure::Failure;

/// Characters of the filter of `namely top`.
///
/// # Limit
/// Further characters are ignored.
/// - Tests: `a_filter_has_a_length_limit`
const FILTER_CHARS_MAX: usize = 60;

/// Maximum time from a signal to the end of the command.
const LOOK: Duration = Duration::from_millis(100);

/// Shows the router until the user quits. The terminal is restored in every case.
pub(super) fn run(
    router: &mut Client,
    interval: Duration,
    sort: Sort,
    filter: &str,
    has_prefixes: bool,
) -> Result<(), Failure> {
    let terminal = ratatui::try_init().map_err(|error| {
        Failure::failed(format!("this is no terminal: {error}")).hint("use `namely top --once`")
    });
    let mut terminal = terminal?;
    // Without the handler, a signal would end the process before the terminal is restored.
    let stop = match crate::stop::flag() {
        Ok(stop) => stop,
        Err(failure) => {
            ratatui::restore();
            return Err(failure);
        }
    };
    let chosen = ViewOptions { sort, filter: filter.into(), is_typing: false, is_paused: false };
    let done = show(&mut terminal, router, interval, chosen, has_prefixes, &stop);
    ratatui::restore();
    done
}

fn show(
    terminal: &mut DefaultTerminal,
    router: &mut Client,
    interval: Duration,
    mut chosen: ViewOptions,
    has_prefixes: bool,
    stop: &AtomicBool,
) -> Result<(), Failure> {
    let failed = |error: std::io::Error| Failure::failed(format!("the terminal: {error}"));
    let look = |router: &mut Client| {
        let sample = Sample::take(router)?;
        Ok::<_, Failure>((sample, if has_prefixes { look(router)? } else { Vec::new() }))
    };
    // A first sample is taken at once, so that a missing right to trace is reported.
    let mut before = Some(look(router)?.0);
    let (mut shown, mut trouble) = (None, None);
    let mut due = Instant::now() + interval;
    while !stop.load(Ordering::Relaxed) {
        terminal.draw(|frame| draw(frame, shown.as_ref(), &chosen, trouble.as_deref())).map_err(failed)?;
        let wait = due.saturating_duration_since(Instant::now());
        let is_typed = match event::poll(wait.min(LOOK)) {
            Err(error) if error.kind() == ErrorKind::Interrupted => false,
            other => other.map_err(failed)?,
        };
        if is_typed {
            if let Event::Key(key) = event::read().map_err(failed)?
                && key.kind != KeyEventKind::Release
                && is_quit(key.code, key.modifiers, &mut chosen)
            {
                return Ok(());
            }
            continue;
        }
        if Instant::now() < due {
            continue;
        }
        due = Instant::now() + interval;
        if chosen.is_paused {
            continue;
        }
        // After a failure, the last data stays on the screen until a router answers again.
        match look(router) {
            Ok((now, prefixes)) => {
                let rates = before.as_ref().map(|before| Rates::between(before, &now));
                shown = rates.map(|rates| TopSnapshot { rates, prefixes }).or(shown);
                (before, trouble) = (Some(now), None);
            }
            Err(failure) => (before, trouble) = (None, Some(failure.message)),
        }
    }
    Ok(())
}

/// Processes a key. Returns true if the key ends the command.
fn is_quit(key: KeyCode, modifiers: KeyModifiers, chosen: &mut ViewOptions) -> bool {
    if modifiers.contains(KeyModifiers::CONTROL) && key == KeyCode::Char('c') {
        return true;
    }
    if chosen.is_typing {
        match key {
            KeyCode::Enter => chosen.is_typing = false,
            KeyCode::Esc => (chosen.is_typing, chosen.filter) = (false, String::new()),
            KeyCode::Backspace => drop(chosen.filter.pop()),
            KeyCode::Char(typed) if chosen.filter.chars().count() < FILTER_CHARS_MAX => {
                chosen.filter.push(typed)
            }
            _ => {}
        }
        return false;
    }
    match key {
        KeyCode::Char('q') => return true,
        KeyCode::Char('s') => chosen.sort = chosen.sort.next(),
        KeyCode::Char('p') => chosen.is_paused = !chosen.is_paused,
        KeyCode::Char('/') => chosen.is_typing = true,
        KeyCode::Esc => chosen.filter.clear(),
        _ => {}
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn press(keys: &str, chosen: &mut ViewOptions) -> bool {
        keys.chars().any(|key| {
            let code = match key {
                '\n' => KeyCode::Enter,
                '\x1b' => KeyCode::Esc,
                '\x08' => KeyCode::Backspace,
                key => KeyCode::Char(key),
            };
            is_quit(code, KeyModifiers::NONE, chosen)
        })
    }

    #[test]
    fn keys_sort_filter_pause_and_quit() {
        let mut chosen =
            ViewOptions { sort: Sort::Octets, filter: String::new(), is_typing: false, is_paused: false };
        assert!(!press("s", &mut chosen) && chosen.sort == Sort::Interests);
        assert!(!press("sss", &mut chosen) && chosen.sort == Sort::Octets, "all round");
        assert!(!press("p", &mut chosen) && chosen.is_paused);
        assert!(
            !press("/sqx\x08\n", &mut chosen) && chosen.filter == "sq" && !chosen.is_typing,
            "typed, not done"
        );
        assert!(!press("\x1b", &mut chosen) && chosen.filter.is_empty());
        assert!(press("q", &mut chosen));
        assert!(is_quit(KeyCode::Char('c'), KeyModifiers::CONTROL, &mut chosen));
    }

    #[test]
    fn a_filter_has_a_length_limit() {
        let mut chosen =
            ViewOptions { sort: Sort::Octets, filter: String::new(), is_typing: false, is_paused: false };
        press(&format!("/{}", "x".repeat(FILTER_CHARS_MAX + 1)), &mut chosen);
        assert_eq!(chosen.filter.len(), FILTER_CHARS_MAX);
    }
}
