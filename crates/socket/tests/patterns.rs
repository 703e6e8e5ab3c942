//! Reverse pull and fetches together (HT-08). Several writers change a store. Its values are read
//! and replaced like resources in REST, and its changes are published to subscribers.

use crate::common;

use std::time::Duration;

use common::{World, name};
use namely_security::KeyType;
use namely_socket::{Producer, PublishOptions, PushOptions};

const WRITERS: usize = 3;
const WRITES: usize = 6;
const PATIENCE: Duration = Duration::from_secs(60);

/// The name of a key's value in the store.
fn resource(key: &str) -> String {
    format!("/db/value/{key}")
}

/// The store: accepts the writers' pushes, one after the other, and publishes each change as the
/// newest version of its resource and as the next event. Returns the events.
fn store(world: &World, server: &Producer) -> Vec<String> {
    let writers = world.consumer("/writers");
    let change = |number| {
        let pushed = server.accept_push_timeout(PATIENCE).unwrap();
        let pushed_name = pushed.name().as_name().to_name();
        let key = pushed_name.components().nth(2).unwrap().value.to_vec();
        let value = pushed.pull(&writers, server).unwrap();
        let (key, text) = (String::from_utf8(key).unwrap(), String::from_utf8(value.clone()).unwrap());
        server.publish(&name(&resource(&key)), &value, &PublishOptions::default()).unwrap();
        let (event, at) = (format!("{key} {text}"), name(&format!("/db/event/{number}")));
        server.publish(&at, event.as_bytes(), &PublishOptions::default()).unwrap();
        event
    };
    let events: Vec<String> = (0..WRITERS * WRITES).map(change).collect();
    // A reader of a resource receives the value written last, by any writer.
    for key in ["k0", "k1"] {
        let last = events.iter().rfind(|event| event.starts_with(key)).unwrap();
        let value = world.consumer("/db").fetch(&name(&resource(key))).unwrap();
        assert_eq!(format!("{key} {}", String::from_utf8(value).unwrap()), *last);
    }
    // Until the subscribers have the last event.
    server.accept_push_timeout(PATIENCE).unwrap().pull(&writers, server).unwrap();
    events
}

/// Returns all events. Each is requested before or after it happens.
fn subscribe(world: &World) -> Vec<String> {
    let consumer = world.consumer("/db");
    let event = |number| {
        let at = name(&format!("/db/event/{number}"));
        String::from_utf8(consumer.fetch_timeout(&at, PATIENCE).unwrap()).unwrap()
    };
    (0..WRITERS * WRITES).map(event).collect()
}

#[test]
fn a_store_serves_several_writers_and_subscribers() {
    let world = World::new();
    for identity in ["/db", "/writers"] {
        world.add_key(identity, KeyType::Ed25519);
    }
    let options = || {
        let trust = world.consumer_options().trust;
        PushOptions { trust, timeout: PATIENCE, ..PushOptions::default() }
    };
    let server = world.producer("/db");
    std::thread::scope(|scope| {
        let stored = scope.spawn(|| store(&world, &server));
        let subscribed: Vec<_> = (0..2).map(|_| scope.spawn(|| subscribe(&world))).collect();
        let writing: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let (world, options) = (&world, &options);
                scope.spawn(move || {
                    let own = world.producer(&format!("/writers/w{writer}"));
                    for write in 0..WRITES {
                        let at = name(&format!("/writers/w{writer}/k{}", write % 2));
                        let value = format!("{writer}.{write}");
                        own.push(&name("/db"), &at, value.as_bytes(), &options()).unwrap();
                    }
                })
            })
            .collect();
        writing.into_iter().for_each(|writer| writer.join().unwrap());
        let subscribed: Vec<_> = subscribed.into_iter().map(|events| events.join().unwrap()).collect();
        let end = world.producer("/writers/end");
        end.push(&name("/db"), &name("/writers/end/now"), b"", &options()).unwrap();
        let events = stored.join().unwrap();
        assert!(subscribed.iter().all(|seen| *seen == events), "{events:?}: {subscribed:?}");
        for writer in 0..WRITERS {
            let own = |event: &&String| event[3..].starts_with(&format!("{writer}."));
            let writes: Vec<&str> = events.iter().filter(own).map(|event| &event[5..]).collect();
            assert_eq!(writes, ["0", "1", "2", "3", "4", "5"], "each writer's order holds: {events:?}");
        }
    });
}
