//! Options that every command takes, and values that several commands take.

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
    /// Users with trusted routers, beside this user and root.
    pub fn trusted(&self) -> String {
        self.trust_router_of.clone().unwrap_or_default()
    }
}

/// A name on the command line. It begins with a slash, so that a file or a word that was forgotten
/// is not taken for one.
///
/// # Errors
/// The fault, as text.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_to_listen_on_may_be_a_port_of_all() {
        assert_eq!(address("127.0.0.1:8090"), Ok(([127, 0, 0, 1], 8090).into()));
        assert_eq!(address("[::1]:8090").map(|address| address.port()), Ok(8090));
        let all = address(":8090").unwrap();
        assert!(all.ip().is_unspecified() && all.port() == 8090, "{all}");
        assert!([":", ":x", ":70000", "8090", "localhost:1"].iter().all(|text| address(text).is_err()));
    }
}
