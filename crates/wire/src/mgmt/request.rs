//! Names of management: what an Interest under `/localhost/nfd` or `/localhop/nfd` requests.

use alloc::boxed::Box;
use core::fmt;

use super::block::Block;
use super::cs_list::CsListQuery;
use super::faces::FaceQueryFilter;
use super::parameters::ControlParameters;
use crate::error::DecodeError;
use crate::interest::InterestView;
use crate::name::{Component, Name, NameRef};
use crate::types::*;

/// What an Interest asks of the router's management.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request<'a> {
    /// To change something. Whether the signer may is not checked here.
    Command(CommandRequest<'a>),
    /// To report something.
    Dataset(DatasetRequest),
    /// To report the next face event.
    FaceEvents(EventRequest),
}

/// Which of the two prefixes a request used.
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
    /// The prefix it came under.
    pub scope: Scope,
    /// What to do.
    pub command: Command,
    /// With what.
    pub parameters: CommandParameters<'a>,
}

/// A command's argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommandParameters<'a> {
    /// From the component after the verb.
    Control(Box<ControlParameters>),
    /// The Prefix Announcement Data of `rib/announce`, from ApplicationParameters; not checked yet.
    Announcement(&'a [u8]),
}

/// A request for a dataset or one of its segments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatasetRequest {
    /// The prefix it came under.
    pub scope: Scope,
    /// Which dataset.
    pub dataset: Dataset,
    /// Which faces `faces/query` lists; without restriction for every other dataset.
    pub filter: FaceQueryFilter,
    /// Which part `cs/list` lists, of what, or with its prefix what `name/explain` is about; all
    /// from the beginning for every other dataset.
    pub list: CsListQuery,
    /// How many components name the dataset (with its filter, and a parameters digest if the
    /// request was signed), before version and segment.
    pub prefix_components: usize,
    /// The version asked for, if a certain one is.
    pub version: Option<u64>,
    /// The segment asked for, if a certain one is.
    pub segment: Option<u64>,
}

/// A request for a face event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventRequest {
    /// The event's number; `None` requests the newest.
    pub seq_num: Option<u64>,
}

/// A command, as module and verb.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "module and verb are the name")]
pub enum Command {
    FacesCreate,
    FacesUpdate,
    FacesDestroy,
    FibAddNexthop,
    FibRemoveNexthop,
    CsConfig,
    CsErase,
    CsPin,
    CsUnpin,
    CsReport,
    StrategyChoiceSet,
    StrategyChoiceUnset,
    RibRegister,
    RibUnregister,
    RibAnnounce,
    BptBind,
    BptUnbind,
    TraceStart,
    TraceRead,
    TraceStop,
    RightsRegister,
    RightsBind,
    RightsManage,
}

/// A dataset, as module and verb.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "module and verb are the name")]
pub enum Dataset {
    StatusGeneral,
    StatusCounters,
    FacesList,
    FacesQuery,
    FacesChannels,
    FibList,
    RibList,
    StrategyChoiceList,
    CsInfo,
    CsDisk,
    CsList,
    BptList,
    NeighborsList,
    NameExplain,
    VipStatus,
    VipObjects,
    VipNeighbours,
}

/// Why an Interest is not a request.
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
    /// Reads what `interest` requests.
    ///
    /// # Errors
    /// [`RequestError`]: not a request to management, or one that is malformed.
    pub fn parse(interest: &InterestView<'a>) -> Result<Self, RequestError> {
        Self::of_name(interest.name, interest.application_parameters)
    }

    /// Reads what an Interest with this name and these ApplicationParameters requests. A Data has
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
        // python-ndn signs requests for datasets as it signs commands; the answer's name extends
        // the whole request.
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

/// The component behind the verb.
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

    fn verb_prefix(self, (module, verb): (&str, &str)) -> Name {
        self.prefix().join_generic(module).join_generic(verb)
    }
}

impl Command {
    /// Every command.
    pub const ALL: &[Command] = &[
        Command::FacesCreate,
        Command::FacesUpdate,
        Command::FacesDestroy,
        Command::FibAddNexthop,
        Command::FibRemoveNexthop,
        Command::CsConfig,
        Command::CsErase,
        Command::CsPin,
        Command::CsUnpin,
        Command::CsReport,
        Command::StrategyChoiceSet,
        Command::StrategyChoiceUnset,
        Command::RibRegister,
        Command::RibUnregister,
        Command::RibAnnounce,
        Command::BptBind,
        Command::BptUnbind,
        Command::TraceStart,
        Command::TraceRead,
        Command::TraceStop,
        Command::RightsRegister,
        Command::RightsBind,
        Command::RightsManage,
    ];

    /// Module and verb.
    pub fn words(self) -> (&'static str, &'static str) {
        match self {
            Command::FacesCreate => ("faces", "create"),
            Command::FacesUpdate => ("faces", "update"),
            Command::FacesDestroy => ("faces", "destroy"),
            Command::FibAddNexthop => ("fib", "add-nexthop"),
            Command::FibRemoveNexthop => ("fib", "remove-nexthop"),
            Command::CsConfig => ("cs", "config"),
            Command::CsErase => ("cs", "erase"),
            Command::CsPin => ("cs", "pin"),
            Command::CsUnpin => ("cs", "unpin"),
            Command::CsReport => ("cs", "report"),
            Command::StrategyChoiceSet => ("strategy-choice", "set"),
            Command::StrategyChoiceUnset => ("strategy-choice", "unset"),
            Command::RibRegister => ("rib", "register"),
            Command::RibUnregister => ("rib", "unregister"),
            Command::RibAnnounce => ("rib", "announce"),
            Command::BptBind => ("bpt", "bind"),
            Command::BptUnbind => ("bpt", "unbind"),
            Command::TraceStart => ("trace", "start"),
            Command::TraceRead => ("trace", "read"),
            Command::TraceStop => ("trace", "stop"),
            Command::RightsRegister => ("rights", "register"),
            Command::RightsBind => ("rights", "bind"),
            Command::RightsManage => ("rights", "manage"),
        }
    }

    /// The command about which this one asks whether it would be let through; `None` for one that
    /// does something. It is signed as that one would be, changes nothing, and is answered with an
    /// [`ExplainedRight`](super::ExplainedRight).
    pub fn asks_about(self) -> Option<Command> {
        match self {
            Command::RightsRegister => Some(Command::RibRegister),
            Command::RightsBind => Some(Command::BptBind),
            // Stands for all that manage.
            Command::RightsManage => Some(Command::FacesUpdate),
            _ => None,
        }
    }

    /// The command's name up to its parameters. `rib/announce` is complete so: its announcement
    /// goes into ApplicationParameters.
    pub fn prefix(self, scope: Scope) -> Name {
        scope.verb_prefix(self.words())
    }

    /// The name of a command Interest before it is signed (signing appends the parameters digest).
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
    /// Every dataset.
    pub const ALL: &[Dataset] = &[
        Dataset::StatusGeneral,
        Dataset::StatusCounters,
        Dataset::FacesList,
        Dataset::FacesQuery,
        Dataset::FacesChannels,
        Dataset::FibList,
        Dataset::RibList,
        Dataset::StrategyChoiceList,
        Dataset::CsInfo,
        Dataset::CsDisk,
        Dataset::CsList,
        Dataset::BptList,
        Dataset::NeighborsList,
        Dataset::NameExplain,
        Dataset::VipStatus,
        Dataset::VipObjects,
        Dataset::VipNeighbours,
    ];

    /// Module and verb.
    pub fn words(self) -> (&'static str, &'static str) {
        match self {
            Dataset::StatusGeneral => ("status", "general"),
            Dataset::StatusCounters => ("status", "counters"),
            Dataset::FacesList => ("faces", "list"),
            Dataset::FacesQuery => ("faces", "query"),
            Dataset::FacesChannels => ("faces", "channels"),
            Dataset::FibList => ("fib", "list"),
            Dataset::RibList => ("rib", "list"),
            Dataset::StrategyChoiceList => ("strategy-choice", "list"),
            Dataset::CsInfo => ("cs", "info"),
            Dataset::CsDisk => ("cs", "disk"),
            Dataset::CsList => ("cs", "list"),
            Dataset::BptList => ("bpt", "list"),
            Dataset::NeighborsList => ("neighbors", "list"),
            Dataset::NameExplain => ("name", "explain"),
            Dataset::VipStatus => ("vip", "status"),
            Dataset::VipObjects => ("vip", "objects"),
            Dataset::VipNeighbours => ("vip", "neighbours"),
        }
    }

    /// The dataset's name, without version and segment. `faces/query` needs its filter appended:
    /// see [`FaceQueryFilter::name`]; `cs/list` what is asked for: [`CsListQuery::name`];
    /// `name/explain` the name: [`super::explain_name`].
    pub fn prefix(self, scope: Scope) -> Name {
        scope.verb_prefix(self.words())
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
        scope.verb_prefix(("faces", "events"))
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
