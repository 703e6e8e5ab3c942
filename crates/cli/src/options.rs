//! Global options, and types of values that several commands use.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

use clap::Args;
use namely_wire::Name;

/// Options of every command.
#[derive(Clone, Debug, Args)]
pub struct Global {
    /// The router to use: unix:///path, memif:///path, tcp://host:port, udp://host:port,
    /// ether://[address%interface], kernel:// or ndndpdk://host:port. Otherwise
    /// NDN_CLIENT_TRANSPORT, else the usual places.
    #[arg(long, global = true, env = "NAMELY_ROUTER", value_name = "URI", help_heading = "Global options")]
    pub router: Option<String>,
    /// Also trust the routers of these users on this machine (names or numbers, separated by
    /// commas), as your own and root's.
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
    /// Print no remarks and no progress bar; `get` prints nothing but errors.
    #[arg(long, short, global = true, help_heading = "Global options")]
    pub quiet: bool,
    /// Log more to standard error: -v events beside the command, -vv each step of the connection to
    /// the router, -vvv also each Interest, Data and Nack.
    #[arg(long, short, global = true, action = clap::ArgAction::Count, help_heading = "Global options")]
    pub verbose: u8,
}

impl Global {
    /// Returns the users whose routers are trusted, in addition to this user and root.
    pub fn trusted(&self) -> String {
        self.trust_router_of.clone().unwrap_or_default()
    }
}

/// Parses a name on the command line. The name must begin with a slash, so that a file or another
/// word is not read as a name.
///
/// # Errors
/// The fault, as text.
pub fn name(text: &str) -> Result<Name, String> {
    namely_daemon::parse_name(text)
}

/// Parses `HOST:PORT` with an address of this machine, or `:PORT` for all addresses.
pub fn address(text: &str) -> Result<SocketAddr, String> {
    let Some(port) = text.strip_prefix(':') else {
        return text.parse().map_err(|_| {
            format!("'{text}' is not an address to listen on: give 127.0.0.1:8080, [::1]:8080 or :8080")
        });
    };
    let port = port.parse().map_err(|_| format!("'{port}' is not a port"))?;
    // An IPv6 socket accepts both kinds of addresses, if the machine has IPv6.
    let all = Ipv6Addr::UNSPECIFIED;
    let is_there = UdpSocket::bind((all, 0)).is_ok();
    Ok(if is_there { (all, port).into() } else { (Ipv4Addr::UNSPECIFIED, port).into() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listen_address_may_omit_the_host() {
        assert_eq!(address("127.0.0.1:8090"), Ok(([127, 0, 0, 1], 8090).into()));
        assert_eq!(address("[::1]:8090").map(|address| address.port()), Ok(8090));
        let all = address(":8090").unwrap();
        assert!(all.ip().is_unspecified() && all.port() == 8090, "{all}");
        assert!([":", ":x", ":70000", "8090", "localhost:1"].iter().all(|text| address(text).is_err()));
    }
}
