//! Registration of a producer's prefix at a router. A prefix below a routable one is bound in the
//! BPT, any other prefix becomes a route. Also the faces of sockets.

use crate::common;

use common::{World, content, name};
use namely_messages::{Binding, Block, Dataset, FaceStatus, RibEntry, Scope, blocks};
use namely_socket::{BindError, Producer, PublishOptions};
use namely_testkit::eventually;
use namely_transport::connection::{Connection, Options, Reachability};
use namely_wire::{DataView, InterestBuilder};

/// The entries of a dataset that fits one segment.
fn list<T: Block>(world: &World, dataset: Dataset) -> Vec<T> {
    list_over(&mut connect(world), dataset)
}

fn connect(world: &World) -> Connection {
    Connection::to(world.uri().parse().unwrap(), Options::default()).unwrap()
}

fn list_over<T: Block>(connection: &mut Connection, dataset: Dataset) -> Vec<T> {
    let interest = InterestBuilder::new(dataset.prefix(Scope::Localhost))
        .can_be_prefix()
        .must_be_fresh()
        .lifetime_ms(9_000);
    let namely_transport::connection::Answer::Data(reply) = connection.express(&interest).unwrap() else {
        panic!("no answer for {dataset}");
    };
    blocks(DataView::parse(&reply.wire).unwrap().content).collect::<Result<_, _>>().unwrap()
}

fn bound(world: &World) -> Vec<String> {
    list::<Binding>(world, Dataset::BptList).iter().map(|binding| binding.prefix.to_string()).collect()
}

/// The routes, except those to certificates, which are registered in every case.
fn routes(world: &World) -> Vec<String> {
    let entries = list::<RibEntry>(world, Dataset::RibList);
    let prefixes = entries.iter().map(|entry| entry.prefix.to_string());
    prefixes.filter(|prefix| !prefix.contains("/KEY/") && !prefix.contains("/REVOKE/")).collect()
}

#[test]
fn applications_never_bind_overlapping_prefixes() {
    let world = World::leading_to_local(&["/p"]);
    let (producer, beside) = (world.producer("/p/app"), world.producer("/p/beside"));
    assert_eq!(
        (bound(&world), routes(&world)),
        (vec!["/p/app".into(), "/p/beside".into()], vec!["/p".into()])
    );
    let octets = content(50_000);
    producer.publish(&name("/p/app/file"), octets.as_slice(), &PublishOptions::default()).unwrap();
    assert_eq!(world.consumer("/p").fetch(&name("/p/app/file")).unwrap(), octets);

    // Another process has no list of this process's sockets, so only the router can refuse.
    let mut other = connect(&world);
    let refused = other.register(&name("/p/app/below"), &mut |_, _| {}).unwrap_err();
    assert!(refused.to_string().contains("409") && refused.to_string().contains("overlaps"), "{refused}");
    assert_eq!(other.register(&name("/p/third"), &mut |_, _| {}).unwrap(), Reachability::Bound);
    let refused = Producer::bind(name("/p/third/x"), world.producer_options()).err().unwrap();
    assert!(matches!(refused, BindError::Register(_)), "{refused}");
    assert_eq!(refused.errno(), 98, "EADDRINUSE");

    producer.close();
    beside.close();
    other.unregister(&name("/p/third")).unwrap();
    assert_eq!(bound(&world), [""; 0]);
    // The closed producer's revocation record is still served, and occupies no prefix.
    world.producer("/p/app").close();
}

#[test]
fn a_registered_producer_binds_after_a_restart() {
    let world = World::new();
    let producer = world.producer("/p/app");
    assert_eq!((bound(&world), routes(&world)), (vec![], vec!["/p/app".into()]));
    let world = world.restart_leading_to_local(&["/p"]);
    eventually("the producer is bound at the new router", || bound(&world) == ["/p/app"]);
    assert_eq!(routes(&world), ["/p"]);
    let octets = content(1000);
    producer.publish(&name("/p/app/file"), octets.as_slice(), &PublishOptions::default()).unwrap();
    assert_eq!(world.consumer("/p").fetch(&name("/p/app/file")).unwrap(), octets);
}

#[test]
fn a_consumer_has_its_own_face() {
    let world = World::new();
    // One connection makes all listings. A connection for each would leave a face for some time.
    let mut lister = connect(&world);
    let mut faces = || -> Vec<u64> {
        list_over::<FaceStatus>(&mut lister, Dataset::FacesList).iter().map(|face| face.face_id).collect()
    };
    let before = faces();
    let mut new = move || faces().iter().any(|face| !before.contains(face));
    let consumer = world.consumer("/p");
    let _ = consumer.request(&namely_socket::Datagram::new(name("/p/nowhere")));
    eventually("one face more, the consumer's", &mut new);
    consumer.close();
    eventually("the consumer's face has gone", || !new());
}
