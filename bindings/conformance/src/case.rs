//! `cases.txt`: its cases and their steps (README.md, cases.txt).

/// One case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    /// The behavior that the case shows.
    pub title: String,
    /// Line on which it begins.
    pub line: usize,
    /// Features that a driver must have.
    pub needs: Vec<String>,
    /// Connectors that it is for; empty: all.
    pub over: Vec<String>,
    /// Connectors that it is not for.
    pub not_over: Vec<String>,
    /// Its steps.
    pub steps: Vec<Step>,
}

/// When a step's answer is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// Before the next step.
    Now,
    /// At once; the step is repeated until the answer is the expected one.
    Until,
    /// By a later [`When::Collect`].
    Later,
    /// Reads the answer of the step that was started.
    Collect,
}

/// One step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Its line in the file.
    pub line: usize,
    /// The driver of the step: `P`, `C`, `P2`, …, or `H` for the harness.
    pub who: String,
    /// When its answer is read.
    pub when: When,
    /// The line that the driver receives.
    pub text: String,
    /// The answers that are right.
    pub expected: Vec<String>,
}

/// Reads the cases of a file; an error names the line.
pub fn parse(text: &str) -> Result<Vec<Case>, String> {
    let mut cases: Vec<Case> = Vec::new();
    for (index, full) in text.lines().enumerate() {
        let (line, trimmed) = (index + 1, full.trim());
        if trimmed.is_empty() || trimmed.starts_with('#') {
            continue;
        }
        if let Some(title) = trimmed.strip_prefix("case ") {
            cases.push(Case {
                title: title.into(),
                line,
                needs: Vec::new(),
                over: Vec::new(),
                not_over: Vec::new(),
                steps: Vec::new(),
            });
            continue;
        }
        let case = cases.last_mut().ok_or_else(|| format!("line {line}: a step before the first case"))?;
        let (first, rest) = trimmed.split_once(' ').ok_or_else(|| format!("line {line}: one word alone"))?;
        let words = || rest.split(" -- ").next().unwrap_or(rest).split(' ').map(String::from).collect();
        match first {
            "needs" => case.needs = words(),
            "over" | "not-over" if !rest.contains(" -- ") => {
                return Err(format!("line {line}: '{first}' gives no reason after --"));
            }
            "over" => case.over = words(),
            "not-over" => case.not_over = words(),
            who => case.steps.push(step(line, who, rest)?),
        }
    }
    Ok(cases)
}

fn step(line: usize, who: &str, rest: &str) -> Result<Step, String> {
    let (who, when) = match who.strip_suffix(['&', '?', '!']) {
        None => (who, When::Now),
        Some(shorter) if who.ends_with('&') => (shorter, When::Later),
        Some(shorter) if who.ends_with('!') => (shorter, When::Until),
        Some(shorter) => (shorter, When::Collect),
    };
    if !who.starts_with(['P', 'C', 'H']) {
        return Err(format!("line {line}: there is no socket '{who}'"));
    }
    let (text, expected) = match rest.strip_prefix("=> ").map(|expected| ("", Some(expected))) {
        Some(only) => only,
        None => rest.split_once(" => ").map_or((rest, None), |(text, expected)| (text, Some(expected))),
    };
    let expected = expected.unwrap_or("ok ...").split(" || ").map(|answer| answer.trim().into()).collect();
    let step = Step { line, who: who.into(), when, text: text.trim().into(), expected };
    match (when, step.text.is_empty()) {
        (When::Collect, false) => {
            Err(format!("line {line}: a step that collects an answer has no other words"))
        }
        (When::Now | When::Until | When::Later, true) => Err(format!("line {line}: no step")),
        _ => Ok(step),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_case_parses_with_needs_and_steps() {
        let cases = parse(
            "# comment\ncase one\n  needs fork types\n  not-over ndnd -- it sends no Nacks\n  P open p producer reliable\n  \
             C& fetch c {}/x\n  C? => ok @1:2 || error ENOENT\n",
        )
        .unwrap();
        let [case] = &cases[..] else { panic!("one case") };
        assert_eq!((&case.title[..], case.line), ("one", 2));
        assert_eq!(
            (&case.needs[..], &case.not_over[..]),
            (&["fork".into(), "types".into()][..], &["ndnd".into()][..])
        );
        let [open, fetch, answer] = &case.steps[..] else { panic!("three steps") };
        assert_eq!(
            (&open.who[..], open.when, &open.expected[..]),
            ("P", When::Now, &["ok ...".to_string()][..])
        );
        assert_eq!((&fetch.text[..], fetch.when), ("fetch c {}/x", When::Later));
        assert_eq!((answer.when, answer.expected.len()), (When::Collect, 2));
    }

    #[test]
    fn mistakes_name_their_line() {
        for (text, line) in [
            ("P open", "line 1"),
            ("case x\nfoo bar", "line 2"),
            ("case x\nC? fetch => ok", "line 2"),
            ("case x\nover tcp", "line 2"),
            ("case x\nC => ok", "line 2"),
        ] {
            assert!(parse(text).is_err_and(|e| e.starts_with(line)), "{text}: {:?}", parse(text));
        }
    }
}
