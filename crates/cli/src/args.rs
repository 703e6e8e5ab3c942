//! The command line. Arguments of a command are defined beside its code.

use clap::{CommandFactory, Parser, Subcommand};

use crate::commands::*;
use crate::options::Global;

/// Named Data Networking: request data by name.
#[derive(Debug, Parser)]
#[command(
    name = "namely",
    version,
    about = "Named Data Networking: request data by name; the network finds it, caches it and proves its producer",
    after_help = EXAMPLES,
    help_template = crate::help::template(),
    max_term_width = 110,
    subcommand_required = true,
    arg_required_else_help = true
)]
pub struct Cli {
    /// Options of every command.
    #[command(flatten)]
    pub global: Global,
    /// The command.
    #[command(subcommand)]
    pub command: Command,
}

const EXAMPLES: &str = "Examples:
  namely demo                          a file through two routers, verified
  namely up                            start a router
  namely serve ./data --prefix /lab    publish a directory
  namely get /lab/run7.root            fetch a file by name and verify it

Exit status: 0 done, 1 failed, 2 wrong usage, 3 no router, 4 no such data, 5 no
answer in time, 6 not verified, 7 refused by the router, 69 and 78 as namelyd,
130 interrupted.";

/// Words of other programs, each with the hint to the command that does this here.
const USUAL_WORDS: [(&str, &str); 19] = [
    ("stop", "`namely down` stops the router"),
    ("start", "`namely up` starts a router"),
    ("run", "`namely up` starts a router"),
    ("list", "`namely ls NAME` lists a directory"),
    ("dir", "`namely ls NAME` lists a directory"),
    ("fetch", "`namely get NAME` fetches a file"),
    ("download", "`namely get NAME` fetches a file"),
    ("upload", "`namely put FILE NAME` publishes a file"),
    ("publish", "`namely serve DIR --prefix /NAME` publishes a directory"),
    ("share", "`namely serve DIR --prefix /NAME` publishes a directory"),
    ("traceroute", "`namely why NAME --trace` explains the way of a name, hop by hop"),
    ("cert list", "`namely cert trusted` lists the trusted certificates, `namely key list` your keys"),
    ("cert remove", "`namely cert distrust NAME` removes trust"),
    ("cert delete", "`namely cert distrust NAME` removes trust"),
    ("key show", "`namely cert show IDENTITY` shows the certificate of a key"),
    ("key remove", "`namely key delete NAME` deletes a key"),
    ("route show", "`namely route list` lists the routes"),
    ("route delete", "`namely route remove PREFIX` removes a route"),
    ("face delete", "`namely face destroy FACE` destroys a face"),
];

/// Returns the hint to the command for `words`, commands of other programs.
pub fn usual_command(words: &str) -> Option<&'static str> {
    USUAL_WORDS.into_iter().find(|(usual, _)| *usual == words).map(|(_, hint)| hint)
}

/// Returns the command that `word` probably means. The command differs in one letter, or in two if
/// the word has five letters or more. Clap's own measure finds no match for short words with two
/// letters swapped.
pub fn nearest(word: &str) -> Option<String> {
    let command = Cli::command();
    let names = command.get_subcommands().filter(|command| !command.is_hide_set());
    let distances = names.map(|of| (strsim::damerau_levenshtein(of.get_name(), word), of.get_name()));
    let allowed = if word.chars().count() < 5 { 1 } else { 2 };
    distances.min().filter(|(distance, _)| *distance <= allowed).map(|(_, name)| name.to_owned())
}

/// Returns the reason why the command `word` is missing, if this program was built without it.
pub fn left_out(word: &str) -> Option<String> {
    let built = [
        ("completions", "generate", cfg!(feature = "generate")),
        ("dashboard", "dashboard", cfg!(feature = "dashboard")),
        ("dissect", "dissect", cfg!(feature = "dissect")),
        ("man", "generate", cfg!(feature = "generate")),
        ("model", "model", cfg!(feature = "model")),
        ("mount", "mount", cfg!(feature = "mount")),
        ("proxy", "proxy", cfg!(feature = "proxy")),
        ("testbed", "testbed", cfg!(feature = "testbed")),
        ("top", "top", cfg!(feature = "top")),
    ];
    let (_, feature, _) = built.into_iter().find(|(command, _, is_built)| *command == word && !is_built)?;
    Some(format!(
        "this namely was built without `{word}`: rebuild it with its default features, or with --features {feature}"
    ))
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Serve a real file on one router and fetch it through another, verified
    Demo(demo::Demo),
    /// Start a router
    Up(up::Up),
    /// Stop the router that runs in the background
    Down(down::Down),
    /// Show the settings of a router, and how they differ from others
    #[command(subcommand)]
    Config(config::Settings),
    /// Publish a directory under a name
    Serve(serve::Serve),
    /// Fetch a file or a directory by name, verified
    Get(get::Get),
    /// Print files by name, verified
    Cat(cat::Cat),
    /// List a directory by name, verified
    Ls(ls::Ls),
    /// Show size, time and signer of a file or directory, verified
    Stat(ls::Stat),
    /// Mount a directory by name, read-only and verified
    #[cfg(feature = "mount")]
    Mount(mount::MountArgs),
    /// Publish a file or standard input under a name
    Put(put::Put),
    /// Carry HTTP over named data, so that caches on the path answer
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
    /// Send one Interest and print the answer
    Peek(peek::Peek),
    /// Answer one Interest with standard input
    Poke(poke::Poke),
    /// Wait until the router runs, and until prefixes are registered
    Wait(wait::Wait),
    /// Show the state of the router
    Status(status::Status),
    /// Show the router's current traffic, in the terminal
    #[cfg(feature = "top")]
    Top(top::Top),
    /// Show running routers on a web page
    #[cfg(feature = "dashboard")]
    Dashboard(dashboard::Dashboard),
    /// Explain how the router would forward a name now
    Why(why::Why),
    /// Show each packet below a prefix, and the router's decisions
    Trace(trace::Trace),
    /// List, create, change and destroy faces
    #[command(subcommand)]
    Face(face::Face),
    /// List the addresses that the router listens on
    #[command(subcommand)]
    Channel(channel::Channel),
    /// List the neighbors on the router's links
    Neighbors(neighbors::Neighbors),
    /// List, add and remove routes
    #[command(subcommand)]
    Route(route::Route),
    /// List and remove bindings: prefixes of applications below a route to `local`
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
    /// Manage certificates and trust anchors
    #[command(subcommand)]
    Cert(cert::Cert),
    /// Show packets as text, from hex, a file of packets or a capture
    #[cfg(feature = "dissect")]
    Dissect(dissect::Dissect),
    /// Run networks of routers on this machine, from a description in a file
    #[cfg(feature = "testbed")]
    #[command(subcommand)]
    Testbed(testbed::Bed),
    /// Compute the capacity and the loss of routers with content stores
    #[cfg(feature = "model")]
    #[command(subcommand)]
    Model(model::Model),
    /// Check and make catalogues of blocks and files, and names of CMS
    #[command(subcommand)]
    Catalogue(catalogue::Cat),
    /// Explain the terms of messages and pages
    Words(words::Words),
    /// Translate NFD's configuration to namelyd's
    Migrate(migrate::Migrate),
    /// Show the router's virtual plane of VIP: objects, next hops, neighbors
    #[command(subcommand)]
    Vip(vip::Vip),
    /// Print the version
    #[command(after_help = "Example:\n  namely version --json")]
    Version,
    /// Print completions of a command line, for shells
    #[command(hide = true)]
    Complete(complete::Complete),
    /// Print shell completions
    #[cfg(feature = "generate")]
    Completions(generate::Completions),
    /// Write the man pages to a directory
    #[cfg(feature = "generate")]
    Man(man::Man),
}

#[cfg(test)]
mod tests {
    use std::any::TypeId;

    use clap::{Arg, Command};
    use namely_wire::Name;

    use super::*;

    /// Returns every argument of type name, of every command.
    fn names(command: &Command, path: &str) -> Vec<(String, Arg)> {
        let is_name = |arg: &&Arg| arg.get_value_parser().type_id() == TypeId::of::<Name>();
        let path = format!("{path} {}", command.get_name());
        let own = command.get_arguments().filter(is_name);
        let mut found: Vec<_> = own.map(|arg| (format!("{path} {}", arg.get_id()), arg.clone())).collect();
        found.extend(command.get_subcommands().flat_map(|sub| names(sub, &path)));
        found
    }

    #[test]
    fn only_omitted_commands_are_reported_as_omitted() {
        for word in [
            "completions",
            "dashboard",
            "dissect",
            "man",
            "model",
            "mount",
            "proxy",
            "testbed",
            "top",
            "demo",
            "x",
        ] {
            let there = Cli::command().find_subcommand(word).is_some();
            assert_eq!(left_out(word).is_some(), !there && word != "x", "{word}");
        }
    }

    #[test]
    fn name_arguments_begin_with_a_slash() {
        let all = names(&Cli::command(), "");
        assert!(all.len() >= 25, "{}", all.len());
        for (path, arg) in all {
            // A command with this argument alone parses the text.
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

    #[test]
    fn a_mistyped_command_is_recognized() {
        let found = |word: &str| nearest(word);
        assert_eq!(found("gte").as_deref(), Some("get"));
        assert_eq!(found("statsu").as_deref(), Some("status"));
        assert_eq!(found("neighbours").as_deref(), Some("neighbors"));
        assert_eq!((found("xyz"), found("fetch")), (None, None));
    }

    #[test]
    fn usual_words_lead_to_commands() {
        for (words, hint) in USUAL_WORDS {
            let parse = |line: &str| {
                let words = line.split(' ').filter(|word| !word.is_empty());
                Cli::try_parse_from(["namely"].into_iter().chain(words)).err().map(|error| error.kind())
            };
            assert!(parse(words).is_some(), "{words} is a command already");
            let command = hint.split('`').nth(1).unwrap().strip_prefix("namely ").unwrap();
            assert_ne!(parse(command), Some(clap::error::ErrorKind::InvalidSubcommand), "{hint}");
        }
    }
}
