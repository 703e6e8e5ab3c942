//! The comparison of an answer with the expected one, and the words that it defines for later
//! steps.

use std::collections::HashMap;

use crate::content;

/// Words of a case by the names that it gave them: `$x`, `{dir}`.
pub type Words = HashMap<String, String>;

/// Substitutes the words in `text`. An error names the unknown word.
pub fn filled(text: &str, words: &Words) -> Result<String, String> {
    let mut result = text.to_owned();
    for (word, value) in words.iter().filter(|(word, _)| word.starts_with('{')) {
        result = result.replace(word, value);
    }
    let filled = result.split(' ').map(|part| match part.find('$') {
        None => Ok(part.to_owned()),
        Some(at) => {
            // A slash ends the word's name: $x/seg=0.
            let end = part[at..].find('/').map_or(part.len(), |slash| at + slash);
            let value =
                words.get(&part[at..end]).ok_or_else(|| format!("{} is not known yet", &part[at..end]))?;
            Ok(format!("{}{value}{}", &part[..at], &part[end..]))
        }
    });
    Ok(filled.collect::<Result<Vec<String>, String>>()?.join(" "))
}

/// Compares `answer` with one of the expected ones. Returns the words with those that the answer
/// defines, or `None` if it differs.
pub fn compare(expected: &str, answer: &str, words: &Words) -> Option<Words> {
    let mut brought = words.clone();
    let mut said = answer.split(' ').filter(|word| !word.is_empty());
    for word in expected.split(' ').filter(|word| !word.is_empty()) {
        let described = || content::parse(word).filter(|_| word != "-");
        if word == "..." {
            return Some(brought);
        } else if word == "*" {
            said.next()?;
        } else if word.starts_with('$') && !brought.contains_key(word) {
            brought.insert(word.into(), said.next()?.into());
        } else if let Some(content) = described() {
            let result = content::result(&content);
            let (octets, crc) = result.split_once(' ')?;
            (said.next()? == octets && said.next()? == crc).then_some(())?;
        } else {
            (said.next()? == filled(word, &brought).ok()?).then_some(())?;
        }
    }
    said.next().is_none().then_some(brought)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_keeps_its_first_value() {
        let words = Words::from([("{}".into(), "/p".into())]);
        let brought = compare("ok $x 1", "ok /p/v=1 1", &words).unwrap();
        assert_eq!(filled("fetch c $x/a {}", &brought).unwrap(), "fetch c /p/v=1/a /p");
        assert!(compare("ok $x", "ok /p/v=1", &brought).is_some());
        assert!(compare("ok $x", "ok /p/v=2", &brought).is_none());
        assert!(filled("fetch $y", &words).is_err());
    }

    #[test]
    fn answers_are_compared_to_their_end() {
        let none = Words::new();
        for (expected, answer, same) in [
            ("ok", "ok", true),
            ("ok", "ok 1", false),
            ("ok 1", "ok", false),
            ("ok ...", "ok 1 2", true),
            ("ok * 2", "ok 1 2", true),
            ("ok =hello", "ok 5 3610a686", true),
            ("ok @0:0", "ok 0 00000000", true),
            ("ok @1:0", "ok 0 00000000", false),
            ("ok - 1", "ok - 1", true),
            ("error ENOENT", "error EINVAL", false),
        ] {
            assert_eq!(compare(expected, answer, &none).is_some(), same, "{expected} and {answer}");
        }
    }
}
