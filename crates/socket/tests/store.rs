//! The output buffer behind a socket (HT-24): packets that memory drops are read back from the
//! store, survive a restart, and are lost only if an option allows it.

use crate::common;

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use common::{World, content, name};
use namely_security::TrustPolicy;
use namely_socket::{
    BindError, BufferPolicy, Consumer, ConsumerOptions, Producer, ProducerOptions, PublishError,
    PublishOptions, StoreError, Suite, Trust,
};
use namely_testkit::{Need, skip};

fn reliable(world: &World, store: &Path) -> ProducerOptions {
    ProducerOptions {
        reliable: true,
        store: Some(store.to_owned()),
        buffer_octets: 100_000,
        ..world.producer_options()
    }
}

fn publish(producer: &Producer, object: u64) -> Result<namely_socket::Published, PublishError> {
    let name = name("/p").join_generic(object.to_string());
    producer.publish(&name, &content(100_000 + object as usize), &PublishOptions::default())
}

#[test]
fn a_store_serves_ten_times_the_memory() {
    let world = World::without_cache();
    let store = world.dir.path().join("store");
    let consumer = world.consumer("/p");
    for policy in [BufferPolicy::Fifo, BufferPolicy::Lru, BufferPolicy::Lfu] {
        let options = ProducerOptions { buffer_policy: policy, ..reliable(&world, &store) };
        let producer = Producer::bind(name("/p"), options).unwrap();
        let published: Vec<_> = (0..10).map(|object| publish(&producer, object).unwrap()).collect();
        let stats = producer.stats();
        assert!(stats.memory_octets <= 100_000 && stats.store_octets > 1_000_000, "{stats:?}");
        for (object, published) in published.iter().enumerate() {
            assert_eq!(consumer.fetch(&published.name).unwrap(), content(100_000 + object));
        }
        let stats = producer.stats();
        assert!(stats.hits_disk >= 100 && stats.evicted >= 100, "{stats:?}");
        assert_eq!((stats.misses, stats.dropped_damaged), (0, 0));
        drop(producer);

        let producer = Producer::bind(name("/p"), reliable(&world, &store)).unwrap();
        for (object, published) in published.iter().enumerate().rev() {
            assert_eq!(consumer.fetch(&published.name).unwrap(), content(100_000 + object));
            let newest = name("/p").join_generic(object.to_string());
            assert_eq!(consumer.fetch(&newest).unwrap(), content(100_000 + object));
        }
        let stats = producer.stats();
        assert!(stats.misses == 0 && stats.hits_disk >= 100, "{stats:?}");
    }
}

#[test]
fn an_unreliable_producer_loses_excess_packets() {
    let world = World::without_cache();
    let options = ProducerOptions { buffer_octets: 250_000, ..world.producer_options() };
    let producer = Producer::bind(name("/p"), options).unwrap();
    let consumer = world.consumer("/p");
    let published: Vec<_> = (0..4).map(|object| publish(&producer, object).unwrap()).collect();
    assert_eq!(consumer.fetch(&published[3].name).unwrap(), content(100_003));
    consumer.set_option("lifetime_ms", "100").unwrap();
    consumer.set_option("retries", "1").unwrap();
    assert_eq!(consumer.fetch(&published[0].name).unwrap_err().errno(), 110);
    assert!(producer.stats().memory_octets <= 250_000);
}

#[test]
fn an_unreliable_producers_store_evicts_its_oldest() {
    let world = World::new();
    let store = world.dir.path().join("store");
    let options = ProducerOptions {
        store: Some(store),
        store_octets: 40 << 20,
        buffer_octets: 1 << 20,
        ..world.producer_options()
    };
    let producer = Producer::bind(name("/p"), options).unwrap();
    let large = content(9 << 20);
    let published: Vec<_> = (0..6)
        .map(|i| producer.publish(&name(&format!("/p/{i}")), &large, &PublishOptions::default()).unwrap())
        .collect();
    let stats = producer.stats();
    assert!(stats.store_octets <= 40 << 20 && stats.evicted_disk > 0, "{stats:?}");
    assert!(world.consumer("/p").fetch(&published[5].name).unwrap() == large);
}

#[test]
fn a_full_store_refuses_whole_publications() {
    let world = World::without_cache();
    let store = world.dir.path().join("store");
    let options = ProducerOptions { store_octets: 1 << 20, ..reliable(&world, &store) };
    let producer = Producer::bind(name("/p"), options.clone()).unwrap();
    let consumer = world.consumer("/p");
    let small = publish(&producer, 1).unwrap();
    let before = producer.stats();
    // More than a batch, so that a part of it was written already.
    let error =
        producer.publish(&name("/p/large"), &content(2 << 20), &PublishOptions::default()).unwrap_err();
    assert!(matches!(&error, PublishError::Store(StoreError::Full { .. })), "{error}");
    assert_eq!(error.errno(), 28);
    let after = producer.stats();
    assert_eq!((after.store_octets, after.packets), (before.store_octets, before.packets));
    let next = publish(&producer, 2).unwrap();
    for (object, published) in [(1, &small), (2, &next)] {
        assert_eq!(consumer.fetch(&published.name).unwrap(), content(100_000 + object));
    }
    drop(producer);
    let producer = Producer::bind(name("/p"), options).unwrap();
    assert_eq!(consumer.fetch(&small.name).unwrap(), content(100_001));
    drop(producer);
}

#[test]
fn a_reliable_producer_owns_its_store() {
    let world = World::new();
    let without = ProducerOptions { reliable: true, ..world.producer_options() };
    let refused = Producer::bind(name("/p"), without).err().unwrap();
    assert_eq!((matches!(refused, BindError::NoStore), refused.errno()), (true, 22));

    let store = world.dir.path().join("store");
    let first = Producer::bind(name("/p/a"), reliable(&world, &store)).unwrap();
    let refused = Producer::bind(name("/p/b"), reliable(&world, &store)).err().unwrap();
    assert!(matches!(refused, BindError::Store(StoreError::InUse(_))), "{refused}");
    // Closed, not dropped yet.
    first.close();
    Producer::bind(name("/p/b"), reliable(&world, &store)).unwrap();
}

/// This test runs again in a mount namespace of its own, on a disk of three megabytes.
#[test]
fn a_full_disk_keeps_earlier_publications() {
    const VARIABLE: &str = "NAMELY_TEST_FULL_DISK";
    if let Some(folder) = std::env::var_os(VARIABLE) {
        return fill(Path::new(&folder));
    }
    let folder = tempfile::tempdir().unwrap();
    let script = "mount -t tmpfs -o size=3m tmpfs \"$1\" && exec \"$2\" --exact --nocapture \"$3\"";
    let unshared = Command::new("unshare")
        .args(["--mount", "--map-root-user", "sh", "-c", script, "sh"])
        .arg(folder.path())
        .arg(std::env::current_exe().unwrap())
        .arg("store::a_full_disk_keeps_earlier_publications")
        .env(VARIABLE, folder.path())
        .output();
    match unshared.map(|output| (String::from_utf8_lossy(&output.stdout).into_owned(), output)) {
        Ok((text, _)) if text.contains("the disk was full") && text.contains("1 passed") => {}
        Ok((text, output)) if !text.contains("running 1 test") => {
            skip(Need::Mount, format_args!("no small disk: {}", String::from_utf8_lossy(&output.stderr)));
        }
        Ok((text, output)) => panic!("{text}\n{}", String::from_utf8_lossy(&output.stderr)),
        Err(error) => skip(Need::Mount, format_args!("unshare: {error}")),
    }
}

fn fill(folder: &Path) {
    let world = World::without_cache();
    let options = reliable(&world, folder);
    let producer = Producer::bind(name("/p"), options.clone()).unwrap();
    let consumer = world.consumer("/p");
    let mut published = Vec::new();
    let error = loop {
        match publish(&producer, published.len() as u64) {
            Ok(object) => published.push(object),
            Err(error) => break error,
        }
        assert!(published.len() < 100, "the disk is not small");
    };
    assert!(matches!(&error, PublishError::Store(StoreError::NoSpace(_))), "{error}");
    assert_eq!(error.errno(), 28);
    println!("the disk was full after {} objects", published.len());
    let check = || {
        for (object, published) in published.iter().enumerate() {
            assert_eq!(consumer.fetch(&published.name).unwrap(), content(100_000 + object));
        }
    };
    check();
    drop(producer);
    let producer = Producer::bind(name("/p"), options).unwrap();
    check();
    drop(producer);
}

/// This test runs itself in another process, too, which publishes until it is killed.
#[test]
fn publications_survive_a_killed_process() {
    const VARIABLE: &str = "NAMELY_TEST_KILLED";
    let bind = |world: &World, store: &Path| {
        let options = ProducerOptions { suite: Suite::DigestSha256, ..reliable(world, store) };
        Producer::bind(name("/p"), options).unwrap()
    };
    if let Some(store) = std::env::var_os(VARIABLE) {
        let world = World::new();
        let producer = bind(&world, Path::new(&store));
        for object in 0.. {
            println!("published {}", publish(&producer, object).unwrap().name);
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let mut published = Vec::new();
    for _ in 0..3 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "--nocapture"])
            .arg("store::publications_survive_a_killed_process")
            .env(VARIABLE, folder.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let mut names = lines.filter_map(|line| line.strip_prefix("published ").map(str::to_owned));
        published.extend(names.by_ref().take(7));
        child.kill().unwrap();
        // Lines that it printed before it was killed count, too.
        published.extend(names);
        child.wait().unwrap();
    }
    assert!(published.len() >= 21);
    let world = World::without_cache();
    let producer = bind(&world, folder.path());
    let trust = Trust::Policy(TrustPolicy::digest_only().into());
    let options = ConsumerOptions { trust, ..world.consumer_options() };
    let consumer = Consumer::bind(name("/p"), options).unwrap();
    for published in &published {
        let published = name(published);
        let object = published.as_name().component(1).unwrap();
        let object: usize = String::from_utf8_lossy(object.value).parse().unwrap();
        assert_eq!(consumer.fetch(&published).unwrap(), content(100_000 + object), "{published}");
    }
    assert_eq!(producer.stats().dropped_damaged, 0);
}

/// This test runs itself in another process, too, which publishes and is killed.
#[test]
fn expired_packets_stay_expired_after_a_kill() {
    const VARIABLE: &str = "NAMELY_TEST_EXPIRED";
    if let Some(store) = std::env::var_os(VARIABLE) {
        let world = World::new();
        let options = ProducerOptions { suite: Suite::DigestSha256, ..reliable(&world, Path::new(&store)) };
        let producer = Producer::bind(name("/p"), options).unwrap();
        // The first is larger than one write to the store.
        for (object, octets, seconds) in [("short", 1_000_000, 0), ("long", 10_000, 3_600)] {
            let how =
                PublishOptions { expires: Some(Duration::from_secs(seconds)), ..PublishOptions::default() };
            let published = producer.publish(&name("/p").join_generic(object), &content(octets), &how);
            println!("published {}", published.unwrap().name);
        }
        // Until it is killed.
        loop {
            std::thread::park();
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "--nocapture"])
        .arg("store::expired_packets_stay_expired_after_a_kill")
        .env(VARIABLE, folder.path())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    let names = lines.filter_map(|line| line.strip_prefix("published ").map(name));
    let published: Vec<_> = names.take(2).collect();
    child.kill().unwrap();
    child.wait().unwrap();
    let world = World::without_cache();
    let options = ProducerOptions { suite: Suite::DigestSha256, ..reliable(&world, folder.path()) };
    let producer = Producer::bind(name("/p"), options).unwrap();
    let trust = Trust::Policy(TrustPolicy::digest_only().into());
    let consumer = Consumer::bind(name("/p"), ConsumerOptions { trust, ..world.consumer_options() }).unwrap();
    assert_eq!(consumer.fetch(&name("/p/long")).unwrap(), content(10_000));
    assert_eq!(producer.stats().misses, 0);
    std::thread::scope(|scope| {
        let asker = scope.spawn(|| consumer.fetch(&name("/p/short")).unwrap_err().errno());
        let request = producer.recv_timeout(Duration::from_secs(20)).unwrap();
        assert_eq!(request.object(), name("/p/short"));
        producer.deny(&request).unwrap();
        assert_eq!(asker.join().unwrap(), 2);
    });
    // Its segments are there as before, and each new publication is fresh for its FreshnessPeriod.
    assert_eq!(consumer.fetch(&published[0]).unwrap(), content(1_000_000));
    let version = published[0].as_name().last().unwrap().version();
    let how = PublishOptions { version, ..PublishOptions::default() };
    producer.publish(&name("/p/short"), &content(1_000_000), &how).unwrap();
    drop(producer);
    let options = ProducerOptions { suite: Suite::DigestSha256, ..reliable(&world, folder.path()) };
    let producer = Producer::bind(name("/p"), options).unwrap();
    assert_eq!(consumer.fetch(&name("/p/short")).unwrap(), content(1_000_000));
    assert_eq!(producer.stats().misses, 0);
}
