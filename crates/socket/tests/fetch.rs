//! What is published on one socket is fetched on another, through a router.

mod common;

use common::{World, content, name};
use namely_socket::{CallError, Consumer, ConsumerOptions, FetchError, Producer, PublishOptions};

#[test]
fn what_is_published_is_fetched_verified_through_a_router() {
    let world = World::new();
    let producer = world.producer("/p");
    fetched_again(&producer, &world.consumer("/p"));
    let shared_memory = ConsumerOptions { router: Some(world.memif_uri()), ..world.consumer_options() };
    let consumer = Consumer::bind(name("/p"), shared_memory).unwrap();
    assert!(consumer.router().starts_with("memif"));
    fetched_again(&producer, &consumer);
}

/// Publishes objects and fetches them; the consumer's thread sleeps before each call.
fn fetched_again(producer: &Producer, consumer: &Consumer) {
    for octets in [0, 1, 100_000] {
        let object = name("/p/o");
        let published = producer.publish(&object, &content(octets), &PublishOptions::default()).unwrap();
        assert!(object.is_prefix_of(published.name.as_name()));
        assert_eq!(consumer.fetch(&published.name).unwrap(), content(octets));
    }
    assert!(consumer.fetch(&name("/p/o")).is_ok());
}

#[test]
fn closing_a_socket_ends_the_calls_that_wait_on_it() {
    let world = World::new();
    let consumer = world.consumer("/p");
    let pending = consumer.fetch_async(&name("/p/nothing")).unwrap();
    consumer.close();
    let refused = consumer.fetch(&name("/p/nothing")).unwrap_err();
    assert!(matches!(refused, FetchError::Call(CallError::Closed)), "{refused}");
    drop(pending);
}
