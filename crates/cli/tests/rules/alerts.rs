//! The alerts for Prometheus and the dashboard for Grafana use metrics and counters that exist.
//! Otherwise an alert never fires, and nobody notices.

use std::collections::BTreeSet;
use std::fs;

use serde_json::Value;

use super::root;

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// The metrics of a router that a text names.
fn metrics(text: &str) -> BTreeSet<&str> {
    let words = text.split(|c| !is_word(c));
    words.filter(|word| ["namely_", "process_"].iter().any(|first| word.starts_with(first))).collect()
}

/// The counters that the matchers `name="…"` and `name=~"…|…"` of a query name.
fn counters(query: &str) -> BTreeSet<&str> {
    let matchers = query.match_indices("name=").filter(|(at, _)| !query[..*at].ends_with(is_word));
    let values = matchers.filter_map(|(at, name)| {
        let value = query[at + name.len()..].trim_start_matches('~').strip_prefix('"')?;
        Some(value.split_once('"')?.0)
    });
    values.flat_map(|value| value.split('|')).collect()
}

/// The queries of the dashboard for Grafana.
fn panels() -> Vec<String> {
    let dashboard: Value = serde_json::from_str(&read("docs/grafana/namely.json")).expect("JSON");
    let panels = dashboard["panels"].as_array().expect("panels");
    let targets = panels.iter().flat_map(|panel| panel["targets"].as_array().expect("targets"));
    targets.map(|target| target["expr"].as_str().expect("a query").to_owned()).collect()
}

#[test]
fn alerts_and_panels_use_existing_metrics() {
    let page = read("docs/metrics.md");
    let known = metrics(&page);
    let listed = read("docs/counters.md");
    let is_counter = |name: &str| listed.contains(&format!("- `{name}`: "));
    let mut queries = panels();
    queries.push(read("docs/grafana/alerts.yml"));
    queries.push(read("docs/grafana/alerts_test.yml"));
    assert!(queries.len() > 10);
    for query in &queries {
        for metric in metrics(query) {
            let ends = ["_bucket", "_sum", "_count"];
            let base = ends.iter().find_map(|end| metric.strip_suffix(end)).unwrap_or(metric);
            assert!(
                known.contains(metric) || known.contains(base),
                "docs/metrics.md has no {metric}: {query}"
            );
        }
        for counter in counters(query) {
            // Faces report their counters below the name of their part.
            let own = counter.rsplit('.').next().unwrap_or(counter);
            assert!(is_counter(counter) || is_counter(own), "docs/counters.md has no {counter}: {query}");
        }
    }
}

#[test]
fn each_alert_has_a_test() {
    let alerts = read("docs/grafana/alerts.yml");
    let tests = read("docs/grafana/alerts_test.yml");
    let names: Vec<&str> = alerts.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")).collect();
    assert!(names.len() >= 10, "{names:?}");
    for name in names {
        // Once without the fault, and once with it.
        assert_eq!(tests.matches(&format!("alertname: {name}\n")).count(), 2, "{name}");
    }
}

#[test]
fn queries_are_split_into_names() {
    let query =
        r#"sum by (name) (rate(namely_face_events_total{job="a",name=~"link.refused|link.down"}[5m]))"#;
    assert_eq!(metrics(query).into_iter().collect::<Vec<_>>(), ["namely_face_events_total"]);
    assert_eq!(counters(query).into_iter().collect::<Vec<_>>(), ["link.down", "link.refused"]);
    assert!(counters(r#"up{alertname="x"}"#).is_empty());
}
