//! Options of `links`.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, ValueEnum};

use crate::options::Repeats;

/// Options of `links`.
#[derive(Debug, Args)]
pub struct Links {
    /// The links to measure; all if not given
    #[arg(long, value_delimiter = ',')]
    pub link: Vec<Carrier>,
    /// MTUs of the network between the routers, octets
    #[arg(long, value_delimiter = ',', default_value = "1500,9000", value_parser = clap::value_parser!(u32).range(576..=9300))]
    pub mtu: Vec<u32>,
    /// Windows of the consumer: `default`, or a fixed number of packets
    #[arg(long, value_delimiter = ',', default_value = "default")]
    pub window: Vec<Window>,
    /// Size of the object, MiB [default: 256; with --quick 8]
    #[arg(long = "size", value_name = "MIB", value_parser = clap::value_parser!(u64).range(1..=4096))]
    pub size_mib: Option<u64>,
    /// Directory of objects, outputs and sockets; memory (/dev/shm) if not given
    #[arg(long)]
    pub dir: Option<PathBuf>,
    /// Number of runs, and form of the output.
    #[command(flatten)]
    pub repeats: Repeats,
}

impl Links {
    pub(super) fn object_octets(&self) -> u64 {
        self.size_mib.unwrap_or(if self.repeats.quick { 8 } else { 256 }) << 20
    }

    /// Returns the compared rows, each once. A link without a network between routers has no MTU,
    /// and a link without NDN has no window.
    pub(super) fn rows(&self) -> Vec<Row> {
        let wanted = |link: &Carrier| self.link.is_empty() || self.link.contains(link);
        let mut rows = Vec::new();
        for mtu in &self.mtu {
            for link in Carrier::value_variants().iter().copied().filter(wanted) {
                for window in &self.window {
                    let row = Row {
                        mtu: link.has_network().then_some(*mtu),
                        link,
                        window: if link.has_names() { *window } else { Window::Default },
                    };
                    if !rows.contains(&row) {
                        rows.push(row);
                    }
                }
            }
        }
        rows
    }
}

/// One row of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Row {
    pub(super) mtu: Option<u32>,
    pub(super) link: Carrier,
    pub(super) window: Window,
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.link.name())?;
        if let Some(mtu) = self.mtu {
            write!(f, ", MTU {mtu}")?;
        }
        if self.window == Window::Default { Ok(()) } else { write!(f, ", window {}", self.window) }
    }
}

/// The path between producer and consumer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Carrier {
    /// The kernel's TCP between two plain processes, without names: the network's ceiling.
    KernelTcp,
    /// Two routers with TCP between them.
    Tcp,
    /// Two routers with UDP between them.
    Udp,
    /// Two routers with Ethernet frames between them.
    Ether,
    /// One router, with both applications at its Unix socket.
    Unix,
}

impl Carrier {
    /// Returns the name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Carrier::KernelTcp => "kernel-tcp",
            Carrier::Tcp => "tcp",
            Carrier::Udp => "udp",
            Carrier::Ether => "ether",
            Carrier::Unix => "unix",
        }
    }

    pub(super) fn has_network(self) -> bool {
        self != Carrier::Unix
    }

    pub(super) fn has_names(self) -> bool {
        self != Carrier::KernelTcp
    }
}

/// Maximum number of outstanding Interests of a fetch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Window {
    /// The client's own choice.
    Default,
    /// A fixed number.
    Fixed(u16),
}

impl FromStr for Window {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.parse() {
            _ if text == "default" => Ok(Window::Default),
            Ok(packets @ 1..) => Ok(Window::Fixed(packets)),
            _ => Err("give `default`, or a number of packets, as in 64".to_owned()),
        }
    }
}

impl fmt::Display for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Window::Default => f.write_str("default"),
            Window::Fixed(packets) => packets.fmt(f),
        }
    }
}
