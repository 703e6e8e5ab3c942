//! The file that describes a testbed (docs/testbed.md), and where it is wrong.

mod check;
mod values;

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;
use toml::Spanned;

pub use values::{Addresses, Listens, Rate, Share, Span};

/// Largest file that is read, in octets.
pub const FILE_OCTETS_MAX: u64 = 1 << 20;

/// Most nodes of a testbed: each is a namespace, and mostly a router.
pub const NODES_MAX: usize = 250;

/// Most links and segments: each has addresses 10.x.y.0/24 of its own.
pub const NETWORKS_MAX: usize = 1000;

/// A testbed, as its file says.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Testbed {
    /// What concerns the whole run.
    #[serde(default)]
    pub testbed: Whole,
    /// What holds for every node that says nothing else.
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
    /// What runs on the nodes beside their routers.
    #[serde(default, rename = "program")]
    pub programs: Vec<Program>,
    /// What happens to links and nodes.
    #[serde(default, rename = "event")]
    pub events: Vec<Event>,
}

/// `[testbed]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Whole {
    /// What the testbed is called; the name of its file without one.
    pub name: Option<String>,
    /// How long it runs at most.
    pub duration: Span,
    /// Whether every node has a key chain of its own; else all use one.
    pub own_keys: bool,
}

impl Default for Whole {
    fn default() -> Self {
        Whole { name: None, duration: Span(Duration::from_secs(60)), own_keys: false }
    }
}

/// How a node's router is run.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// Whether there is one; there is if nothing is said.
    pub router: Option<bool>,
    /// Where it listens, beside its Unix socket.
    pub listen: Option<Listens>,
    /// More of its command line.
    pub arguments: Option<Vec<String>>,
    /// Its configuration; without one it runs with `--no-config`.
    pub config: Option<String>,
    /// What it logs.
    pub log: Option<String>,
    /// Files that are in the node's folder before it starts, by their names.
    pub files: BTreeMap<String, String>,
}

/// A node: a network namespace.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Node {
    /// What it is called.
    pub name: Spanned<String>,
    /// Where it is drawn: column and row.
    #[serde(default)]
    pub place: Option<[f64; 2]>,
    /// As in [`Settings`].
    #[serde(default)]
    pub router: Option<bool>,
    /// As in [`Settings`].
    #[serde(default)]
    pub listen: Option<Listens>,
    /// As in [`Settings`]; after those of the defaults.
    #[serde(default)]
    pub arguments: Option<Vec<String>>,
    /// As in [`Settings`].
    #[serde(default)]
    pub config: Option<String>,
    /// As in [`Settings`].
    #[serde(default)]
    pub log: Option<String>,
    /// As in [`Settings`]; beside those of the defaults.
    #[serde(default)]
    pub files: BTreeMap<String, String>,
}

/// What a wire is like, in each direction.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Shape {
    /// Bits a second; as fast as the machine without.
    pub rate: Option<Rate>,
    /// How long each frame takes beside that.
    pub delay: Option<Span>,
    /// Which share of frames is lost.
    pub loss: Option<Share>,
    /// What waits for a rate at most, as the time that it takes to send.
    pub queue: Option<Span>,
}

/// A wire between two nodes.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Link {
    /// What events call it; `a-b` without.
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
    /// Of both devices.
    #[serde(default)]
    pub mtu: Option<u32>,
    /// Of devices that have another.
    #[serde(default)]
    pub mtus: BTreeMap<Spanned<String>, u32>,
    /// Whether what passes is written to a file.
    #[serde(default)]
    pub capture: bool,
}

/// A wire that several nodes share: a bridge.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Segment {
    /// What events call it.
    pub name: Spanned<String>,
    /// Who is on it.
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
    /// Of every device.
    #[serde(default)]
    pub mtu: Option<u32>,
    /// Of devices that have another.
    #[serde(default)]
    pub mtus: BTreeMap<Spanned<String>, u32>,
    /// Whether what passes is written to a file.
    #[serde(default)]
    pub capture: bool,
}

/// A program on a node, or on several.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Program {
    /// What it is called; the first word of what is run without.
    #[serde(default)]
    pub name: Option<Spanned<String>>,
    /// Where it runs.
    #[serde(default)]
    pub node: Option<Spanned<String>>,
    /// Where else it runs: once on each.
    #[serde(default)]
    pub nodes: Vec<Spanned<String>>,
    /// What a shell is given.
    pub run: Spanned<String>,
    /// When it is started, at the earliest.
    #[serde(default)]
    pub at: Span,
    /// Programs that have to be ready, or without a word for that at their end, before.
    #[serde(default)]
    pub after: Vec<Spanned<String>>,
    /// What it prints once others may use it.
    #[serde(default)]
    pub ready: Option<String>,
    /// How long it is tried again when it fails.
    #[serde(default)]
    pub retry: Option<Span>,
    /// Whether nobody waits for its end.
    #[serde(default)]
    pub background: bool,
}

/// What happens to a link, a segment or a node.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Event {
    /// When.
    pub at: Span,
    /// Programs that come before, as in [`Program::after`]; `at` counts from there.
    #[serde(default)]
    pub after: Vec<Spanned<String>>,
    /// A link or segment that loses its carrier.
    #[serde(default)]
    pub down: Option<Spanned<String>>,
    /// A link or segment that has it again.
    #[serde(default)]
    pub up: Option<Spanned<String>>,
    /// A node on which everything is killed.
    #[serde(default)]
    pub kill: Option<Spanned<String>>,
    /// A node whose router is started again.
    #[serde(default)]
    pub start: Option<Spanned<String>>,
}

/// What an event does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deed<'a> {
    /// A link or segment loses its carrier.
    Down(&'a str),
    /// A link or segment has it again.
    Up(&'a str),
    /// Everything on a node is killed.
    Kill(&'a str),
    /// A node's router is started again.
    Start(&'a str),
}

impl Event {
    /// What it does; none if the file was not checked.
    pub fn deed(&self) -> Option<Deed<'_>> {
        let down = self.down.as_ref().map(|name| Deed::Down(name.get_ref()));
        let up = self.up.as_ref().map(|name| Deed::Up(name.get_ref()));
        let kill = self.kill.as_ref().map(|name| Deed::Kill(name.get_ref()));
        let start = self.start.as_ref().map(|name| Deed::Start(name.get_ref()));
        down.or(up).or(kill).or(start)
    }
}

impl fmt::Display for Deed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Deed::Down(name) => write!(f, "{name} down"),
            Deed::Up(name) => write!(f, "{name} up"),
            Deed::Kill(name) => write!(f, "{name} killed"),
            Deed::Start(name) => write!(f, "{name} started"),
        }
    }
}

impl Program {
    /// Where it runs.
    pub fn places(&self) -> impl Iterator<Item = &Spanned<String>> {
        self.node.iter().chain(&self.nodes)
    }

    /// What it is called.
    pub fn title(&self) -> &str {
        let first = || self.run.get_ref().split_whitespace().next().unwrap_or("program");
        self.name.as_ref().map_or_else(first, |name| name.get_ref())
    }
}

/// A network of a testbed, whether link or segment.
#[derive(Clone, Debug, PartialEq)]
pub struct Network<'a> {
    /// What events call it.
    pub name: String,
    /// Who is on it.
    pub nodes: Vec<&'a str>,
    /// MTU of each node's device.
    pub mtus: Vec<u32>,
    /// What it is like.
    pub shape: Shape,
    /// Whether it is a bridge.
    pub is_segment: bool,
    /// Whether what passes is written to a file.
    pub capture: bool,
}

/// What a device's MTU is if nothing is said.
const MTU_OCTETS: u32 = 1500;

impl Testbed {
    /// Reads a testbed from a file.
    ///
    /// # Errors
    /// Why it cannot be used, with the line.
    pub fn load(path: &Path) -> Result<Self, FileError> {
        let refuse = |reason: String| FileError { path: path.to_owned(), line: None, reason };
        let size = std::fs::metadata(path).map_err(|e| refuse(e.to_string()))?.len();
        if size > FILE_OCTETS_MAX {
            return Err(refuse(format!("larger than {FILE_OCTETS_MAX} octets; is this a testbed?")));
        }
        let text = std::fs::read_to_string(path).map_err(|e| refuse(e.to_string()))?;
        Self::parse(&text, path)
    }

    /// Reads a testbed from `text`; `path` is what errors call it.
    ///
    /// # Errors
    /// Why it cannot be used, with the line.
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

    /// What it is called.
    pub fn name(&self) -> &str {
        self.testbed.name.as_deref().unwrap_or("testbed")
    }

    /// Links and then segments, in the order of the file. A network's place in it is in the
    /// addresses of its devices.
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

    /// How a node's router is run: what it says itself, else the defaults.
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

/// A file that cannot be used; the fault of whoever wrote it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileError {
    /// The file.
    pub path: PathBuf,
    /// The line, counted from 1, if there is one.
    pub line: Option<usize>,
    /// What is wrong and what is allowed.
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

impl std::error::Error for FileError {}
