//! The router announces registrations of applications to a routing daemon, which answers.

use crate::common;

use std::time::Duration;

use common::{Daemon, PATIENCE};
use namely_messages::{Block, ControlResponse, status_code};

#[test]
fn readvertise_retries_until_the_daemon_answers() {
    let daemon = Daemon::start_with("[readvertise]\norigins = [\"app\"]\n", &[]);
    let (mut routing, mut app) = (daemon.connect(), daemon.connect());
    app.register("/app");
    routing.register("/localhost/nlsr");
    let first = routing.receive(PATIENCE).expect("an announcement");
    let verb = first.interest().name.prefix(4).to_name();
    assert_eq!(verb.to_string(), "/localhost/nlsr/rib/register");
    // The daemon did not answer, so the router repeats the command.
    let ok = ControlResponse::new(status_code::OK, "OK").to_vec();
    let again = routing.serve_one(&ok);
    assert!(verb.is_prefix_of(again.as_name()), "{again}");
    assert!(again.as_name() != first.interest().name, "signed anew");
    // Longer than the time for an answer and the delay of a retry together. An answer is late after
    // a second, which a busy machine may take.
    let is_silent = (0..5).any(|_| !routing.answer_one(Duration::from_secs(7), &ok));
    assert!(is_silent, "it repeats commands that were answered");
}
