//! A router's management: `namely-client`, with its values as tuples for Python.

use std::sync::{Arc, Mutex, PoisonError};

use namely_client::{Client, ClientError, CsChanges, FaceProperties, RouteOptions, default_signer};
use namely_messages::{CsInfo, FaceEventNotification, cs_flags};
use namely_messages::{FaceQueryFilter, FaceStatus, RouteOrigin, face_flags, route_flags};
use namely_socket::CallError;
use pyo3::prelude::*;
use rustix::io::Errno;
use rustix::process::{Pid, getpid};

use crate::failure::Failure;
use crate::names::parse;
use crate::waiting::{on_a_thread, seconds, waited};

/// Persistency, MTU, reliability, congestion marking, local fields; `None` leaves it as it is.
type Properties = (Option<String>, Option<u64>, Option<bool>, Option<bool>, Option<bool>);

/// Interests, Data, Nacks, octets.
type Counts = (u64, u64, u64, u64);

/// FaceId, remote end, local end, scope, persistency, link type.
type Identity = (u64, String, String, &'static str, &'static str, &'static str);

/// Identity of a face; MTU, ms to its end, reliability, congestion marking, local fields; received
/// and sent counts.
type Face = (Identity, (Option<u64>, Option<u64>, bool, bool, bool), Counts, Counts);

/// Number, kind, FaceId, remote end, local end, scope, persistency.
type Event = (u64, &'static str, u64, String, String, &'static str, &'static str);

/// Prefix, FaceId, origin, cost, child inherit, capture, ms to its end.
type Route = (String, u64, String, u64, bool, bool, Option<u64>);

/// Entries, capacity, hits, misses, admit, serve, policy.
type ContentStore = (u64, u64, u64, u64, bool, bool, Option<String>);

/// Version, start and present in ms since the Unix epoch; entries of name tree, FIB, PIT,
/// measurements and content store; received and sent counts (no octets); satisfied and unsatisfied
/// Interests.
type Status = ((String, u64, u64), (u64, u64, u64, u64, u64), Counts, Counts, (u64, u64));

/// A router's management, over one connection.
#[pyclass(frozen, module = "namely._native")]
pub(crate) struct Router {
    /// `None` once it was closed.
    client: Arc<Mutex<Option<Client>>>,
    uri: String,
    process: Pid,
}

impl Router {
    /// Runs `call`, which waits for the router, on a thread of its own. A signal ends the wait; the
    /// call itself ends within a few seconds.
    fn call<T: Send + 'static>(
        &self,
        py: Python<'_>,
        call: impl FnOnce(&mut Client) -> Result<T, ClientError> + Send + 'static,
    ) -> PyResult<T> {
        self.own()?;
        let client = self.client.clone();
        on_a_thread(py, move || on(&client, call))
    }

    /// Fails after a fork: only the parent may use the connection.
    fn own(&self) -> Result<(), Failure> {
        match getpid() == self.process {
            true => Ok(()),
            false => Err(Failure::of(&CallError::Forked, None)),
        }
    }
}

fn on<T>(
    client: &Mutex<Option<Client>>,
    call: impl FnOnce(&mut Client) -> Result<T, ClientError>,
) -> Result<T, Failure> {
    let mut client = client.lock().unwrap_or_else(PoisonError::into_inner);
    let closed = || Failure::new(Errno::BADF, "the connection to the router was closed");
    Ok(call(client.as_mut().ok_or_else(closed)?)?)
}

#[pymethods]
impl Router {
    #[new]
    fn new(py: Python<'_>, router: Option<String>) -> PyResult<Self> {
        let find = move || Client::find(router.as_deref(), default_signer()).map_err(Failure::from);
        let client = on_a_thread(py, find)?;
        let uri = client.router().to_string();
        Ok(Router { client: Arc::new(Mutex::new(Some(client))), uri, process: getpid() })
    }

    #[getter]
    fn uri(&self) -> &str {
        &self.uri
    }

    fn close(&self, py: Python<'_>) {
        py.detach(|| self.client.lock().unwrap_or_else(PoisonError::into_inner).take());
    }

    fn faces(
        &self,
        py: Python<'_>,
        face_id: Option<u64>,
        scheme: Option<String>,
        remote: Option<String>,
    ) -> PyResult<Vec<Face>> {
        let filter = FaceQueryFilter { face_id, uri_scheme: scheme, uri: remote, ..Default::default() };
        let faces = self.call(py, move |client| match filter == FaceQueryFilter::default() {
            true => client.faces(),
            false => client.query_faces(&filter),
        })?;
        Ok(faces.into_iter().map(face).collect())
    }

    fn channels(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        let channels = self.call(py, Client::channels)?;
        Ok(channels.into_iter().map(|channel| channel.local_uri).collect())
    }

    fn create_face(
        &self,
        py: Python<'_>,
        remote: String,
        local: Option<String>,
        properties: Properties,
    ) -> PyResult<u64> {
        let properties = of_face(&properties)?;
        self.call(py, move |client| Ok(client.create_face(&remote, local.as_deref(), &properties)?.face_id))
    }

    fn update_face(&self, py: Python<'_>, face_id: u64, properties: Properties) -> PyResult<()> {
        let properties = of_face(&properties)?;
        self.call(py, move |client| client.update_face(face_id, &properties).map(drop))
    }

    fn destroy_face(&self, py: Python<'_>, face_id: u64) -> PyResult<()> {
        self.call(py, move |client| client.destroy_face(face_id))
    }

    fn find_face(&self, py: Python<'_>, face: String) -> PyResult<u64> {
        self.call(py, move |client| client.find_face(&face))
    }

    fn find_or_create_face(&self, py: Python<'_>, face: String) -> PyResult<u64> {
        self.call(py, move |client| client.find_or_create_face(&face))
    }

    fn next_face_event(&self, py: Python<'_>, after: Option<u64>, timeout: Option<f64>) -> PyResult<Event> {
        self.own()?;
        let (number, event) = waited(py, seconds(timeout, None), |slice| {
            on(&self.client, |client| client.next_face_event(after, Some(slice))).transpose()
        })?;
        Ok(face_event(number, event))
    }

    fn routes(&self, py: Python<'_>) -> PyResult<Vec<Route>> {
        let entries = self.call(py, Client::rib)?;
        let of_entry = entries.iter().flat_map(|entry| {
            entry.routes.iter().map(|route| {
                let has = |bit| route.flags & bit != 0;
                let (prefix, origin) = (entry.prefix.to_string(), route.origin.to_string());
                let (inherit, capture) = (has(route_flags::CHILD_INHERIT), has(route_flags::CAPTURE));
                let expires_ms = route.expiration_period_ms;
                (prefix, route.face_id, origin, route.cost, inherit, capture, expires_ms)
            })
        });
        Ok(of_entry.collect())
    }

    fn fib(&self, py: Python<'_>) -> PyResult<Vec<(String, u64, u64)>> {
        let entries = self.call(py, Client::fib)?;
        let of_entry = entries.iter().flat_map(|entry| {
            entry.next_hops.iter().map(|hop| (entry.prefix.to_string(), hop.face_id, hop.cost))
        });
        Ok(of_entry.collect())
    }

    #[expect(clippy::too_many_arguments, reason = "a route has as many properties")]
    fn add_route(
        &self,
        py: Python<'_>,
        prefix: &str,
        face_id: u64,
        origin: &str,
        cost: u64,
        child_inherit: bool,
        capture: bool,
        expires: Option<f64>,
    ) -> PyResult<()> {
        let (prefix, origin) = (parse(prefix)?, of_route(origin)?);
        let expires = seconds(expires, None);
        let options = RouteOptions { origin, cost, child_inherit, capture, expires };
        self.call(py, move |client| client.add_route(&prefix, face_id, &options))
    }

    fn remove_route(&self, py: Python<'_>, prefix: &str, face_id: u64, origin: &str) -> PyResult<()> {
        let (prefix, origin) = (parse(prefix)?, of_route(origin)?);
        self.call(py, move |client| client.remove_route(&prefix, face_id, origin))
    }

    fn strategies(&self, py: Python<'_>) -> PyResult<Vec<(String, String)>> {
        let choices = self.call(py, Client::strategies)?;
        let text = |choice: &namely_messages::StrategyChoice| {
            (choice.prefix.to_string(), choice.strategy.to_string())
        };
        Ok(choices.iter().map(text).collect())
    }

    fn set_strategy(&self, py: Python<'_>, prefix: &str, strategy: &str) -> PyResult<String> {
        let (prefix, strategy) = (parse(prefix)?, strategy.to_owned());
        let chosen = self.call(py, move |client| client.set_strategy(&prefix, &strategy))?;
        Ok(chosen.to_string())
    }

    fn unset_strategy(&self, py: Python<'_>, prefix: &str) -> PyResult<()> {
        let prefix = parse(prefix)?;
        self.call(py, move |client| client.unset_strategy(&prefix))
    }

    fn content_store(&self, py: Python<'_>) -> PyResult<ContentStore> {
        let CsInfo { capacity, flags, entries, hits, misses, policy } = self.call(py, Client::cs_info)?;
        let has = |bit| flags & bit != 0;
        let (admit, serve) = (has(cs_flags::ENABLE_ADMIT), has(cs_flags::ENABLE_SERVE));
        Ok((entries, capacity, hits, misses, admit, serve, policy))
    }

    fn configure_content_store(
        &self,
        py: Python<'_>,
        capacity: Option<u64>,
        admit: Option<bool>,
        serve: Option<bool>,
        policy: Option<String>,
    ) -> PyResult<()> {
        let changes = CsChanges { capacity, admit, serve, policy, ..CsChanges::default() };
        self.call(py, move |client| client.configure_cs(&changes).map(drop))
    }

    fn erase(&self, py: Python<'_>, prefix: &str, count: Option<u64>) -> PyResult<u64> {
        let prefix = parse(prefix)?;
        self.call(py, move |client| client.erase_cs(&prefix, count))
    }

    fn status(&self, py: Python<'_>) -> PyResult<Status> {
        let status = self.call(py, Client::status)?;
        let tables = (
            status.name_tree_entries,
            status.fib_entries,
            status.pit_entries,
            status.measurements_entries,
            status.cs_entries,
        );
        Ok((
            (status.version, status.start_ms, status.current_ms),
            tables,
            (status.in_interests, status.in_data, status.in_nacks, 0),
            (status.out_interests, status.out_data, status.out_nacks, 0),
            (status.satisfied_interests, status.unsatisfied_interests),
        ))
    }

    fn counters(&self, py: Python<'_>) -> PyResult<Vec<(String, Option<u64>, u64)>> {
        let counters = self.call(py, Client::counters)?;
        Ok(counters.into_iter().map(|counter| (counter.label, counter.face_id, counter.value)).collect())
    }
}

fn of_face(properties: &Properties) -> Result<FaceProperties, Failure> {
    let (persistency, mtu, reliability, congestion_marking, local_fields) = properties;
    let persistency = persistency.as_deref().map(|word| {
        let sentence = || format!("'{word}' is not persistent, on-demand or permanent");
        word.parse().map_err(|_| Failure::new(Errno::INVAL, sentence()))
    });
    Ok(FaceProperties {
        persistency: persistency.transpose()?,
        mtu: *mtu,
        reliability: *reliability,
        congestion_marking: *congestion_marking,
        local_fields: *local_fields,
    })
}

fn of_route(origin: &str) -> Result<RouteOrigin, Failure> {
    let sentence =
        || format!("'{origin}' is not app, autoreg, client, autoconf, nlsr, prefixann, static or a number");
    origin.parse().map_err(|_| Failure::new(Errno::INVAL, sentence()))
}

fn face(face: FaceStatus) -> Face {
    let has = |bit| face.flags & bit != 0;
    let properties = (
        face.mtu,
        face.expiration_period_ms,
        has(face_flags::LINK_RELIABILITY),
        has(face_flags::CONGESTION_MARKING),
        has(face_flags::LOCAL_FIELDS),
    );
    let words = (face.face_scope.as_str(), face.face_persistency.as_str(), face.link_type.as_str());
    (
        (face.face_id, face.uri, face.local_uri, words.0, words.1, words.2),
        properties,
        (face.in_interests, face.in_data, face.in_nacks, face.in_octets),
        (face.out_interests, face.out_data, face.out_nacks, face.out_octets),
    )
}

fn face_event(number: u64, event: FaceEventNotification) -> Event {
    let (scope, persistency) = (event.face_scope.as_str(), event.face_persistency.as_str());
    let FaceEventNotification { kind, face_id, uri, local_uri, .. } = event;
    (number, kind.as_str(), face_id, uri, local_uri, scope, persistency)
}
