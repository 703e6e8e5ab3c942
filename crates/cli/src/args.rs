//! The command line: what every command takes. Each command's own arguments stand beside its code.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

use clap::{Args, Parser, Subcommand};
use namely_wire::Name;

use crate::commands::*;

/// Named Data Networking: ask for data by name.
#[derive(Debug, Parser)]
#[command(
    name = "namely",
    version,
    about = "Named Data Networking: ask for data by name; the network finds it, caches it and proves who made it",
    after_help = EXAMPLES,
    max_term_width = 110,
    subcommand_required = true,
    arg_required_else_help = true
)]
pub struct Cli {
    /// What every command takes.
    #[command(flatten)]
    pub global: Global,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

const EXAMPLES: &str = "Examples:
  namely demo                          a file through two routers, verified, nothing to set up
  namely up                            start a router
  namely serve ./data --prefix /lab    publish a directory
  namely get /lab/run7.root            fetch a file by name and verify it

Exit status: 0 done, 1 failed, 2 wrong usage, 3 no router, 4 no such data, 5 no answer in time,
6 not verified, 7 refused by the router, 69 and 78 as namelyd, 130 interrupted.";

/// Options of every command.
#[derive(Clone, Debug, Args)]
pub struct Global {
    /// The router to use: unix:///path, memif:///path, tcp://host:port, udp://host:port,
    /// ether://[address%interface], kernel:// or ndndpdk://host:port. Otherwise
    /// NDN_CLIENT_TRANSPORT, else the usual places.
    #[arg(long, global = true, env = "NAMELY_ROUTER", value_name = "URI", help_heading = "Global options")]
    pub router: Option<String>,
    /// Users (names or numbers, with commas between them) whose routers on this machine are trusted
    /// as your own and root's are.
    #[arg(
        long,
        global = true,
        env = "NAMELY_TRUST_ROUTER_OF",
        value_name = "USERS",
        help_heading = "Global options"
    )]
    pub trust_router_of: Option<String>,
    /// Print answers as JSON, one object a line.
    #[arg(long, global = true, help_heading = "Global options")]
    pub json: bool,
    /// Print no remarks and no progress.
    #[arg(long, short, global = true, help_heading = "Global options")]
    pub quiet: bool,
    /// Say more on standard error: -v what happens beside the command, -vv each step of the
    /// connection to the router, -vvv also each Interest, Data and Nack.
    #[arg(long, short, global = true, action = clap::ArgAction::Count, help_heading = "Global options")]
    pub verbose: u8,
}

impl Global {
    /// Users whose routers are trusted too.
    pub fn trusted(&self) -> String {
        self.trust_router_of.clone().unwrap_or_default()
    }
}

/// A name on the command line. It begins with a slash, so that a file or a word that was forgotten
/// is not taken for one.
///
/// # Errors
/// What is wrong with it, in words.
pub fn name(text: &str) -> Result<Name, String> {
    namely_daemon::parse_name(text)
}

/// `HOST:PORT` of an address of this machine, or `:PORT` for all of them.
pub fn address(text: &str) -> Result<SocketAddr, String> {
    let Some(port) = text.strip_prefix(':') else {
        return text.parse().map_err(|_| {
            format!("'{text}' is no address to listen on: give 127.0.0.1:8080, [::1]:8080 or :8080")
        });
    };
    let port = port.parse().map_err(|_| format!("'{port}' is no port"))?;
    // A socket of IPv6 takes both, where there is IPv6.
    let all = Ipv6Addr::UNSPECIFIED;
    let is_there = UdpSocket::bind((all, 0)).is_ok();
    Ok(if is_there { (all, port).into() } else { (Ipv4Addr::UNSPECIFIED, port).into() })
}

/// Why there is no command called `word`, where this program was built without it.
pub fn left_out(word: &str) -> Option<String> {
    let built = [
        ("completions", "generate", cfg!(feature = "generate")),
        ("dashboard", "dashboard", cfg!(feature = "dashboard")),
        ("dissect", "dissect", cfg!(feature = "dissect")),
        ("man", "generate", cfg!(feature = "generate")),
        ("model", "model", cfg!(feature = "model")),
        ("proxy", "proxy", cfg!(feature = "proxy")),
        ("testbed", "testbed", cfg!(feature = "testbed")),
        ("top", "top", cfg!(feature = "top")),
    ];
    let (_, feature, _) = built.into_iter().find(|(command, _, is_built)| *command == word && !is_built)?;
    Some(format!(
        "this namely was built without `{word}`: build it with its default features, or with --features {feature}"
    ))
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Serve a real file on one router and fetch it through another, verified
    Demo(demo::Demo),
    /// Start a router
    Up(up::Up),
    /// Publish a directory under a name
    Serve(serve::Serve),
    /// Fetch a file or a directory by name, verified
    Get(get::Get),
    /// List a directory by name, verified
    Ls(ls::Ls),
    /// Show size, time and signer of what a name stands for, verified
    Stat(ls::Stat),
    /// Publish a file or standard input under a name
    Put(put::Put),
    /// Carry HTTP through named data, so that caches on the way answer
    #[cfg(feature = "proxy")]
    #[command(subcommand)]
    Proxy(proxy::Proxy),
    /// Measure the round trip to a name
    Ping(ping::Ping),
    /// Answer pings under a prefix
    Pingserver(pingserver::Pingserver),
    /// Measure throughput and latency through a router with generated load
    #[command(subcommand)]
    Perf(perf::Perf),
    /// Send one Interest and print what answers
    Peek(peek::Peek),
    /// Answer one Interest with standard input
    Poke(poke::Poke),
    /// Wait until the router is there, and until names can be asked for
    Wait(wait::Wait),
    /// Show what the router is doing
    Status(status::Status),
    /// Show what passes through the router just now, in the terminal
    #[cfg(feature = "top")]
    Top(top::Top),
    /// Show routers while they work on a web page
    #[cfg(feature = "dashboard")]
    Dashboard(dashboard::Dashboard),
    /// Say what the router would do with a name now, and why
    Why(why::Why),
    /// Show what becomes of each packet below a prefix
    Trace(trace::Trace),
    /// List, create, change and destroy faces
    #[command(subcommand)]
    Face(face::Face),
    /// List where the router listens
    #[command(subcommand)]
    Channel(channel::Channel),
    /// List who is on the links of the router
    Neighbors(neighbors::Neighbors),
    /// List, add and remove routes
    #[command(subcommand)]
    Route(route::Route),
    /// List and undo bindings: prefixes of applications below what a route leads to `local`
    #[command(subcommand)]
    Bind(bind::Bind),
    /// List, set and unset forwarding strategies
    #[command(subcommand)]
    Strategy(strategy::Strategy),
    /// Show, configure and erase the content store
    #[command(subcommand)]
    Cs(cs::Cs),
    /// Load, show and configure the forwarder in the kernel
    #[command(subcommand)]
    Kernel(kernel::Kernel),
    /// Manage your keys
    #[command(subcommand)]
    Key(key::Key),
    /// Manage certificates and whom you trust
    #[command(subcommand)]
    Cert(cert::Cert),
    /// Show packets as text, from hex, a file of packets or a capture
    #[cfg(feature = "dissect")]
    Dissect(dissect::Dissect),
    /// Run networks of routers on this machine, as a file describes them
    #[cfg(feature = "testbed")]
    #[command(subcommand)]
    Testbed(testbed::Bed),
    /// Work out what a router with a content store can take, or lose
    #[cfg(feature = "model")]
    #[command(subcommand)]
    Model(model::Model),
    /// Check and make catalogues of blocks and files, and names of CMS
    #[command(subcommand)]
    Catalogue(catalogue::Cat),
    /// Print what NFD's configuration is as namelyd's
    Migrate(migrate::Migrate),
    /// Show what the router's virtual plane of VIP keeps, directs and hears
    #[command(subcommand)]
    Vip(vip::Vip),
    /// Print the version
    #[command(after_help = "Example:\n  namely version --json")]
    Version,
    /// Print what may stand at the end of a command line, for shells
    #[command(hide = true)]
    Complete(complete::Complete),
    /// Print shell completions
    #[cfg(feature = "generate")]
    Completions(generate::Completions),
    /// Write the man pages to a directory
    #[cfg(feature = "generate")]
    Man(generate::Man),
}

#[cfg(test)]
mod tests {
    use std::any::TypeId;

    use clap::{Arg, Command, CommandFactory};

    use super::*;

    /// Every argument of every command that is a name.
    fn names(command: &Command, path: &str) -> Vec<(String, Arg)> {
        let is_name = |arg: &&Arg| arg.get_value_parser().type_id() == TypeId::of::<Name>();
        let path = format!("{path} {}", command.get_name());
        let own = command.get_arguments().filter(is_name);
        let mut found: Vec<_> = own.map(|arg| (format!("{path} {}", arg.get_id()), arg.clone())).collect();
        found.extend(command.get_subcommands().flat_map(|sub| names(sub, &path)));
        found
    }

    #[test]
    fn an_address_to_listen_on_may_be_a_port_of_all() {
        assert_eq!(address("127.0.0.1:8090"), Ok(([127, 0, 0, 1], 8090).into()));
        assert_eq!(address("[::1]:8090").map(|address| address.port()), Ok(8090));
        let all = address(":8090").unwrap();
        assert!(all.ip().is_unspecified() && all.port() == 8090, "{all}");
        assert!([":", ":x", ":70000", "8090", "localhost:1"].iter().all(|text| address(text).is_err()));
    }

    #[test]
    fn a_command_that_was_left_out_is_said_to_be_and_no_other_is() {
        for word in
            ["completions", "dashboard", "dissect", "man", "model", "proxy", "testbed", "top", "demo", "x"]
        {
            let there = Cli::command().find_subcommand(word).is_some();
            assert_eq!(left_out(word).is_some(), !there && word != "x", "{word}");
        }
    }

    #[test]
    fn every_command_takes_names_that_begin_with_a_slash_and_no_others() {
        let all = names(&Cli::command(), "");
        assert!(all.len() >= 25, "{}", all.len());
        for (path, arg) in all {
            // The same parser, alone.
            let alone = Arg::new("name").value_parser(arg.get_value_parser().clone()).required(true);
            let parse = |text: &str| {
                let command = Command::new("x").arg(alone.clone());
                command.try_get_matches_from(["x", text]).map_err(|error| error.to_string())
            };
            for text in ["/lab/x", "/", "ndn:/lab/x"] {
                parse(text).unwrap_or_else(|error| panic!("{path}: {text}: {error}"));
            }
            for text in ["lab/x", "x", ""] {
                let why = parse(text).expect_err(&path);
                assert!(why.contains("begins with a slash") || text.is_empty(), "{path}: {why}");
            }
        }
    }
}
