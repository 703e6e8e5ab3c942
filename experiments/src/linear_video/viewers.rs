//! An audience as a process: one thread and one client of its own for each viewer, over TCP or over
//! names.

use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Uri, header};
use http_body_util::{BodyExt, Empty};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use namely_proxy::head::Head;
use namely_socket::{Consumer, ConsumerOptions};
use namely_wire::Name;
use tokio::runtime::Runtime;

use super::audience::{Habits, Source, ViewerCounters, watch};

/// Time for which a viewer waits for a playlist or a segment.
const PATIENCE: Duration = Duration::from_secs(10);

/// The source of an audience's channels.
#[derive(Clone, Debug)]
pub(crate) enum ChannelSource {
    /// An HTTP server, to which each viewer has its own connection.
    Http(SocketAddr),
    /// A router, at which each viewer has its own face.
    Names {
        /// The router's address.
        router: String,
        /// The name below which channels are, each by its host.
        prefix: Name,
    },
}

/// Runs `viewers` viewers to the end of their time.
pub(crate) fn run(viewers: u64, habits: Habits, via: &ChannelSource) -> Result<ViewerCounters, String> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|e| format!("cannot start threads: {e}"))?;
    let mut sources = Vec::new();
    for _ in 0..viewers {
        sources.push(source(via, &runtime)?);
    }
    let mut seen = ViewerCounters::default();
    thread::scope(|scope| {
        let watching: Vec<_> = (0..)
            .zip(&mut sources)
            .map(|(viewer, source)| scope.spawn(move || watch(viewer, &habits, source.as_mut())))
            .collect();
        for viewer in watching {
            seen.add(
                &viewer.join().map_err(|_| "a viewer ended by a fault of the program's own".to_owned())?,
            );
        }
        Ok::<_, String>(())
    })?;
    Ok(seen)
}

fn source<'a>(via: &ChannelSource, runtime: &'a Runtime) -> Result<Box<dyn Source + Send + 'a>, String> {
    Ok(match via {
        ChannelSource::Http(server) => {
            let client = Client::builder(TokioExecutor::new()).build(HttpConnector::new());
            Box::new(OverTcp { server: *server, client, runtime })
        }
        ChannelSource::Names { router, prefix } => {
            let mut options = ConsumerOptions { router: Some(router.clone()), ..ConsumerOptions::default() };
            options.timeout = Some(PATIENCE);
            let consumer = Consumer::bind(prefix.clone(), options).map_err(|e| e.to_string())?;
            Box::new(OverNames { prefix: prefix.clone(), consumer })
        }
    })
}

struct OverTcp<'a> {
    server: SocketAddr,
    client: Client<HttpConnector, Empty<Bytes>>,
    runtime: &'a Runtime,
}

impl Source for OverTcp<'_> {
    fn get(&mut self, channel: usize, path: &str) -> Option<Vec<u8>> {
        let uri: Uri = format!("http://{}/{channel}/{path}", self.server).parse().ok()?;
        let request = Request::get(uri).header(header::ACCEPT, "*/*").body(Empty::new()).ok()?;
        let whole = async {
            let response = self.client.request(request).await.ok()?;
            let found = response.status().is_success();
            let body = response.into_body().collect().await.ok()?.to_bytes();
            found.then(|| body.to_vec())
        };
        self.runtime.block_on(async { tokio::time::timeout(PATIENCE, whole).await.ok()? })
    }
}

struct OverNames {
    prefix: Name,
    consumer: Consumer,
}

impl Source for OverNames {
    fn get(&mut self, channel: usize, path: &str) -> Option<Vec<u8>> {
        let site = self.prefix.join_generic(format!("ch{channel}"));
        let name = path.split('/').fold(site, |name, part| name.join_generic(part));
        let mut object = self.consumer.fetch(&name).ok()?;
        let (head, body_at) = Head::decode(&object).ok()?;
        head.status.is_success().then(|| object.split_off(body_at))
    }
}
