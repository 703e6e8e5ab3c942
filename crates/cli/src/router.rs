//! The router that a command connects to, and messages for its errors.

use std::time::{Duration, Instant};

use clap::Args;
use namely_client::{Client, ClientError, Upstream, default_signer};
use namely_messages::status_code;
use namely_nnet::Control;
use namely_security::Signer;
use namely_transport::connection::{CommandError, Connection, ConnectionError, Options, Reachability};
use namely_wire::text::Plain;
use namely_wire::{FaceUri, NackReason, Name};

use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::others;

/// Interval of connection attempts while waiting for a router.
const LOOK: Duration = Duration::from_millis(100);

/// Number of next hops in the message about a missing route behind them.
const ROUTERS_SHOWN: usize = 3;

/// Connects to the management of the selected router.
pub fn connect(ctx: &Context<'_>) -> Result<Client, Failure> {
    connect_as(ctx, default_signer())
}

/// Connects to the management of the selected router. `signer` signs the commands.
pub fn connect_as(ctx: &Context<'_>, signer: Signer) -> Result<Client, Failure> {
    let connection = open_once(ctx, signer)?;
    if *connection.uri() == FaceUri::Kernel {
        return Err(Failure::new(
            Exit::Refused,
            "the kernel's forwarder does not support the management protocol",
        )
        .hint("use `namely kernel`, or name another router with --router"));
    }
    Ok(Client::over(connection))
}

/// Opens a connection to the selected router, for commands to it.
fn open_once(ctx: &Context<'_>, signer: Signer) -> Result<Connection, Failure> {
    open(ctx, Options { reconnect: Duration::ZERO, signer, ..Options::default() })
}

/// Returns the prefixes that programs have registered or bound, and those with routes.
pub fn known_prefixes(ctx: &Context<'_>) -> Result<Vec<Name>, Failure> {
    let connection = open_once(ctx, default_signer())?;
    if *connection.uri() == FaceUri::Kernel {
        let mut kernel = Control::open()?;
        let routes = kernel.routes()?.into_iter().map(|route| route.prefix);
        return Ok(routes.chain(kernel.bindings()?.into_iter().map(|binding| binding.prefix)).collect());
    }
    let mut router = Client::over(connection);
    let routes = router.rib()?.into_iter().map(|entry| entry.prefix);
    // Other routers than namely's have no bindings.
    let bound = router.bindings().unwrap_or_default().into_iter().map(|binding| binding.prefix);
    Ok(routes.chain(bound).collect())
}

/// Opens a connection to the selected router.
pub fn open(ctx: &Context<'_>, options: Options) -> Result<Connection, Failure> {
    let options = Options { trust_router_of: ctx.global.trusted(), ..options };
    Connection::find(ctx.global.router.as_deref(), options).map_err(connection_failure)
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Self {
        let exit = match error {
            ClientError::Connection(error) => return connection_failure(error),
            ClientError::Command(error) => return command_failure(error),
            ClientError::Refused(_) => Exit::NotFound,
            ClientError::NoAnswer => Exit::Timeout,
            ClientError::NoSuchFace(_) => {
                return Failure::new(Exit::NotFound, error.to_string())
                    .hint("`namely face list` shows the faces");
            }
            _ => Exit::Failed,
        };
        Failure { hint: error.hint().map(Into::into), ..Failure::new(exit, error.to_string()) }
    }
}

/// How long a command that serves waits for its router.
#[derive(Clone, Copy, Debug, Args)]
pub struct RouterWait {
    /// How long to wait for a router, s: at the start, and when the connection is lost.
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    wait_router: u64,
}

impl RouterWait {
    /// Opens a connection to the selected router, and waits for the router; `None` if `go_on`
    /// returns false first.
    pub fn open(
        self,
        ctx: &Context<'_>,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<Option<Connection>, Failure> {
        let wait = Duration::from_secs(self.wait_router);
        let end = Instant::now() + wait;
        let mut is_reported = false;
        while go_on() {
            let options =
                Options { signer: default_signer(), trust_router_of: ctx.global.trusted(), reconnect: wait };
            let none = match Connection::find(ctx.global.router.as_deref(), options) {
                Ok(connection) => return Ok(Some(connection)),
                Err(ConnectionError::NoRouter(none)) if !none.is_strangers() && Instant::now() < end => none,
                Err(error) => return Err(connection_failure(error)),
            };
            if !std::mem::replace(&mut is_reported, true) {
                ctx.out.remark(format!("{none}; waiting {} s for it: {}", wait.as_secs(), none.hint()));
            }
            std::thread::sleep(LOOK);
        }
        Ok(None)
    }
}

/// Converts a failure to reach a router.
pub fn connection_failure(error: ConnectionError) -> Failure {
    let exit = match &error {
        ConnectionError::NoRouter(_) | ConnectionError::Lost { .. } | ConnectionError::BadRouter(_) => {
            Exit::NoRouter
        }
        ConnectionError::BadInterest(_) | ConnectionError::System(_) => Exit::Failed,
    };
    let others = match &error {
        ConnectionError::NoRouter(none) if none.is_nowhere() => others::hint(),
        _ => None,
    };
    let hint = error.hint().map(|hint| match (&error, others) {
        (ConnectionError::NoRouter(_), Some(others)) => others,
        (ConnectionError::NoRouter(_), None) => format!("{hint} with --router"),
        _ => hint.to_owned(),
    });
    Failure { hint, ..Failure::new(exit, error.to_string()) }
}

/// Converts a failed command.
pub fn command_failure(error: CommandError) -> Failure {
    match error {
        CommandError::Connection(error) => connection_failure(error),
        CommandError::Refused(response) => {
            let exit = if response.code == status_code::NOT_FOUND { Exit::NotFound } else { Exit::Refused };
            let failure = Failure::new(
                exit,
                format!("the router refused: {} ({})", Plain::quotation(&response.text), response.code),
            );
            match response.code {
                401 | 403 => failure.hint(
                    "use the router's Unix socket, or sign with a key it trusts: `namely why --manage`, or \
                     `--register PREFIX`, shows the missing right",
                ),
                status_code::CONFLICT => failure
                    .hint("`namely bind list` lists the bound prefixes, `namely face list` their faces"),
                _ => failure,
            }
        }
        CommandError::NoAnswer => {
            let hint = error.hint().map(Into::into);
            Failure { hint, ..Failure::new(Exit::Timeout, error.to_string()) }
        }
        CommandError::NotBound(ref why) => {
            Failure { hint: why.hint().map(Into::into), ..Failure::new(Exit::Refused, error.to_string()) }
        }
        CommandError::Nack(_) => {
            let hint = error.hint().map(Into::into);
            Failure { hint, ..Failure::new(Exit::Refused, error.to_string()) }
        }
        other => Failure::failed(other.to_string()),
    }
}

/// Replaces the message about a missing route, if the router has a route to the name: the Nack then
/// came from behind that route. Without an answer of the router, the message stays.
pub fn explain_no_route(ctx: &Context<'_>, failure: Failure) -> Failure {
    let Some(name) = failure.unrouted.clone() else { return failure };
    let Ok(connection) = open_once(ctx, default_signer()) else { return failure };
    if !is_on_this_host(connection.uri()) {
        return failure;
    }
    match Client::over(connection).upstream(&name) {
        Ok(upstream) => by_upstream(failure, &name, &upstream),
        Err(_) => failure,
    }
}

/// Returns true for a router that treats this program as local, so that it reports its tables.
/// Another one would let the failed command wait in vain for an answer. To a router, each UDP face
/// leads to another host.
fn is_on_this_host(router: &FaceUri) -> bool {
    let is_loopback = || router.address().is_some_and(|address| address.ip().is_loopback());
    match router {
        FaceUri::Unix(_) | FaceUri::Memif { .. } => true,
        FaceUri::Tcp(_) => is_loopback(),
        _ => false,
    }
}

fn by_upstream(failure: Failure, name: &Name, upstream: &Upstream) -> Failure {
    let parent = name.as_name().without_last(1);
    let instead = |message: String| Failure { message, ..failure.clone() };
    let mistake = || match name.components().any(|component| component.version().is_some()) {
        true => "there is no such version, or no longer: request the name without `v=`".to_owned(),
        false => format!("check the spelling: `namely ls {parent}` lists the names beside it"),
    };
    match upstream {
        Upstream::None => failure,
        Upstream::Unbound(prefix) => failure.hint(format!(
            "{prefix} leads to the applications of the router's host, and none of them has bound {name} or a \
             prefix of it: `namely bind list` lists the bindings"
        )),
        Upstream::Application(prefix) => {
            instead(format!("no route to {name}: the program that serves {prefix} refuses it"))
                .hint(mistake())
        }
        Upstream::Routers(uris) => {
            let shown = uris.iter().take(ROUTERS_SHOWN).map(|uri| Plain::new(uri).to_string());
            let shown = shown.collect::<Vec<_>>().join(" and ");
            instead(format!("no route to {name}: a router behind {shown} knows no route")).hint(format!(
                "`namely why {name} --trace` follows it hop by hop and finds a loop; or {}",
                mistake()
            ))
        }
    }
}

/// Remarks that no Interests reach a prefix yet, or that other applications receive some of them.
pub fn remark_on_reach(ctx: &Context<'_>, router: &FaceUri, prefix: &Name, reach: Reachability) {
    if reach == Reachability::NoRouteYet {
        let command = if *router == FaceUri::Kernel { "namely kernel route" } else { "namely route" };
        ctx.out.remark(format!(
            "{prefix} is bound, but no route leads there, so no Interests arrive; the router's \
             operator adds one with `{command} add PREFIX local`, where PREFIX is {prefix} or a prefix of it"
        ));
    }
    if reach == Reachability::Shared {
        ctx.out.remark(format!(
            "another program serves {prefix} on this router, too, and receives a part of the Interests: \
             `namely route list` and `namely face list` show which"
        ));
    }
}

/// Returns the hint for a missing answer.
pub fn why_hint(name: impl std::fmt::Display) -> String {
    format!("`namely why {name}` shows how the router handles it")
}

/// Converts a refused Interest.
pub fn nack_failure(name: &Name, reason: NackReason) -> Failure {
    match reason {
        NackReason::NoRoute => Failure::new(Exit::NotFound, format!("no route to {name}"))
            .hint(format!(
                "`namely why {name}` shows what the router knows; add a route with `namely route add`, to the \
                 kernel's forwarder with `namely kernel route add`"
            ))
            .unrouted(name),
        NackReason::Congestion => {
            Failure::new(Exit::Timeout, format!("the network is congested: routers refused {name}"))
                .hint("try again later")
        }
        NackReason::Duplicate => {
            Failure::new(Exit::NotFound, format!("{name} was refused: routers forward it in a loop"))
                .hint(format!("`namely why {name} --trace` finds the loop"))
        }
        reason => Failure::new(Exit::NotFound, format!("{name} was refused: Nack {reason}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(uri: &str, upstream: &Upstream) -> Failure {
        let name: Name = uri.parse().unwrap();
        by_upstream(nack_failure(&name, NackReason::NoRoute), &name, upstream)
    }

    #[test]
    fn only_local_routers_are_queried_again() {
        let is = |uri: &str| is_on_this_host(&uri.parse().unwrap());
        assert!(is("unix:///run/x.sock") && is("tcp4://127.0.0.1:6363") && is("tcp6://[::1]:6363"));
        assert!(!is("udp4://127.0.0.1:6363") && !is("tcp4://192.0.2.1:6363") && !is("kernel://"));
    }

    #[test]
    fn each_missing_route_names_its_place() {
        let lab: Name = "/lab".parse().unwrap();
        let routers = Upstream::Routers(vec!["udp4://127.0.0.1:6402".into(), "tcp4://a\u{1b}:1".into()]);
        for (uri, upstream, message, hint) in [
            ("/lab/x", Upstream::None, "no route to /lab/x", "namely route add"),
            ("/lab/x", Upstream::Unbound(lab.clone()), "no route to /lab/x", "bind list"),
            (
                "/lab/x",
                Upstream::Application(lab.clone()),
                "no route to /lab/x: the program that serves /lab refuses it",
                "`namely ls /lab` lists",
            ),
            (
                "/lab/x/v=1",
                Upstream::Application(lab),
                "no route to /lab/x/v=1: the program that serves /lab refuses it",
                "no such version",
            ),
            (
                "/far/x/v=1",
                routers.clone(),
                "no route to /far/x/v=1: a router behind udp4://127.0.0.1:6402 and tcp4://a\\u{1b}:1 knows no route",
                "no such version",
            ),
            (
                "/far/Data",
                routers,
                "no route to /far/Data: a router behind udp4://127.0.0.1:6402 and tcp4://a\\u{1b}:1 knows no route",
                "`namely why /far/Data --trace`",
            ),
        ] {
            let failure = refused(uri, &upstream);
            assert_eq!((failure.exit, failure.message.as_str()), (Exit::NotFound, message));
            let found = failure.hint.unwrap_or_default();
            assert!(found.contains(hint), "{message}: {found}");
            let adds = found.contains("route add");
            assert_eq!(adds, upstream == Upstream::None, "a route is there: {found}");
        }
        let looped = nack_failure(&"/loop/x".parse().unwrap(), NackReason::Duplicate);
        assert!(looped.message.ends_with("in a loop") && looped.unrouted.is_none());
    }
}
