//! The file that describes a testbed (docs/testbed.md), and the position of an error in it.

mod check;
mod values;

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;
use toml::Spanned;

pub use values::{Addresses, Listens, Rate, Share, Span};

/// Octets of a testbed's file.
///
/// # Limit
/// A larger file is refused.
/// - Value: 1 MiB
/// - Tests: `testbed_files_have_a_size_limit`
pub const FILE_OCTETS_MAX: u64 = 1 << 20;

/// Nodes of a testbed.
///
/// Each node is a network namespace, and most of them run a router.
///
/// # Limit
/// A file with more nodes is refused.
/// - Tests: `testbed_nodes_have_a_limit`
pub const NODES_MAX: usize = 250;

/// Links and segments of a testbed.
///
/// Each of them uses addresses 10.x.y.0/24 of its own.
///
/// # Limit
/// A file with more of them is refused.
/// - Tests: `testbed_nodes_have_a_limit`
pub const NETWORKS_MAX: usize = 1000;

/// A testbed, as its file describes it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Testbed {
    /// Settings of the whole run.
    #[serde(default)]
    pub testbed: TestbedSection,
    /// Settings of nodes that do not set their own.
    #[serde(default)]
    pub defaults: Settings,
    /// Nodes.
    #[serde(default, rename = "node")]
    pub nodes: Vec<Node>,
    /// Wires between two nodes.
    #[serde(default, rename = "link")]
    pub links: Vec<Link>,
    /// Wires that several nodes share.
    #[serde(default, rename = "segment")]
    pub segments: Vec<Segment>,
    /// Programs that run on the nodes beside the routers.
    #[serde(default, rename = "program")]
    pub programs: Vec<Program>,
    /// Events at links and nodes.
    #[serde(default, rename = "event")]
    pub events: Vec<Event>,
}

/// `[testbed]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TestbedSection {
    /// Name of the testbed. Default: the name of its file.
    pub name: Option<String>,
    /// Maximum duration of the run.
    pub duration: Span,
    /// Whether every node has a key chain of its own. Otherwise all nodes share one.
    pub own_keys: bool,
}

impl Default for TestbedSection {
    fn default() -> Self {
        TestbedSection { name: None, duration: Span(Duration::from_secs(60)), own_keys: false }
    }
}

/// Settings of a node's router.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// Whether the node has a router. Default: true.
    pub router: Option<bool>,
    /// Transports that the router listens on, beside its Unix socket.
    pub listen: Option<Listens>,
    /// Further arguments of its command line.
    pub arguments: Option<Vec<String>>,
    /// Its configuration. Without one the router runs with `--no-config`.
    pub config: Option<String>,
    /// Its log filter.
    pub log: Option<String>,
    /// Files that are created in the node's folder before the router starts, by name.
    pub files: BTreeMap<String, String>,
}

/// A node: a network namespace.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Node {
    /// Name of the node.
    pub name: Spanned<String>,
    /// Position in the drawing: column and row.
    #[serde(default)]
    pub place: Option<[f64; 2]>,
    /// As in [`Settings`].
    #[serde(default)]
    pub router: Option<bool>,
    /// As in [`Settings`].
    #[serde(default)]
    pub listen: Option<Listens>,
    /// As in [`Settings`]; appended to the defaults.
    #[serde(default)]
    pub arguments: Option<Vec<String>>,
    /// As in [`Settings`].
    #[serde(default)]
    pub config: Option<String>,
    /// As in [`Settings`].
    #[serde(default)]
    pub log: Option<String>,
    /// As in [`Settings`]; added to the defaults.
    #[serde(default)]
    pub files: BTreeMap<String, String>,
}

/// Properties of a wire, in each direction.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Shape {
    /// Rate in bit/s. Default: no limit.
    pub rate: Option<Rate>,
    /// Delay of each frame, in addition to the time for its octets.
    pub delay: Option<Span>,
    /// Share of frames that are lost.
    pub loss: Option<Share>,
    /// Maximum queue before the rate limit, as the time to send it.
    pub queue: Option<Span>,
}

/// A wire between two nodes.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Link {
    /// Name that events use. Default: `a-b`.
    #[serde(default)]
    pub name: Option<Spanned<String>>,
    /// Its ends.
    pub between: [Spanned<String>; 2],
    /// As in [`Shape`].
    #[serde(default)]
    pub rate: Option<Rate>,
    /// As in [`Shape`].
    #[serde(default)]
    pub delay: Option<Span>,
    /// As in [`Shape`].
    #[serde(default)]
    pub loss: Option<Share>,
    /// As in [`Shape`].
    #[serde(default)]
    pub queue: Option<Span>,
    /// MTU of both devices.
    #[serde(default)]
    pub mtu: Option<u32>,
    /// MTU of single devices, by node; takes precedence over `mtu`.
    #[serde(default)]
    pub mtus: BTreeMap<Spanned<String>, u32>,
    /// Whether traffic is captured into a file.
    #[serde(default)]
    pub capture: bool,
}

/// A wire that several nodes share: a bridge.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Segment {
    /// Name that events use.
    pub name: Spanned<String>,
    /// Nodes on the segment.
    pub nodes: Vec<Spanned<String>>,
    /// As in [`Shape`], between each node and the bridge.
    #[serde(default)]
    pub rate: Option<Rate>,
    /// As in [`Shape`].
    #[serde(default)]
    pub delay: Option<Span>,
    /// As in [`Shape`].
    #[serde(default)]
    pub loss: Option<Share>,
    /// As in [`Shape`].
    #[serde(default)]
    pub queue: Option<Span>,
    /// MTU of every device.
    #[serde(default)]
    pub mtu: Option<u32>,
    /// MTU of single devices, by node; takes precedence over `mtu`.
    #[serde(default)]
    pub mtus: BTreeMap<Spanned<String>, u32>,
    /// Whether traffic is captured into a file.
    #[serde(default)]
    pub capture: bool,
}

/// A program on a node, or on several.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Program {
    /// Name of the program. Default: the first word of `run`.
    #[serde(default)]
    pub name: Option<Spanned<String>>,
    /// Node that runs the program.
    #[serde(default)]
    pub node: Option<Spanned<String>>,
    /// Further nodes that run the program: one instance on each.
    #[serde(default)]
    pub nodes: Vec<Spanned<String>>,
    /// Command for a shell.
    pub run: Spanned<String>,
    /// Earliest start.
    #[serde(default)]
    pub at: Span,
    /// Programs that have to come first: each has to be ready or, without a `ready` text, has to
    /// have ended with success.
    #[serde(default)]
    pub after: Vec<Spanned<String>>,
    /// Text that the program prints once other programs may use it.
    #[serde(default)]
    pub ready: Option<String>,
    /// Duration for which a failed program is started again.
    #[serde(default)]
    pub retry: Option<Span>,
    /// Whether the run does not wait for the program's end.
    #[serde(default)]
    pub background: bool,
}

/// An event at a link, a segment or a node.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Event {
    /// Time of the event.
    pub at: Span,
    /// Programs that have to come first, as in [`Program::after`]; `at` counts from then.
    #[serde(default)]
    pub after: Vec<Spanned<String>>,
    /// The link or segment loses its carrier.
    #[serde(default)]
    pub down: Option<Spanned<String>>,
    /// The link or segment regains its carrier.
    #[serde(default)]
    pub up: Option<Spanned<String>>,
    /// All processes on this node are killed.
    #[serde(default)]
    pub kill: Option<Spanned<String>>,
    /// The router of this node is started again.
    #[serde(default)]
    pub start: Option<Spanned<String>>,
}

/// The action of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventAction<'a> {
    /// A link or segment loses its carrier.
    Down(&'a str),
    /// A link or segment regains its carrier.
    Up(&'a str),
    /// All processes on a node are killed.
    Kill(&'a str),
    /// A node's router is started again.
    Start(&'a str),
}

impl Event {
    /// Returns the event's action; none if the file was not checked.
    pub fn deed(&self) -> Option<EventAction<'_>> {
        let down = self.down.as_ref().map(|name| EventAction::Down(name.get_ref()));
        let up = self.up.as_ref().map(|name| EventAction::Up(name.get_ref()));
        let kill = self.kill.as_ref().map(|name| EventAction::Kill(name.get_ref()));
        let start = self.start.as_ref().map(|name| EventAction::Start(name.get_ref()));
        down.or(up).or(kill).or(start)
    }
}

impl fmt::Display for EventAction<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EventAction::Down(name) => write!(f, "{name} down"),
            EventAction::Up(name) => write!(f, "{name} up"),
            EventAction::Kill(name) => write!(f, "{name} killed"),
            EventAction::Start(name) => write!(f, "{name} started"),
        }
    }
}

impl Program {
    /// Returns the nodes that run the program.
    pub fn places(&self) -> impl Iterator<Item = &Spanned<String>> {
        self.node.iter().chain(&self.nodes)
    }

    /// Returns the program's name.
    pub fn title(&self) -> &str {
        let first = || self.run.get_ref().split_whitespace().next().unwrap_or("program");
        self.name.as_ref().map_or_else(first, |name| name.get_ref())
    }
}

/// A network of a testbed, whether link or segment.
#[derive(Clone, Debug, PartialEq)]
pub struct Network<'a> {
    /// Name that events use.
    pub name: String,
    /// Nodes on the network.
    pub nodes: Vec<&'a str>,
    /// MTU of each node's device.
    pub mtus: Vec<u32>,
    /// Rate, delay, loss and queue.
    pub shape: Shape,
    /// Whether it is a bridge.
    pub is_segment: bool,
    /// Whether traffic is captured into a file.
    pub capture: bool,
}

/// Default MTU of a device.
const MTU_OCTETS: u32 = 1500;

impl Testbed {
    /// Reads a testbed from a file.
    ///
    /// # Errors
    /// The reason why the file is not usable, with the line.
    pub fn load(path: &Path) -> Result<Self, FileError> {
        let refuse = |reason: String| FileError { path: path.to_owned(), line: None, reason };
        let size = std::fs::metadata(path).map_err(|e| refuse(e.to_string()))?.len();
        if size > FILE_OCTETS_MAX {
            return Err(refuse(format!("larger than {FILE_OCTETS_MAX} octets; is this a testbed?")));
        }
        let text = std::fs::read_to_string(path).map_err(|e| refuse(e.to_string()))?;
        Self::parse(&text, path)
    }

    /// Parses a testbed from `text`; errors refer to it as `path`.
    ///
    /// # Errors
    /// The reason why the text is not usable, with the line.
    pub fn parse(text: &str, path: &Path) -> Result<Self, FileError> {
        let refuse = |offset: Option<usize>, reason: String| {
            let line_of = |at: usize| 1 + text.bytes().take(at).filter(|b| *b == b'\n').count();
            FileError { path: path.to_owned(), line: offset.map(line_of), reason }
        };
        let mut testbed: Testbed = toml::from_str(text)
            .map_err(|e| refuse(e.span().map(|span| span.start), e.message().to_owned()))?;
        testbed.check().map_err(|(offset, reason)| refuse(offset, reason))?;
        if testbed.testbed.name.is_none() {
            testbed.testbed.name = path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
        }
        Ok(testbed)
    }

    /// Returns the testbed's name.
    pub fn name(&self) -> &str {
        self.testbed.name.as_deref().unwrap_or("testbed")
    }

    /// Returns links and then segments, in the order of the file. A network's index in this list is
    /// part of the addresses of its devices.
    pub fn networks(&self) -> Vec<Network<'_>> {
        let mtu = |of: &BTreeMap<Spanned<String>, u32>, all: Option<u32>, node: &str| {
            let own = of.iter().find(|(name, _)| name.get_ref() == node).map(|(_, mtu)| *mtu);
            own.or(all).unwrap_or(MTU_OCTETS)
        };
        let links = self.links.iter().map(|link| {
            let nodes: Vec<&str> = link.between.iter().map(|end| end.get_ref().as_str()).collect();
            let name = link.name.as_ref().map_or_else(|| nodes.join("-"), |name| name.get_ref().clone());
            let mtus = nodes.iter().map(|node| mtu(&link.mtus, link.mtu, node)).collect();
            let shape = Shape { rate: link.rate, delay: link.delay, loss: link.loss, queue: link.queue };
            Network { name, nodes, mtus, shape, is_segment: false, capture: link.capture }
        });
        let segments = self.segments.iter().map(|all| {
            let nodes: Vec<&str> = all.nodes.iter().map(|node| node.get_ref().as_str()).collect();
            let mtus = nodes.iter().map(|node| mtu(&all.mtus, all.mtu, node)).collect();
            let shape = Shape { rate: all.rate, delay: all.delay, loss: all.loss, queue: all.queue };
            let name = all.name.get_ref().clone();
            Network { name, nodes, mtus, shape, is_segment: true, capture: all.capture }
        });
        links.chain(segments).collect()
    }

    /// Returns the settings of a node's router: the node's own take precedence over the defaults.
    pub fn settings(&self, node: &Node) -> Settings {
        let all = &self.defaults;
        let mut arguments = all.arguments.clone().unwrap_or_default();
        arguments.extend(node.arguments.clone().unwrap_or_default());
        let mut files = all.files.clone();
        files.extend(node.files.clone());
        Settings {
            router: node.router.or(all.router),
            listen: node.listen.or(all.listen),
            arguments: Some(arguments),
            config: node.config.clone().or_else(|| all.config.clone()),
            log: node.log.clone().or_else(|| all.log.clone()),
            files,
        }
    }
}

/// A file is not usable; a fault of its author.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct FileError {
    /// The file.
    pub path: PathBuf,
    /// The line, counted from 1, if there is one.
    pub line: Option<usize>,
    /// The reason, and the allowed values.
    pub reason: String,
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.path.display())?;
        if let Some(line) = self.line {
            write!(f, "{line}:")?;
        }
        write!(f, " {}", self.reason)
    }
}
