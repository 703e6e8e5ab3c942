//! At a steady rate, no packet needs a new buffer. The test has a process of its own, because the
//! count of buffers is global to the process.

mod support;

use namely_dataplane::{DataPlaneOptions, buffers_made};
use namely_forwarder::Config;
use support::{App, Router, data, interest};

#[test]
fn forwarding_reuses_existing_buffers() {
    let mut config = Config::new(|_| [0; 32]);
    config.cs.packets_max = 200;
    let router = Router::start_with_config(DataPlaneOptions::default(), config);
    let ((mut consumer, _), (mut producer, face)) = (router.connect(), router.connect());
    router.route("/a", face);
    let exchange = |consumer: &mut App, producer: &mut App, n: usize| {
        let name = format!("/a/{n}");
        consumer.send(&interest(&name));
        producer.receive();
        producer.send(&data(&name, 8000));
        assert_eq!(consumer.receive_parts().1, data(&name, 8000));
    };
    (0..2000).for_each(|n| exchange(&mut consumer, &mut producer, n));
    let before = buffers_made();
    (2000..6000).for_each(|n| exchange(&mut consumer, &mut producer, n));
    let made = buffers_made() - before;
    // Buffers may lie in the magazine of another worker for a while.
    assert!(made < 400, "{made} buffers for 8000 packets");
}
