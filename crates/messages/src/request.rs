//! Names of management: the requests under `/localhost/nfd` and `/localhop/nfd`.

use alloc::boxed::Box;
use core::fmt;

use super::block::Block;
use super::cs_list::CsListQuery;
use super::faces::FaceQueryFilter;
use super::parameters::ControlParameters;
use namely_wire::DecodeError;
use namely_wire::InterestView;
use namely_wire::types::*;
use namely_wire::{Component, Name, NameRef};

/// A request to the router's management.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request<'a> {
    /// A change. The signer's right to it is not checked here.
    Command(CommandRequest<'a>),
    /// A report.
    Dataset(DatasetRequest),
    /// The next face event.
    FaceEvents(EventRequest),
}

/// The prefix of a request, one of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scope {
    /// `/localhost/nfd`: from this host.
    Localhost,
    /// `/localhop/nfd`: from this host or one hop away.
    Localhop,
}

/// A command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandRequest<'a> {
    /// The prefix of its name.
    pub scope: Scope,
    /// The command.
    pub command: Command,
    /// Its argument.
    pub parameters: CommandParameters<'a>,
}

/// A command's argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommandParameters<'a> {
    /// In the component after the verb.
    Control(Box<ControlParameters>),
    /// The Prefix Announcement Data of `rib/announce`, in ApplicationParameters; not checked yet.
    Announcement(&'a [u8]),
}

/// A request for a dataset or one of its segments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatasetRequest {
    /// The prefix of its name.
    pub scope: Scope,
    /// The dataset.
    pub dataset: Dataset,
    /// The faces that `faces/query` lists; without restriction for every other dataset.
    pub filter: FaceQueryFilter,
    /// For `cs/list`, the requested part. For `name/explain`, its prefix is the explained name. For
    /// any other dataset, the root and the first part.
    pub list: CsListQuery,
    /// The number of components that name the dataset (with its filter, and a parameters digest if
    /// the request was signed), before version and segment.
    pub prefix_components: usize,
    /// The requested version; `None` for any.
    pub version: Option<u64>,
    /// The requested segment; `None` for the first.
    pub segment: Option<u64>,
}

/// A request for a face event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventRequest {
    /// The event's number; `None` requests the newest.
    pub seq_num: Option<u64>,
}

/// The protocol that defines a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RequestOrigin {
    /// NFD's management protocol.
    Nfd,
    /// namely's additions to it.
    Namely,
}

/// Declares the requests of a kind: the documentation of each, its module and verb, and its origin.
/// docs/management.md has a table that is written from these declarations.
macro_rules! requests {
    ($(#[$kind:meta])* $Kind:ident {
        $($(#[$doc:meta])* $variant:ident = $module:literal / $verb:literal of $origin:ident,)+
    }) => {
        $(#[$kind])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $Kind {
            $($(#[$doc])* $variant,)+
        }

        impl $Kind {
            /// All of them, in the order of their declarations.
            pub const ALL: &[$Kind] = &[$($Kind::$variant,)+];

            /// Module and verb.
            pub fn words(self) -> (&'static str, &'static str) {
                match self {
                    $($Kind::$variant => ($module, $verb),)+
                }
            }

            /// The protocol that defines it.
            pub fn origin(self) -> RequestOrigin {
                match self {
                    $($Kind::$variant => RequestOrigin::$origin,)+
                }
            }
        }
    };
}

requests! {
    /// A command, as module and verb.
    Command {
        /// Creates a face, or returns the existing one to that address.
        FacesCreate = "faces" / "create" of Nfd,
        /// Changes the flags, persistency and congestion marking of a face.
        FacesUpdate = "faces" / "update" of Nfd,
        /// Closes a face.
        FacesDestroy = "faces" / "destroy" of Nfd,
        /// Adds a nexthop, or changes its cost.
        FibAddNexthop = "fib" / "add-nexthop" of Nfd,
        /// Removes a nexthop.
        FibRemoveNexthop = "fib" / "remove-nexthop" of Nfd,
        /// Changes capacity, flags and policy of the content store, and the admission of its disk.
        CsConfig = "cs" / "config" of Nfd,
        /// Removes Data below a prefix.
        CsErase = "cs" / "erase" of Nfd,
        /// Makes the disk write and retain all Data below a prefix.
        CsPin = "cs" / "pin" of Namely,
        /// Ends a `cs/pin`.
        CsUnpin = "cs" / "unpin" of Namely,
        /// Reports Data that failed verification.
        CsReport = "cs" / "report" of Namely,
        /// Chooses the strategy of a namespace.
        StrategyChoiceSet = "strategy-choice" / "set" of Nfd,
        /// Returns a namespace to the strategy of its parent.
        StrategyChoiceUnset = "strategy-choice" / "unset" of Nfd,
        /// Adds a route, or changes its cost, flags and expiry.
        RibRegister = "rib" / "register" of Nfd,
        /// Removes a route.
        RibUnregister = "rib" / "unregister" of Nfd,
        /// Adds a route by a prefix announcement.
        RibAnnounce = "rib" / "announce" of Nfd,
        /// Binds a prefix of an application to its face.
        BptBind = "bpt" / "bind" of Namely,
        /// Ends a `bpt/bind`.
        BptUnbind = "bpt" / "unbind" of Namely,
        /// Starts a trace of packets below a name.
        TraceStart = "trace" / "start" of Namely,
        /// Reads the events of a trace.
        TraceRead = "trace" / "read" of Namely,
        /// Ends a trace.
        TraceStop = "trace" / "stop" of Namely,
        /// Queries the right to `rib/register`.
        RightsRegister = "rights" / "register" of Namely,
        /// Queries the right to `bpt/bind`.
        RightsBind = "rights" / "bind" of Namely,
        /// Queries the right to manage.
        RightsManage = "rights" / "manage" of Namely,
    }
}

requests! {
    /// A dataset, as module and verb.
    Dataset {
        /// Version, start time and totals of the router, a [`GeneralStatus`](super::GeneralStatus).
        StatusGeneral = "status" / "general" of Nfd,
        /// Counters that are not zero; [`Counter`](super::Counter)s.
        StatusCounters = "status" / "counters" of Namely,
        /// All faces; [`FaceStatus`](super::FaceStatus)es.
        FacesList = "faces" / "list" of Nfd,
        /// The faces that match a filter; [`FaceStatus`](super::FaceStatus)es.
        FacesQuery = "faces" / "query" of Nfd,
        /// The addresses at which the router listens; [`ChannelStatus`](super::ChannelStatus)es.
        FacesChannels = "faces" / "channels" of Nfd,
        /// The FIB; [`FibEntry`](super::FibEntry)s.
        FibList = "fib" / "list" of Nfd,
        /// The routes; [`RibEntry`](super::RibEntry)s.
        RibList = "rib" / "list" of Nfd,
        /// The chosen strategies; [`StrategyChoice`](super::StrategyChoice)s.
        StrategyChoiceList = "strategy-choice" / "list" of Nfd,
        /// State of the content store; one [`CsInfo`](super::CsInfo).
        CsInfo = "cs" / "info" of Nfd,
        /// State of its disk; at most one [`CsDiskStatus`](super::CsDiskStatus).
        CsDisk = "cs" / "disk" of Namely,
        /// A part of the cached packets; one [`CsList`](super::CsList).
        CsList = "cs" / "list" of Namely,
        /// The bound prefixes of applications; [`Binding`](super::Binding)s.
        BptList = "bpt" / "list" of Namely,
        /// The discovered neighbors; [`NeighborStatus`](super::NeighborStatus)es.
        NeighborsList = "neighbors" / "list" of Namely,
        /// The handling of an Interest for a name; one [`Explained`](super::Explained).
        NameExplain = "name" / "explain" of Namely,
        /// State of the virtual plane; at most one [`VipStatus`](super::VipStatus).
        VipStatus = "vip" / "status" of Namely,
        /// The objects of the virtual plane; [`VipObject`](super::VipObject)s.
        VipObjects = "vip" / "objects" of Namely,
        /// The neighbors in the virtual plane; [`VipNeighbour`](super::VipNeighbour)s.
        VipNeighbours = "vip" / "neighbours" of Namely,
    }
}

/// The reason for which an Interest is not a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestError {
    /// The name is not under `/localhost/nfd` or `/localhop/nfd`.
    NotManagement,
    /// There is no such module and verb.
    Unknown,
    /// A command came without its parameters.
    NoParameters,
    /// Parameters that cannot be decoded.
    Malformed(DecodeError),
}

impl<'a> Request<'a> {
    /// Parses the request of `interest`.
    ///
    /// # Errors
    /// [`RequestError`]: not a request to management, or one that is malformed.
    pub fn parse(interest: &InterestView<'a>) -> Result<Self, RequestError> {
        Self::of_name(interest.name, interest.application_parameters)
    }

    /// Parses the request of an Interest with this name and these ApplicationParameters. A Data has
    /// the name of the request that it answers.
    ///
    /// # Errors
    /// [`RequestError`]: not a request to management, or one that is malformed.
    pub fn of_name(
        name: NameRef<'a>,
        application_parameters: Option<&'a [u8]>,
    ) -> Result<Self, RequestError> {
        let mut components = name.components();
        let scope = match components.next() {
            Some(c) if c == Component::generic(b"localhost") => Scope::Localhost,
            Some(c) if c == Component::generic(b"localhop") => Scope::Localhop,
            _ => return Err(RequestError::NotManagement),
        };
        if components.next() != Some(Component::generic(b"nfd")) {
            return Err(RequestError::NotManagement);
        }
        let mut word = || components.next().filter(|c| c.typ == GENERIC_COMPONENT).map(|c| c.value);
        let (Some(module), Some(verb)) = (word(), word()) else { return Err(RequestError::Unknown) };
        if (module, verb) == (b"faces", b"events") {
            let seq_num = components.next().and_then(|c| c.number(SEQUENCE_NUM_COMPONENT));
            return Ok(Request::FaceEvents(EventRequest { seq_num }));
        }
        if let Some(dataset) = find(Dataset::ALL, Dataset::words, module, verb) {
            return DatasetRequest::parse(scope, dataset, name).map(Request::Dataset);
        }
        let command = find(Command::ALL, Command::words, module, verb).ok_or(RequestError::Unknown)?;
        let parameters = CommandParameters::parse(command, name, application_parameters)?;
        Ok(Request::Command(CommandRequest { scope, command, parameters }))
    }
}

/// Components of `/localhost/nfd/<module>/<verb>`.
const VERB_PREFIX_COMPONENTS: usize = 4;

impl DatasetRequest {
    fn parse(scope: Scope, dataset: Dataset, name: NameRef<'_>) -> Result<Self, RequestError> {
        let mut prefix_components = VERB_PREFIX_COMPONENTS;
        let mut filter = FaceQueryFilter::default();
        if dataset == Dataset::FacesQuery {
            let component = argument(name).ok_or(RequestError::NoParameters)?;
            filter = FaceQueryFilter::decode(component.value).map_err(RequestError::Malformed)?;
            prefix_components += 1;
        }
        let mut list = CsListQuery::default();
        if matches!(dataset, Dataset::CsList | Dataset::NameExplain) {
            let component = argument(name).ok_or(RequestError::NoParameters)?;
            list = CsListQuery::decode(component.value).map_err(RequestError::Malformed)?;
            prefix_components += 1;
        }
        // python-ndn signs requests for datasets, too. The name of the answer extends the whole
        // name of the request.
        if name.component(prefix_components).is_some_and(|c| c.typ == PARAMETERS_DIGEST_COMPONENT) {
            prefix_components += 1;
        }
        let mut rest = name.components().skip(prefix_components);
        let version = rest.next().and_then(|c| c.version());
        let segment = rest.next().and_then(|c| c.segment());
        Ok(DatasetRequest { scope, dataset, filter, list, prefix_components, version, segment })
    }
}

impl<'a> CommandParameters<'a> {
    fn parse(
        command: Command,
        name: NameRef<'a>,
        application_parameters: Option<&'a [u8]>,
    ) -> Result<Self, RequestError> {
        if command == Command::RibAnnounce {
            let announcement = application_parameters.filter(|p| !p.is_empty());
            return announcement.map(CommandParameters::Announcement).ok_or(RequestError::NoParameters);
        }
        let component = argument(name).ok_or(RequestError::NoParameters)?;
        ControlParameters::decode(component.value)
            .map(|parameters| CommandParameters::Control(Box::new(parameters)))
            .map_err(RequestError::Malformed)
    }
}

/// The component after the verb.
fn argument(name: NameRef<'_>) -> Option<Component<'_>> {
    name.component(VERB_PREFIX_COMPONENTS).filter(|c| c.typ == GENERIC_COMPONENT)
}

fn find<T: Copy>(
    all: &[T],
    words: impl Fn(T) -> (&'static str, &'static str),
    module: &[u8],
    verb: &[u8],
) -> Option<T> {
    all.iter().copied().find(|v| {
        let (m, v) = words(*v);
        m.as_bytes() == module && v.as_bytes() == verb
    })
}

impl Scope {
    /// `/localhost/nfd` or `/localhop/nfd`.
    pub fn prefix(self) -> Name {
        let first = match self {
            Scope::Localhost => "localhost",
            Scope::Localhop => "localhop",
        };
        Name::new().join_generic(first).join_generic("nfd")
    }

    fn verb_prefix(self, module: &str, verb: &str) -> Name {
        self.prefix().join_generic(module).join_generic(verb)
    }
}

impl Command {
    /// The command whose permission this one queries; `None` for a command that changes something.
    /// A query is signed like that command and changes nothing. Its answer is an
    /// [`ExplainedRight`](super::ExplainedRight).
    pub fn queried_command(self) -> Option<Command> {
        match self {
            Command::RightsRegister => Some(Command::RibRegister),
            Command::RightsBind => Some(Command::BptBind),
            // Represents all commands that need the right to manage.
            Command::RightsManage => Some(Command::FacesUpdate),
            _ => None,
        }
    }

    /// The command's name without its parameters. This is the whole name of `rib/announce`, because
    /// its announcement is in ApplicationParameters.
    pub fn prefix(self, scope: Scope) -> Name {
        let (module, verb) = self.words();
        scope.verb_prefix(module, verb)
    }

    /// The name of a command Interest before it is signed. Signing appends the parameters digest.
    pub fn name(self, scope: Scope, parameters: &ControlParameters) -> Name {
        self.prefix(scope).join_generic(parameters.to_vec())
    }
}

impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (module, verb) = self.words();
        write!(f, "{module}/{verb}")
    }
}

impl Dataset {
    /// The dataset's name, without version and segment. Three datasets need an argument appended:
    /// `faces/query` its filter ([`FaceQueryFilter::name`]), `cs/list` its query
    /// ([`CsListQuery::name`]), `name/explain` the name ([`super::explain_name`]).
    pub fn prefix(self, scope: Scope) -> Name {
        let (module, verb) = self.words();
        scope.verb_prefix(module, verb)
    }
}

impl fmt::Display for Dataset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (module, verb) = self.words();
        write!(f, "{module}/{verb}")
    }
}

impl FaceQueryFilter {
    /// The name of the `faces/query` dataset with this filter.
    pub fn name(&self, scope: Scope) -> Name {
        Dataset::FacesQuery.prefix(scope).join_generic(self.to_vec())
    }
}

impl EventRequest {
    /// The name under which face events are published.
    pub fn prefix(scope: Scope) -> Name {
        scope.verb_prefix("faces", "events")
    }

    /// The name of face event `seq_num`.
    pub fn name(scope: Scope, seq_num: u64) -> Name {
        Self::prefix(scope).join_number(SEQUENCE_NUM_COMPONENT, seq_num)
    }
}

impl fmt::Display for RequestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RequestError::NotManagement => {
                f.write_str("the name is not under /localhost/nfd or /localhop/nfd")
            }
            RequestError::Unknown => f.write_str("there is no such management module and verb"),
            RequestError::NoParameters => f.write_str("the command came without its parameters"),
            RequestError::Malformed(error) => write!(f, "malformed parameters: {error}"),
        }
    }
}

impl core::error::Error for RequestError {}
