//! The parts of a router that run beside forwarding. Each is a [`Service`]; [`list::all`] is their
//! only list. The recipe of CONTRIBUTING.md adds a line there for a new service.
//!
//! # The life of a service
//!
//! 1. [`Service::check`] checks a configuration, even if no router is started.
//! 2. [`Service::prepare`] runs before the router listens, and [`Service::start`] after. Both run
//!    in the order of the list. If one fails, the router stops all services and does not start.
//! 3. The control thread makes all other calls. [`Service::datasets`] and [`Service::measure`] may
//!    be called by any thread. No call may wait for a packet or a peer. A reload checks a
//!    configuration with all services and then applies it to all.
//! 4. [`Service::drain`] runs if Interests are pending when the router is told to stop. The router
//!    continues to run until the notice [`Notice::Drained`] or a second signal.
//! 5. [`Service::stop`] runs in the reverse order of the list while the router still forwards. So a
//!    service may use those before it in the list until it stops.

mod addresses;
mod disk;
mod drain;
mod folders;
mod kernel;
pub(crate) mod list;
mod readvertise;
mod traces;

use std::net::SocketAddr;
use std::sync::Arc;

use namely_dataplane::PathTimes;
use namely_messages::{Counter, FaceEventNotification};
use namely_mgmt::{Control, Now};

use crate::config::{Config, ConfigError};
use crate::control::OrderSender;
use crate::disk::Disk;
use crate::exit::Failure;
use crate::home::RouterHandle;
use crate::key::RouterKey;

/// A part of a router beside forwarding.
pub(crate) trait Service: Send + Sync {
    /// Checks a configuration beyond its syntax, for a start or a reload. It may read files: it
    /// runs on the caller's thread.
    ///
    /// # Errors
    /// [`ConfigError`] contains the configuration key and the error.
    fn check(&self, _config: &Config) -> Result<(), ConfigError> {
        Ok(())
    }

    /// Prepares everything that must exist before the first face of a peer.
    ///
    /// # Errors
    /// [`Failure`]: the router does not start.
    fn prepare(&self, _start: &StartContext<'_>) -> Result<(), Failure> {
        Ok(())
    }

    /// Starts, if the configuration enables it.
    ///
    /// # Errors
    /// [`Failure`]: the router does not start.
    fn start(&self, _start: &StartContext<'_>) -> Result<(), Failure> {
        Ok(())
    }

    /// Applies another configuration, which all services have just checked.
    fn apply(&self, _config: &Config) {}

    /// A face was created, closed or changed.
    fn face_event(&self, _home: &RouterHandle, _event: &FaceEventNotification, _now_ns: u64) {}

    /// Returns the next event for the control thread. The service has woken that thread before.
    fn notice(&self, _home: &RouterHandle, _now_ns: u64) -> Option<Notice> {
        None
    }

    /// Processes a packet for the router that is no request of management. Returns false if it is
    /// not for this service.
    fn take_packet(&self, _packet: &[u8], _now_ns: u64) -> bool {
        false
    }

    /// Called after each request of management, because routes may have changed.
    fn management_handled(&self, _now_ns: u64) {}

    /// Runs the work that is due. Returns the time of the next call, ns.
    fn tick(&self, _home: &RouterHandle, _now: Now) -> Option<u64> {
        None
    }

    /// Adds the datasets and commands of this service to management.
    fn datasets<'a>(&'a self, _control: &mut Control<'a>) {}

    /// Adds its counters.
    fn measure(&self, _measures: &mut ServiceCounters) {}

    /// Returns true if the router should drain before it stops. The thread of the signals calls it.
    fn needs_drain(&self, _home: &RouterHandle, _now_ns: u64) -> bool {
        false
    }

    /// The router drains: withdraws what this service has announced. Called once, and no reload
    /// follows. What pending Interests need must remain.
    fn drain(&self, _home: &RouterHandle, _now_ns: u64) {}

    /// The address of its own listener, if it has one.
    fn address(&self) -> Option<SocketAddr> {
        None
    }

    /// Stops its threads. It may be called again, and for a service that was never started.
    fn stop(&self) {}
}

/// The context of a service at its start.
pub(crate) struct StartContext<'a> {
    pub(crate) config: &'a Config,
    pub(crate) home: &'a RouterHandle,
    /// The content store's disk, if it has one.
    pub(crate) disk: Option<&'a Arc<Disk>>,
    pub(crate) key: &'a RouterKey,
    /// Sends to the control thread, which does not run yet.
    pub(crate) orders: &'a OrderSender,
    pub(crate) services: &'a Services,
    /// The start time of the router.
    pub(crate) time: Now,
}

/// An event of a service for the control thread.
pub(crate) enum Notice {
    /// A face outside the data plane was created or closed.
    Face(FaceEventNotification),
    /// The router must stop, for this reason.
    Fatal(String),
    /// The drain has ended: the router stops.
    Drained,
}

/// Counters and times of the services.
#[derive(Debug, Default)]
pub(crate) struct ServiceCounters {
    /// Counters, by the names of docs/counters.md.
    pub(crate) counters: Vec<Counter>,
    /// Processing times of packets in a content store with a disk.
    pub(crate) path_times: Vec<PathTimes>,
}

/// The services of a router.
#[derive(Clone, Default)]
pub(crate) struct Services(Arc<[Box<dyn Service>]>);

impl Services {
    /// The services, in the order of their start.
    pub(crate) fn new(services: Vec<Box<dyn Service>>) -> Self {
        Services(services.into())
    }

    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = &dyn Service> {
        self.0.iter().map(|service| &**service)
    }

    /// The parts that management acts on: the forwarder and all services.
    pub(crate) fn control<'a>(&'a self, home: &'a RouterHandle) -> Control<'a> {
        let mut control = home.control();
        self.iter().for_each(|service| service.datasets(&mut control));
        control
    }

    /// Collects [`Service::measure`] of all services.
    pub(crate) fn measure(&self) -> ServiceCounters {
        let mut measures = ServiceCounters::default();
        self.iter().for_each(|service| service.measure(&mut measures));
        measures
    }

    /// Stops all services in reverse order.
    pub(crate) fn stop(&self) {
        self.iter().rev().for_each(|service| service.stop());
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;
    use std::path::Path;

    use namely_messages::FaceEventKind;
    use namely_testkit::eventually;
    use parking_lot::Mutex;

    use super::*;
    use crate::router::Router;

    /// A service made by the recipe of CONTRIBUTING.md. It records its calls.
    struct Probe(&'static str, Arc<Mutex<Vec<String>>>);

    impl Probe {
        fn note(&self, call: &str) {
            self.1.lock().push(format!("{} {call}", self.0));
        }
    }

    impl Service for Probe {
        fn check(&self, config: &Config) -> Result<(), ConfigError> {
            if config.network.local.is_empty() { Ok(()) } else { Err("network.local".to_owned().into()) }
        }

        fn prepare(&self, _: &StartContext<'_>) -> Result<(), Failure> {
            self.note("prepares");
            Ok(())
        }

        fn start(&self, start: &StartContext<'_>) -> Result<(), Failure> {
            self.note(&format!("starts with {} faces", start.home.control().faces.count()));
            Ok(())
        }

        fn apply(&self, _: &Config) {
            self.note("changes");
        }

        fn face_event(&self, _: &RouterHandle, event: &FaceEventNotification, _: u64) {
            if event.kind == FaceEventKind::Created {
                self.note("gets a face");
            }
        }

        fn measure(&self, measures: &mut ServiceCounters) {
            measures.counters.push(Counter::new(self.0, 1));
        }

        fn stop(&self) {
            self.note("stops");
        }
    }

    #[test]
    fn services_stop_in_reverse_order() {
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
        eventually("both get its face", || calls.lock().len() == 2);
        assert_eq!(taken(), ["one gets a face", "two gets a face"]);

        assert!(router.reload(config("[network]\nlocal = [\"/lab\"]\n")).is_err(), "a service refuses");
        router.reload(config("")).unwrap();
        eventually("both have changed", || calls.lock().len() == 2);
        assert_eq!(taken(), ["one changes", "two changes"]);

        router.stop();
        assert_eq!(taken()[..2], ["two stops", "one stops"]);
    }

    #[test]
    fn a_failed_service_stops_the_others() {
        struct Broken;

        impl Service for Broken {
            fn start(&self, _: &StartContext<'_>) -> Result<(), Failure> {
                Err(Failure::failed("broken"))
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
