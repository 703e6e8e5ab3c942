//! Text for people: no control character reaches a terminal, and JSON restores the original.

use namely_wire::text::{Plain, is_obeyed, json, json_of_page};
use proptest::prelude::*;

/// Strings with many control characters of terminals.
fn foreign() -> impl Strategy<Value = String> {
    let obeyed = prop::sample::select(vec![
        '\0', '\x07', '\t', '\n', '\r', '\x1b', '\x1f', '\x7f', '\u{80}', '\u{9b}', '\u{9f}', '\u{61c}',
        '\u{200e}', '\u{200f}', '\u{2028}', '\u{2029}', '\u{202a}', '\u{202e}', '\u{2066}', '\u{2069}', '"',
        '\\',
    ]);
    prop::collection::vec(prop_oneof![obeyed, any::<char>()], 0..40).prop_map(|all| all.into_iter().collect())
}

#[test]
fn only_listed_characters_are_obeyed() {
    let listed = ['\0', '\x1f', '\x7f', '\u{9f}', '\u{61c}', '\u{200e}', '\u{200f}', '\u{2028}', '\u{202e}'];
    assert!(listed.into_iter().chain(['\u{2029}', '\u{202a}', '\u{2066}', '\u{2069}']).all(is_obeyed));
    // A neighbor of each, and the character that joins the parts of an emoji.
    let shown = [' ', '~', '\u{a0}', '\u{61b}', '\u{61d}', '\u{200d}', '\u{2010}', '\u{2027}', '\u{202f}'];
    assert!(!shown.into_iter().chain(['\u{2065}', '\u{206a}', 'é', '한']).any(is_obeyed));
}

#[test]
fn json_pages_show_the_escape() {
    let line = String::from("{\"a\":\"\\\\u{7f} \u{7f}\u{202e}\"}");
    assert_eq!(json(line.clone()), r#"{"a":"\\u{7f} \u007f\u202e"}"#);
    assert_eq!(json_of_page(line), r#"{"a":"\\u{7f} \\u{7f}\\u{202e}"}"#);
}

#[test]
fn a_width_counts_visible_characters() {
    assert_eq!(format!("{:8}|", Plain::new("a\n")), "a\\n     |");
    assert_eq!(Plain::from(String::from("é")).as_str(), "é");
}

proptest! {
    #[test]
    fn plain_text_has_no_obeyed_characters(text in foreign()) {
        for plain in [Plain::new(&text), Plain::from(text.clone()), Plain::quotation(&text)] {
            prop_assert!(!plain.as_str().contains(is_obeyed), "{plain:?}");
        }
        if !text.contains(is_obeyed) {
            let plain = Plain::new(&text);
            prop_assert_eq!(plain.as_str(), &text);
        }
    }

    #[test]
    fn a_quotation_contains_no_bare_quote(text in foreign()) {
        let quoted = Plain::quotation(&text);
        let within = quoted.as_str().strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap();
        let mut is_escaped = false;
        for c in within.chars() {
            prop_assert!(is_escaped || c != '"', "{quoted}");
            is_escaped = !is_escaped && c == '\\';
        }
        prop_assert!(!is_escaped, "{quoted}");
    }

    #[test]
    fn json_outside_strings_is_unchanged(text in "[ -~]{0,40}") {
        prop_assert_eq!(json(text.clone()), text);
    }
}
