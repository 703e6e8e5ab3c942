//! A web page that shows routers while they work: what passes their faces, routes and strategies,
//! the content store, drops with what they mean, and what is below a name (docs/dashboard.md).
//!
//! It runs in a process of its own and is a client of each router, like every other: it reads
//! management's datasets while somebody looks, and streams what has changed to the page by
//! server-sent events. It never runs inside a router, never asks another host for a part of the
//! page, and changes a router only for who has its token.
//!
//! ```no_run
//! use namely_dashboard::{Dashboard, Options};
//!
//! let dashboard = Dashboard::start(Options::default())?;
//! println!("{}", dashboard.url());
//! # Ok::<(), namely_dashboard::StartError>(())
//! ```
#![forbid(unsafe_code)]

mod act;
mod answer;
mod connection;
mod counters;
mod explore;
mod feed;
mod guard;
mod look;
mod options;
mod page;
mod places;
mod reach;
mod server;
mod words;

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread;

use tokio::net::TcpListener;

use self::feed::Feed;
use self::guard::Guard;

pub use self::act::{ACTIONS_MAX, BODY_OCTETS_MAX};
pub use self::connection::SLOW_TIMEOUT;
pub use self::counters::Counters;
pub use self::explore::{ENTRIES_MAX, EXPLORATIONS_MAX, LISTING_OCTETS_MAX, PREVIEW_OCTETS_MAX};
pub use self::feed::{CHANGES_WAITING_MAX, STREAMS_FOR_TOKEN, STREAMS_MAX};
pub use self::look::{COUNTERS_MAX, FACES_MAX, OBJECTS_MAX, ROUTES_MAX, TEXT_CHARS_MAX};
pub use self::options::{Options, ROUTERS_MAX};
pub use self::places::{CONNECTIONS_FOR_TOKEN, CONNECTIONS_MAX};
pub use self::server::{REQUEST_OCTETS_MAX, REQUEST_TIMEOUT};
pub use self::words::{Meaning, meanings};

/// Why there is no page.
#[derive(Debug)]
pub enum StartError {
    /// Environment: the address cannot be listened on.
    Listen(SocketAddr, io::Error),
    /// Environment: the system has no room for its threads.
    Threads(io::Error),
    /// Environment: the system has no randomness for a token.
    Token,
    /// Caller: no router, or more than [`ROUTERS_MAX`].
    Routers(usize),
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StartError::Listen(address, error) => write!(f, "cannot listen on {address}: {error}"),
            StartError::Threads(error) => write!(f, "cannot start threads: {error}"),
            StartError::Token => f.write_str("the system has no randomness for a token"),
            StartError::Routers(0) => f.write_str("there is no router to show"),
            StartError::Routers(n) => write!(f, "{n} routers are more than the {ROUTERS_MAX} of one page"),
        }
    }
}

impl std::error::Error for StartError {}

/// A page that is served. Dropping it ends it.
#[derive(Debug)]
pub struct Dashboard {
    address: SocketAddr,
    guard: Arc<Guard>,
    counters: Arc<Counters>,
    feed: Arc<Feed>,
    /// None when it ends.
    runtime: Option<tokio::runtime::Runtime>,
}

impl Dashboard {
    /// Listens, and looks at the routers from when somebody watches.
    ///
    /// # Errors
    /// See [`StartError`]. A router that is not there is no error: the page says so.
    pub fn start(options: Options) -> Result<Self, StartError> {
        let routers = options.routers.len();
        if !(1..=ROUTERS_MAX).contains(&routers) {
            return Err(StartError::Routers(routers));
        }
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .max_blocking_threads(EXPLORATIONS_MAX + ACTIONS_MAX)
            .thread_name("namely-page")
            .enable_all()
            .build()
            .map_err(StartError::Threads)?;
        let failed = |error| StartError::Listen(options.listen, error);
        let listener = runtime.block_on(TcpListener::bind(options.listen)).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let guard = Guard::new(address, options.hosts.clone()).ok_or(StartError::Token)?;
        let (guard, counters) = (Arc::new(guard), Arc::new(Counters::default()));
        let feed = Feed::new(routers, counters.clone());
        let site = Arc::new(answer::Site::new(options, guard.clone(), feed.clone(), counters.clone()));
        for router in 0..routers {
            let site = site.clone();
            thread::Builder::new()
                .name(format!("look-{router}"))
                .spawn(move || look::look_on(&site.feed, router, &site.reach[router], site.interval))
                .map_err(StartError::Threads)?;
        }
        runtime.spawn(server::accept(listener, site));
        Ok(Dashboard { address, guard, counters, feed, runtime: Some(runtime) })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The page's address with the token, which a browser does not send to anybody.
    pub fn url(&self) -> String {
        format!("http://{}/#token={}", self.address, self.guard.token())
    }

    /// The token alone.
    pub fn token(&self) -> &str {
        self.guard.token()
    }

    /// Whether programs of other machines may come, so that reading needs the token, too.
    pub fn is_open_to_others(&self) -> bool {
        self.guard.reading_needs_token()
    }

    /// What was asked for, and what was refused.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }
}

impl Drop for Dashboard {
    fn drop(&mut self) {
        self.feed.stop();
        // What waits for a router's answer is not waited for.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
