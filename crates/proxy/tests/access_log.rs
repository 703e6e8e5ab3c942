//! Each request leaves one line in the log of each gateway that it reached, and no more.

mod common;

use std::io::Write;
use std::sync::{Arc, Mutex};

use namely_proxy::ACCESS;
use namely_proxy::egress::EgressOptions;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use namely_testkit::wait_until_true;

use self::common::{Origin, World};

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, octets: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(octets)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn each_gateway_logs_one_line_per_request() {
    let log = Log::default();
    let writer = log.clone();
    let filter = Targets::new().with_target(ACCESS, LevelFilter::INFO);
    let lines = tracing_subscriber::fmt::layer().with_ansi(false).with_writer(move || writer.clone());
    tracing_subscriber::registry().with(filter).with(lines).init();
    let origin = Origin::start(|path, _| {
        ("HTTP/1.1 200 OK\r\nCache-Control: max-age=3600\r\n".into(), path.as_bytes().to_vec())
    });
    let world = World::new(origin, EgressOptions::default());
    for _ in 0..2 {
        assert_eq!(world.get("/a%0Ab").0, 200);
    }
    assert_eq!(world.send("GET /there HTTP/1.1\r\nHost: nobody").0, 502);
    let lines = || {
        let text = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
        text.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let with = |part: &str| lines().iter().filter(|line| line.contains(part)).count();
    assert!(wait_until_true(|| lines().len() == 4), "{:#?}", lines());
    assert_eq!(with("GET http://video/a%0Ab 200 6 octets, "), 2, "{:#?}", lines());
    assert_eq!(with("/http/video/a%0Ab 200 6 octets, "), 1, "{:#?}", lines());
    assert_eq!(with("GET nobody/there 502 "), 1, "{:#?}", lines());
}
