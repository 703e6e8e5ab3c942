//! The history of a router, from a Prometheus server that scrapes it. The page itself knows two
//! minutes; the server knows the time for which it stores samples.
//!
//! The queries are fixed. A request of the page chooses only the router and one of [`SPANS_S`], so
//! it can neither read other metrics nor reach another host. Prometheus' HTTP API v1 has the calls
//! `query` and `query_range`.

use std::collections::BTreeMap;
use std::str::FromStr;
use std::time::Duration;

use bytes::Bytes;
use http::Uri;
use http_body_util::{BodyExt, Empty, LengthLimitError, Limited};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::{Value, json};

/// Requests for a history that a dashboard forwards at once.
///
/// # Limit
/// A further request is refused with 503.
/// - Counter: `refused_busy`
/// - Tests: `excess_histories_are_refused_as_busy`
pub const HISTORIES_MAX: usize = 2;

/// Octets of an answer of a Prometheus server.
///
/// # Limit
/// The answer is discarded, and the page reports it.
/// - Tests: `answers_of_prometheus_have_a_size_limit`
pub const HISTORY_OCTETS_MAX: usize = 1 << 20;

/// Time for all answers of a Prometheus server to a request for a history.
///
/// # Limit
/// The request ends, and the page reports it.
/// - Tests: `a_silent_prometheus_ends_the_request`
pub const HISTORY_TIME_MAX: Duration = Duration::from_secs(10);

/// The spans of time that a page may request, s: an hour, six hours, a day, a week.
const SPANS_S: [u64; 4] = [3_600, 21_600, 86_400, 604_800];

/// Steps of a history. It has one more point than steps.
const STEPS: u64 = 120;

/// Octets of the label `instance`, which Prometheus makes from the address of a router's metrics.
const INSTANCE_OCTETS_MAX: usize = 255;

/// Difference of two start times, s, below which they are those of the same router.
const SAME_START_S: f64 = 1.0;

/// The address of a Prometheus server: `http://host:port`, with a path if it is behind a proxy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrometheusUrl {
    /// Without a slash at its end.
    base: String,
}

/// The text is not the address of a Prometheus server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not the address of a Prometheus server: give http://HOST:PORT, without user, query and TLS")]
pub struct PrometheusUrlError;

impl FromStr for PrometheusUrl {
    type Err = PrometheusUrlError;

    fn from_str(text: &str) -> Result<Self, PrometheusUrlError> {
        let uri: Uri = text.parse().map_err(|_| PrometheusUrlError)?;
        let authority = uri.authority().ok_or(PrometheusUrlError)?;
        let is_plain = uri.scheme_str() == Some("http") && uri.query().is_none();
        if !is_plain || authority.host().is_empty() || authority.as_str().contains('@') {
            return Err(PrometheusUrlError);
        }
        Ok(PrometheusUrl { base: format!("http://{authority}{}", uri.path().trim_end_matches('/')) })
    }
}

/// The reason for which there is no history.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HistoryError {
    /// Environment: the server cannot be reached.
    #[error("the Prometheus server does not answer: {0}")]
    Unreachable(#[source] hyper_util::client::legacy::Error),
    /// Environment: the server was too slow.
    #[error("the Prometheus server did not answer in time")]
    TimedOut,
    /// Peer: the server refused the query.
    #[error("the Prometheus server refuses the query: {0}")]
    Refused(http::StatusCode),
    /// Peer: the answer is too long.
    #[error("the answer of the Prometheus server has more than {HISTORY_OCTETS_MAX} octets")]
    TooLong,
    /// Peer: the answer is not that of a Prometheus server, or it is incomplete.
    #[error("the answer of the Prometheus server is malformed")]
    Malformed,
    /// Caller: the server does not scrape this router.
    #[error("the Prometheus server has no metrics of this router")]
    NotScraped,
}

impl HistoryError {
    /// A remedy for the operator.
    pub(crate) fn hint(&self) -> Option<String> {
        let hint = match self {
            HistoryError::NotScraped => "start the router with --metrics, and let Prometheus scrape it",
            HistoryError::Malformed => "--prometheus names a Prometheus server",
            _ => return None,
        };
        Some(hint.to_owned())
    }
}

/// A client of a Prometheus server.
#[derive(Debug)]
pub(crate) struct History {
    base: String,
    client: Client<HttpConnector, Empty<Bytes>>,
    patience: Duration,
}

impl History {
    pub(crate) fn new(url: PrometheusUrl) -> Self {
        // The client follows no redirection and uses no proxy.
        let client = Client::builder(TokioExecutor::new()).build_http();
        History { base: url.base, client, patience: HISTORY_TIME_MAX }
    }

    /// The points of the last `span_s` seconds before `now_s`, Unix time, of the router that
    /// started at `start_ms`.
    pub(crate) async fn points(&self, start_ms: u64, span_s: u64, now_s: u64) -> Result<Value, HistoryError> {
        let read = self.read(start_ms, span_s, now_s);
        tokio::time::timeout(self.patience, read).await.map_err(|_| HistoryError::TimedOut)?
    }

    async fn read(&self, start_ms: u64, span_s: u64, now_s: u64) -> Result<Value, HistoryError> {
        let instance = self.instance(start_ms as f64 / 1e3).await?;
        let step_s = span_s / STEPS;
        let end_s = now_s / step_s * step_s;
        let start_s = end_s.saturating_sub(span_s);
        let mut series = Vec::new();
        for query in queries(&instance, step_s) {
            let path = format!(
                "/api/v1/query_range?query={}&start={start_s}&end={end_s}&step={step_s}",
                encoded(&query)
            );
            series.push(samples(&self.get(&path).await?)?);
        }
        let point = |step: u64| {
            let at_s = start_s + step * step_s;
            let of = |n: usize| series.get(n).and_then(|samples| samples.get(&at_s)).copied();
            json!({
                "at": at_s * 1000, "bits": [of(0), of(1)], "interests": of(2), "data": of(3), "hits": of(4),
            })
        };
        Ok((0..=STEPS).map(point).collect())
    }

    /// The label `instance` of the router that started at `start_s`. Prometheus stores the start
    /// of each router, so the page needs no list of labels.
    async fn instance(&self, start_s: f64) -> Result<String, HistoryError> {
        let found = self.get("/api/v1/query?query=namely_start_time_seconds").await?;
        let all = found["data"]["result"].as_array().ok_or(HistoryError::Malformed)?;
        let apart_s = |of: &Value| {
            let started: f64 = of["value"][1].as_str()?.parse().ok()?;
            Some((started - start_s).abs()).filter(|apart_s| *apart_s < SAME_START_S)
        };
        // Routers that one script starts may have started within the same second.
        let same = all.iter().filter_map(|of| Some((apart_s(of)?, of["metric"]["instance"].as_str()?)));
        let nearest = same.min_by(|(a, _), (b, _)| a.total_cmp(b));
        let (_, instance) = nearest.ok_or(HistoryError::NotScraped)?;
        // It becomes a part of the queries.
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-:[]/".contains(c);
        if instance.len() > INSTANCE_OCTETS_MAX || !instance.chars().all(is_plain) {
            return Err(HistoryError::Malformed);
        }
        Ok(instance.to_owned())
    }

    async fn get(&self, path: &str) -> Result<Value, HistoryError> {
        let uri: Uri = format!("{}{path}", self.base).parse().map_err(|_| HistoryError::Malformed)?;
        let response = self.client.get(uri).await.map_err(HistoryError::Unreachable)?;
        if !response.status().is_success() {
            return Err(HistoryError::Refused(response.status()));
        }
        let body = Limited::new(response.into_body(), HISTORY_OCTETS_MAX).collect().await;
        let body = body.map_err(|error| match error.is::<LengthLimitError>() {
            true => HistoryError::TooLong,
            false => HistoryError::Malformed,
        })?;
        let value: Value = serde_json::from_slice(&body.to_bytes()).map_err(|_| HistoryError::Malformed)?;
        if value["status"] == "success" { Ok(value) } else { Err(HistoryError::Malformed) }
    }
}

/// Returns the span that a page may request with this number of seconds.
pub(crate) fn span(seconds: &str) -> Option<u64> {
    let seconds = seconds.parse().ok()?;
    SPANS_S.contains(&seconds).then_some(seconds)
}

/// The queries of the series: bits in, bits out, Interests in, Data in, hit ratio.
fn queries(instance: &str, step_s: u64) -> [String; 5] {
    // Four scrapes of usual intervals.
    let window_s = step_s.max(60);
    let rate = |metric: &str, labels: &str| {
        format!("sum(rate({metric}{{instance=\"{instance}\",{labels}}}[{window_s}s]))")
    };
    let bits = |direction: &str| {
        format!("8 * {}", rate("namely_octets_total", &format!("direction=\"{direction}\"")))
    };
    let (inward, memory) = ("direction=\"in\"", "tier=\"memory\"");
    let (hits, misses) = (rate("namely_cs_hits_total", memory), rate("namely_cs_misses_total", memory));
    [
        bits("in"),
        bits("out"),
        rate("namely_interests_total", inward),
        rate("namely_data_total", inward),
        format!("{hits} / ({hits} + {misses})"),
    ]
}

/// The samples of the first series of an answer, by their times, s. Values that are not finite,
/// such as a ratio without Interests, are left out.
fn samples(answer: &Value) -> Result<BTreeMap<u64, f64>, HistoryError> {
    let result = answer["data"]["result"].as_array().ok_or(HistoryError::Malformed)?;
    let Some(values) = result.first().and_then(|series| series["values"].as_array()) else {
        return Ok(BTreeMap::new());
    };
    let sample = |sample: &Value| {
        let at_s = sample[0].as_f64().filter(|at| *at >= 0.0)?.round() as u64;
        let value: f64 = sample[1].as_str()?.parse().ok()?;
        value.is_finite().then_some((at_s, value))
    };
    Ok(values.iter().filter_map(sample).collect())
}

/// Encodes a query for a URI (RFC 3986, 2.1).
fn encoded(query: &str) -> String {
    let mut encoded = String::new();
    for octet in query.bytes() {
        match octet {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                encoded.push(char::from(octet));
            }
            other => encoded += &format!("%{other:02X}"),
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Write};
    use std::net::TcpListener;

    use super::*;

    const START_MS: u64 = 1_700_000_000_250;
    const NOW_S: u64 = 1_700_003_700;

    /// A server that answers each request for a path by `answer`; nothing if that is `None`.
    fn server(answer: impl Fn(&str) -> Option<String> + Send + 'static) -> History {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/prometheus/", listener.local_addr().unwrap());
        std::thread::spawn(move || {
            let mut silent = Vec::new();
            for stream in listener.incoming() {
                let mut stream = BufReader::new(stream.unwrap());
                let (mut first, mut line) = (String::new(), String::new());
                stream.read_line(&mut first).unwrap();
                while stream.read_line(&mut line).unwrap() > 2 {
                    line.clear();
                }
                let path = first.split(' ').nth(1).unwrap().to_owned();
                let Some(body) = answer(&path) else {
                    silent.push(stream);
                    continue;
                };
                let head =
                    format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
                let _ = stream.get_mut().write_all((head + &body).as_bytes());
            }
        });
        History::new(url.parse().unwrap())
    }

    fn read(history: &History) -> Result<Value, HistoryError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(history.points(START_MS, SPANS_S[0], NOW_S))
    }

    fn instances(instance: &str) -> String {
        let of = |instance: &str, start: &str| json!({"metric": {"instance": instance}, "value": [1, start]});
        let all =
            [of("other:1", "1699000000"), of("twin:1", "1700000000.251"), of(instance, "1700000000.25")];
        json!({"status": "success", "data": {"result": all}}).to_string()
    }

    fn series(values: &Value) -> String {
        json!({"status": "success", "data": {"result": [{"values": values}]}}).to_string()
    }

    #[test]
    fn a_history_has_fixed_queries_and_times() {
        let history = server(|path| {
            let path = path.strip_prefix("/prometheus/api/v1/").expect("the path of the server");
            if path == "query?query=namely_start_time_seconds" {
                return Some(instances("lab:9464"));
            }
            assert!(path.starts_with("query_range?query="), "{path}");
            assert!(path.ends_with("&start=1700000100&end=1700003700&step=30"), "{path}");
            assert!(path.contains("instance%3D%22lab%3A9464%22"), "{path}");
            let is_ratio = path.contains("%20%2F%20");
            let last = if is_ratio { "NaN" } else { "8.5" };
            Some(series(&json!([[1_700_000_100, "1"], [1_700_003_700, last]])))
        });
        let points = read(&history).unwrap();
        let points = points.as_array().unwrap();
        assert_eq!(points.len(), 121);
        let first = json!({"at": 1_700_000_100_000_u64, "bits": [1.0, 1.0], "interests": 1.0, "data": 1.0, "hits": 1.0});
        assert_eq!(points[0], first);
        assert_eq!(points[1]["bits"], json!([null, null]));
        assert_eq!((&points[120]["data"], &points[120]["hits"]), (&json!(8.5), &Value::Null));
    }

    #[test]
    fn hostile_instances_enter_no_query() {
        for instance in ["a\"} or vector(1) #", "a b", "a\n", &"x".repeat(INSTANCE_OCTETS_MAX + 1)] {
            let answer = instances(instance);
            let history = server(move |path| {
                assert!(!path.contains("query_range"), "{path}");
                Some(answer.clone())
            });
            assert!(matches!(read(&history), Err(HistoryError::Malformed)), "{instance}");
        }
    }

    #[test]
    fn unscraped_routers_and_wrong_servers_are_reported() {
        let none = server(|_| Some(series(&json!([])).replace("values", "nothing")));
        assert!(matches!(read(&none), Err(HistoryError::NotScraped)));
        for text in ["<html>", "{}", "{\"status\":\"error\"}"] {
            let wrong = server(move |_| Some(text.to_owned()));
            assert!(matches!(read(&wrong), Err(HistoryError::Malformed)), "{text}");
        }
    }

    #[test]
    fn answers_of_prometheus_have_a_size_limit() {
        for (octets, is_read) in [(HISTORY_OCTETS_MAX, true), (HISTORY_OCTETS_MAX + 1, false)] {
            let history = server(move |path| {
                let mut answer =
                    if path.contains("query_range") { series(&json!([])) } else { instances("lab:1") };
                answer.extend(std::iter::repeat_n(' ', octets - answer.len()));
                Some(answer)
            });
            let found = read(&history);
            assert_eq!(found.is_ok(), is_read, "{octets}: {found:?}");
            assert!(is_read || matches!(found, Err(HistoryError::TooLong)), "{octets}");
        }
    }

    #[test]
    fn a_silent_prometheus_ends_the_request() {
        let silent = History { patience: Duration::from_millis(100), ..server(|_| None) };
        assert!(matches!(read(&silent), Err(HistoryError::TimedOut)));
        let patient = server(|path| {
            Some(if path.contains("query_range") { series(&json!([])) } else { instances("lab:1") })
        });
        assert_eq!(patient.patience, HISTORY_TIME_MAX);
        assert!(read(&patient).is_ok());
    }

    #[test]
    fn only_plain_addresses_and_known_spans_are_taken() {
        let url = |text: &str| text.parse::<PrometheusUrl>().map(|url| url.base);
        assert_eq!(url("http://localhost:9090/"), Ok("http://localhost:9090".into()));
        assert_eq!(url("http://[::1]:9090/prometheus/"), Ok("http://[::1]:9090/prometheus".into()));
        for wrong in
            ["", "localhost:9090", "https://a", "http://a@b", "http://a/?x", "ftp://a", "/a", "http://"]
        {
            assert_eq!(url(wrong), Err(PrometheusUrlError), "{wrong}");
        }
        assert_eq!(SPANS_S.map(|seconds| span(&seconds.to_string())), SPANS_S.map(Some));
        assert_eq!(["0", "3601", "-1", "x", ""].map(span), [None; 5]);
        assert_eq!(encoded("a{b=\"c\"}"), "a%7Bb%3D%22c%22%7D");
    }
}
