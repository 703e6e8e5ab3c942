//! The parts of a router that run beside forwarding. Each is a [`Service`]; [`list::all`] is the
//! one list of them, in which the recipe of CONTRIBUTING.md adds a line for a new one.
//!
//! # The life of a service
//!
//! 1. [`Service::check`] judges a configuration, also where no router is started.
//! 2. [`Service::prepare`] runs before the router listens, and [`Service::start`] after. Both run
//!    in the order of the list. If one fails, the router stops all services and does not start.
//! 3. The control thread makes all other calls, but that any thread may ask for
//!    [`Service::datasets`] and [`Service::measure`]. None may wait for a packet or a peer.
//!    A reload checks a configuration with all services and then applies it to all.
//! 4. [`Service::stop`] runs in the reverse order of the list while the router still forwards: a
//!    service may use those before it in the list until its own end.

mod disk;
mod kernel;
pub(crate) mod list;
mod readvertise;
mod traces;

use std::net::SocketAddr;
use std::sync::Arc;

use namely_dataplane::PathTimes;
use namely_mgmt::{Control, Now};
use namely_wire::mgmt::{Counter, FaceEventNotification};

use crate::config::Config;
use crate::control::OrderSender;
use crate::disk::Disk;
use crate::exit::Failure;
use crate::home::Home;
use crate::key::RouterKey;

/// A part of a router beside forwarding.
pub(crate) trait Service: Send + Sync {
    /// Judges a configuration beyond its form, for a start or a reload. It may read files: it runs
    /// on the thread that asks.
    ///
    /// # Errors
    /// The configuration key and its fault, as text.
    fn check(&self, _config: &Config) -> Result<(), String> {
        Ok(())
    }

    /// Prepares everything that must exist before the first face of a peer.
    ///
    /// # Errors
    /// [`Failure`]: the router does not start.
    fn prepare(&self, _start: &Start<'_>) -> Result<(), Failure> {
        Ok(())
    }

    /// Starts, if the configuration wants it.
    ///
    /// # Errors
    /// [`Failure`]: the router does not start.
    fn start(&self, _start: &Start<'_>) -> Result<(), Failure> {
        Ok(())
    }

    /// Goes over to another configuration, which all services have checked just before.
    fn apply(&self, _config: &Config) {}

    /// A face has come, gone or changed its state.
    fn face_event(&self, _home: &Home, _event: &FaceEventNotification, _now_ns: u64) {}

    /// The next event that this service has for the control thread, which a wake has announced.
    fn notice(&self, _home: &Home, _now_ns: u64) -> Option<Notice> {
        None
    }

    /// Takes a packet for the router that is no request of management; false if it is not for this
    /// service.
    fn take_packet(&self, _packet: &[u8], _now_ns: u64) -> bool {
        false
    }

    /// Management has handled a request: routes may have changed.
    fn management_handled(&self, _now_ns: u64) {}

    /// Does the work that is due; returns the time of the next call, ns.
    fn tick(&self, _home: &Home, _now: Now) -> Option<u64> {
        None
    }

    /// Adds the datasets and commands of this service to management.
    fn datasets<'a>(&'a self, _control: &mut Control<'a>) {}

    /// Adds its counters.
    fn measure(&self, _measures: &mut Measures) {}

    /// The address on which it serves, if it has one of its own.
    fn address(&self) -> Option<SocketAddr> {
        None
    }

    /// Ends its threads. It may be called again, and of a service that never started.
    fn stop(&self) {}
}

/// The surroundings of a service at its start.
pub(crate) struct Start<'a> {
    pub(crate) config: &'a Config,
    pub(crate) home: &'a Home,
    /// The content store's disk, where it has one.
    pub(crate) disk: Option<&'a Arc<Disk>>,
    pub(crate) key: &'a RouterKey,
    /// Reaches the control thread, which does not run yet.
    pub(crate) orders: &'a OrderSender,
    pub(crate) services: &'a Services,
    /// When the router started.
    pub(crate) time: Now,
}

/// An event that a service has for the control thread.
pub(crate) enum Notice {
    /// A face has come or gone that the data plane does not know.
    Face(FaceEventNotification),
    /// The router cannot go on, for this reason.
    Fatal(String),
}

/// Counters and times of the services.
#[derive(Debug, Default)]
pub(crate) struct Measures {
    /// Counters, by the names of docs/counters.md.
    pub(crate) counters: Vec<Counter>,
    /// How long packets took through a content store with a disk.
    pub(crate) path_times: Vec<PathTimes>,
}

/// The services of a router.
#[derive(Clone, Default)]
pub(crate) struct Services(Arc<[Box<dyn Service>]>);

impl Services {
    /// These, in the order in which they start.
    pub(crate) fn new(services: Vec<Box<dyn Service>>) -> Self {
        Services(services.into())
    }

    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = &dyn Service> {
        self.0.iter().map(|service| &**service)
    }

    /// The subjects of management: the forwarder and all services.
    pub(crate) fn control<'a>(&'a self, home: &'a Home) -> Control<'a> {
        let mut control = home.control();
        self.iter().for_each(|service| service.datasets(&mut control));
        control
    }

    /// [`Service::measure`] of all.
    pub(crate) fn measure(&self) -> Measures {
        let mut measures = Measures::default();
        self.iter().for_each(|service| service.measure(&mut measures));
        measures
    }

    /// Stops all, the last one first.
    pub(crate) fn stop(&self) {
        self.iter().rev().for_each(|service| service.stop());
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;
    use std::path::Path;

    use namely_skip::eventually;
    use namely_wire::mgmt::FaceEventKind;
    use parking_lot::Mutex;

    use super::*;
    use crate::router::Router;

    /// A service as the recipe of CONTRIBUTING.md makes it, which writes down its calls.
    struct Probe(&'static str, Arc<Mutex<Vec<String>>>);

    impl Probe {
        fn note(&self, call: &str) {
            self.1.lock().push(format!("{} {call}", self.0));
        }
    }

    impl Service for Probe {
        fn check(&self, config: &Config) -> Result<(), String> {
            if config.network.local.is_empty() { Ok(()) } else { Err("network.local".into()) }
        }

        fn prepare(&self, _: &Start<'_>) -> Result<(), Failure> {
            self.note("prepares");
            Ok(())
        }

        fn start(&self, start: &Start<'_>) -> Result<(), Failure> {
            self.note(&format!("starts with {} faces", start.home.control().faces.count()));
            Ok(())
        }

        fn apply(&self, _: &Config) {
            self.note("changes");
        }

        fn face_event(&self, _: &Home, event: &FaceEventNotification, _: u64) {
            if event.kind == FaceEventKind::Created {
                self.note("hears of a face");
            }
        }

        fn measure(&self, measures: &mut Measures) {
            measures.counters.push(Counter::new(self.0, 1));
        }

        fn stop(&self) {
            self.note("stops");
        }
    }

    #[test]
    fn services_follow_the_router_and_stop_in_reverse() {
        let (calls, dir) = (Arc::<Mutex<Vec<String>>>::default(), tempfile::tempdir().unwrap());
        let list = ["one", "two"].map(|name| Box::new(Probe(name, calls.clone())) as Box<dyn Service>);
        let services = Services::new(list.into());
        let socket = dir.path().join("router.sock");
        let text = format!("[faces]\nlisten = [\"unix://{}\"]\n", socket.display());
        let config = |more: &str| Config::parse(&format!("{text}{more}"), Path::new("namely.toml")).unwrap();
        let key = RouterKey::read(&config("")).unwrap();
        let router =
            Router::start_services(services.clone(), config(""), key, None, Vec::new(), || ()).unwrap();
        let taken = || std::mem::take(&mut *calls.lock());
        let started = ["one prepares", "two prepares", "one starts with 2 faces", "two starts with 2 faces"];
        assert_eq!(taken(), started);
        assert_eq!(services.measure().counters.len(), 2);

        let _application = UnixStream::connect(&socket).unwrap();
        eventually("both hear of its face", || calls.lock().len() == 2);
        assert_eq!(taken(), ["one hears of a face", "two hears of a face"]);

        assert!(router.reload(config("[network]\nlocal = [\"/lab\"]\n")).is_err(), "a service refuses");
        router.reload(config("")).unwrap();
        eventually("both have changed", || calls.lock().len() == 2);
        assert_eq!(taken(), ["one changes", "two changes"]);

        router.stop();
        assert_eq!(taken()[..2], ["two stops", "one stops"]);
    }

    #[test]
    fn a_service_that_cannot_start_stops_the_others() {
        struct Broken;

        impl Service for Broken {
            fn start(&self, _: &Start<'_>) -> Result<(), Failure> {
                Err(Failure::new(crate::exit::Exit::Failed, "broken".to_owned()))
            }
        }

        let calls = Arc::<Mutex<Vec<String>>>::default();
        let list: Vec<Box<dyn Service>> = vec![Box::new(Probe("one", calls.clone())), Box::new(Broken)];
        let mut config = Config::default();
        config.faces.listen.clear();
        let key = RouterKey::read(&config).unwrap();
        let started = Router::start_services(Services::new(list), config, key, None, Vec::new(), || ());
        assert!(started.is_err_and(|failure| failure.to_string().contains("broken")));
        assert_eq!(calls.lock().last().map(String::as_str), Some("one stops"));
    }
}
