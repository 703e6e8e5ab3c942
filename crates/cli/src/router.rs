//! Management of a router from a client: commands and datasets over the client's connection.
//!
//! Works against any router that speaks the NFD management protocol. A router on the same host knows who asks
//! by the socket; over the network a command needs a key that the router trusts (`namely key`).

use std::net::ToSocketAddrs;
use std::time::Duration;

use namely_transport::connection::{Answer, CommandError, Connection, ConnectionError, Options};
use namely_wire::mgmt::{
    Block, Command, ControlParameters, Counter, CsInfo, Dataset, EventRequest, FaceEventNotification,
    FaceQueryFilter, FaceStatus, FibEntry, GeneralStatus, RibEntry, StrategyChoice, blocks, status_code,
};
use namely_wire::{DataView, Endpoint, FaceUri, FaceUriError, InterestBuilder, NackReason};

use crate::commands::Context;
use crate::commands::face::no_such_face;
use crate::failure::{Exit, Failure};

/// Most segments of a dataset that are fetched: 8 MB of entries.
pub const DATASET_SEGMENTS_MAX: u64 = 1024;

/// How often an Interest of a dataset is sent before the command gives up.
const ATTEMPTS: u32 = 3;

/// Lifetime of an Interest that waits for the next face event.
const EVENT_LIFETIME_MS: u64 = 60_000;

/// A router's management, seen from a client.
#[derive(Debug)]
pub struct Router {
    connection: Connection,
}

/// A face that was asked for.
#[derive(Clone, Debug)]
pub struct CreatedFace {
    /// FaceId.
    pub face_id: u64,
    /// Its remote URI in the router's canonical form.
    pub uri: String,
    /// Whether it was there before.
    pub existed: bool,
}

impl Router {
    /// Connects to the router that the options name.
    pub fn connect(ctx: &Context<'_>) -> Result<Self, Failure> {
        Self::find(ctx.global.router.as_deref())
    }

    /// Connects to the router at `uri`.
    pub fn connect_to(uri: &str) -> Result<Self, Failure> {
        Self::find(Some(uri))
    }

    fn find(uri: Option<&str>) -> Result<Self, Failure> {
        let options = Options { reconnect: Duration::ZERO, signer: crate::keys::command_signer()? };
        let connection = Connection::find(uri, options).map_err(connection_failure)?;
        Ok(Router { connection })
    }

    /// The router's address.
    pub fn uri(&self) -> String {
        self.connection.uri().to_string()
    }

    /// Carries out a command; the answer's parameters.
    pub fn command(
        &mut self,
        command: Command,
        parameters: &ControlParameters,
    ) -> Result<ControlParameters, Failure> {
        let response = self.connection.command(command, parameters).map_err(command_failure)?;
        let parameters =
            response.parameters().map_err(|e| Failure::failed(format!("malformed answer: {e}")))?;
        Ok(parameters.unwrap_or_default())
    }

    /// Creates a face, or finds the one that is there.
    pub fn create_face(&mut self, parameters: &ControlParameters) -> Result<CreatedFace, Failure> {
        let mut parameters = parameters.clone();
        for uri in [&mut parameters.uri, &mut parameters.local_uri].into_iter().flatten() {
            *uri = canonical(uri)?;
        }
        let (response, existed) = match self.connection.command(Command::FacesCreate, &parameters) {
            Ok(response) => (response, false),
            // The answer to a conflict describes the face that is there.
            Err(CommandError::Refused(r)) if r.code == status_code::CONFLICT && !r.body.is_empty() => {
                (r, true)
            }
            Err(error) => return Err(command_failure(error)),
        };
        let face = response.parameters().ok().flatten().unwrap_or_default();
        let face_id = face.face_id.ok_or_else(|| Failure::failed("the router's answer names no face"))?;
        let uri = face.uri.or(parameters.uri).unwrap_or_default();
        Ok(CreatedFace { face_id, uri, existed })
    }

    /// The FaceId of a face given by number or by remote URI.
    pub fn find_face(&mut self, face: &str) -> Result<u64, Failure> {
        if let Ok(id) = face.parse() {
            return Ok(id);
        }
        let faces = self.faces()?;
        let wanted = canonical(face)?;
        faces
            .iter()
            .find(|f| f.uri == wanted || f.uri == face)
            .map(|f| f.face_id)
            .ok_or_else(|| no_such_face(face))
    }

    /// Like [`Router::find_face`]; a URI without a face gets one.
    pub fn find_or_create_face(&mut self, face: &str) -> Result<u64, Failure> {
        match face.parse() {
            Ok(id) => Ok(id),
            Err(_) => {
                let parameters = ControlParameters { uri: Some(face.into()), ..Default::default() };
                Ok(self.create_face(&parameters)?.face_id)
            }
        }
    }

    /// `status/general`.
    pub fn status(&mut self) -> Result<GeneralStatus, Failure> {
        let content = self.dataset(Dataset::StatusGeneral, FaceQueryFilter::default())?;
        GeneralStatus::decode(&content).map_err(|e| Failure::failed(format!("malformed status: {e}")))
    }

    /// `faces/list`.
    pub fn faces(&mut self) -> Result<Vec<FaceStatus>, Failure> {
        self.entries(Dataset::FacesList, FaceQueryFilter::default())
    }

    /// `faces/query`.
    pub fn query_faces(&mut self, filter: &FaceQueryFilter) -> Result<Vec<FaceStatus>, Failure> {
        self.entries(Dataset::FacesQuery, filter.clone())
    }

    /// `fib/list`.
    pub fn fib(&mut self) -> Result<Vec<FibEntry>, Failure> {
        self.entries(Dataset::FibList, FaceQueryFilter::default())
    }

    /// `rib/list`.
    pub fn rib(&mut self) -> Result<Vec<RibEntry>, Failure> {
        self.entries(Dataset::RibList, FaceQueryFilter::default())
    }

    /// `strategy-choice/list`.
    pub fn strategies(&mut self) -> Result<Vec<StrategyChoice>, Failure> {
        self.entries(Dataset::StrategyChoiceList, FaceQueryFilter::default())
    }

    /// `cs/info`.
    pub fn cs_info(&mut self) -> Result<CsInfo, Failure> {
        let entries = self.entries(Dataset::CsInfo, FaceQueryFilter::default())?;
        entries.into_iter().next().ok_or_else(|| Failure::failed("the router's cs/info is empty"))
    }

    /// `status/counters`, which only namely's router has.
    pub fn counters(&mut self) -> Result<Vec<Counter>, Failure> {
        self.entries(Dataset::StatusCounters, FaceQueryFilter::default())
    }

    fn entries<T: Block>(&mut self, dataset: Dataset, filter: FaceQueryFilter) -> Result<Vec<T>, Failure> {
        let content = self.dataset(dataset, filter)?;
        blocks(&content)
            .collect::<Result<_, _>>()
            .map_err(|e| Failure::failed(format!("the router's dataset is malformed: {e}")))
    }

    /// All segments of a dataset, joined.
    fn dataset(&mut self, dataset: Dataset, filter: FaceQueryFilter) -> Result<Vec<u8>, Failure> {
        let scope = self.connection.scope();
        let prefix = match dataset {
            Dataset::FacesQuery => filter.name(scope),
            other => other.prefix(scope),
        };
        let first = self.fetch(&InterestBuilder::new(prefix.clone()).can_be_prefix().must_be_fresh())?;
        let malformed = |e| Failure::failed(format!("the router's dataset is malformed: {e}"));
        let mut view = DataView::parse(&first).map_err(malformed)?;
        let versioned = view.name.without_last(1).to_name();
        let mut content = Vec::new();
        let mut wire;
        for segment in 0..DATASET_SEGMENTS_MAX {
            if view.name.last().and_then(|c| c.segment()) != Some(segment) {
                wire = self.fetch(&InterestBuilder::new(versioned.join_segment(segment)))?;
                view = DataView::parse(&wire).map_err(malformed)?;
            }
            content.extend_from_slice(view.content);
            if view.final_block_id.is_some() && view.final_block_id == view.name.last() {
                return Ok(content);
            }
        }
        Err(Failure::failed(format!("{prefix} has more than {DATASET_SEGMENTS_MAX} segments")))
    }

    fn fetch(&mut self, interest: &InterestBuilder) -> Result<Vec<u8>, Failure> {
        match self.connection.express_retrying(interest, ATTEMPTS).map_err(connection_failure)? {
            Answer::Data(reply) => Ok(reply.wire),
            Answer::Nack(reason) => Err(nack_failure("the router's management", reason)
                .hint("is it a router with the NFD management protocol? try its Unix socket")),
            Answer::Timeout => Err(Failure::new(Exit::Timeout, "the router's management does not answer")),
        }
    }

    /// Calls `show` with the number of each face event as it comes, `count` times.
    pub fn face_events(
        &mut self,
        count: u64,
        mut show: impl FnMut(u64, &FaceEventNotification),
    ) -> Result<(), Failure> {
        let scope = self.connection.scope();
        let mut next: Option<u64> = None;
        let mut shown = 0;
        while shown < count {
            let interest = match next {
                Some(seq) => InterestBuilder::new(EventRequest::name(scope, seq)),
                None => InterestBuilder::new(EventRequest::prefix(scope)).can_be_prefix().must_be_fresh(),
            };
            let interest = interest.lifetime_ms(EVENT_LIFETIME_MS);
            let Answer::Data(reply) = self.connection.express(&interest).map_err(connection_failure)? else {
                continue;
            };
            let Ok(view) = DataView::parse(&reply.wire) else { continue };
            let seq = view.name.last().and_then(|c| c.number(namely_wire::types::SEQUENCE_NUM_COMPONENT));
            let (Some(seq), Ok(event)) = (seq, FaceEventNotification::decode(view.content)) else { continue };
            show(seq, &event);
            shown += 1;
            next = Some(seq + 1);
        }
        Ok(())
    }

    /// The connection itself, for packets that are not management.
    pub fn connection(&mut self) -> &mut Connection {
        &mut self.connection
    }
}

/// The form in which routers take and list a URI: with family, numeric address and port. A host name is looked
/// up here, because it means what it means to the person who typed it.
fn canonical(uri: &str) -> Result<String, Failure> {
    let bad = |why: String| Failure::failed(format!("{uri} is not the address of a face: {why}"));
    let parsed: FaceUri = uri.parse().map_err(|e: FaceUriError| bad(e.to_string()))?;
    let (FaceUri::Tcp(endpoint) | FaceUri::Udp(endpoint)) = &parsed else { return Ok(parsed.to_string()) };
    let Endpoint::Host { name, port, family } = endpoint else { return Ok(parsed.to_string()) };
    let mut addresses = (name.as_str(), *port)
        .to_socket_addrs()
        .map_err(|e| bad(format!("{name} cannot be looked up: {e}")))?;
    let address = addresses
        .find(|a| family.admits(&a.ip()))
        .ok_or_else(|| bad(format!("{name} has no address of that family")))?;
    let resolved = match parsed {
        FaceUri::Tcp(_) => FaceUri::Tcp(Endpoint::Address(address)),
        _ => FaceUri::Udp(Endpoint::Address(address)),
    };
    Ok(resolved.to_string())
}

/// A failure to reach a router.
pub fn connection_failure(error: ConnectionError) -> Failure {
    let exit = match &error {
        ConnectionError::NoRouter(_) | ConnectionError::Lost { .. } | ConnectionError::BadRouter(_) => {
            Exit::NoRouter
        }
        ConnectionError::BadInterest(_) | ConnectionError::System(_) => Exit::Failed,
    };
    let hint = error.hint().map(|hint| match &error {
        ConnectionError::NoRouter(_) => format!("{hint} with --router"),
        _ => hint.to_owned(),
    });
    Failure { hint, ..Failure::new(exit, error.to_string()) }
}

/// A failure to carry out a command.
pub fn command_failure(error: CommandError) -> Failure {
    match error {
        CommandError::Connection(error) => connection_failure(error),
        CommandError::Refused(response) => {
            let exit = if response.code == status_code::NOT_FOUND { Exit::NotFound } else { Exit::Refused };
            let failure =
                Failure::new(exit, format!("the router refused: {} ({})", response.text, response.code));
            match response.code {
                401 | 403 => {
                    failure.hint("use the router's Unix socket, or sign with a key it trusts: `namely key`")
                }
                _ => failure,
            }
        }
        CommandError::NoAnswer => {
            let hint = error.hint().map(Into::into);
            Failure { hint, ..Failure::new(Exit::Timeout, error.to_string()) }
        }
        CommandError::Nack(reason) => nack_failure("the command", reason),
        other => Failure::failed(other.to_string()),
    }
}

/// An Interest that was refused.
pub fn nack_failure(what: &str, reason: NackReason) -> Failure {
    match reason {
        NackReason::NoRoute => Failure::new(Exit::NotFound, format!("no route to {what}"))
            .hint("`namely route list` shows where the router can go; add one with `namely route add`"),
        reason => Failure::new(Exit::NotFound, format!("{what} was refused: Nack {reason}")),
    }
}
