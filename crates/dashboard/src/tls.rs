//! TLS for clients of other machines: handshakes on a thread of their own, and the answer to
//! clients that speak HTTP without TLS.
//!
//! A handshake computes a signature, and every program that reaches the port can request one. So
//! the thread that serves the pages computes none. A connection has its slot before its handshake,
//! so that handshakes count as connections.

use std::net::Shutdown;
use std::sync::Arc;
use std::time::Duration;

use rustls::ServerConfig;
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::Counters;
use crate::certificate::{CertificateError, CertificateFiles, CertificateStore};
use crate::connection::{Connection, SLOW_TIMEOUT};
use crate::server::REQUEST_OCTETS_MAX;

/// Time for the TLS handshake of a dashboard's client.
///
/// # Limit
/// The connection is closed.
/// - Counter: `slow`
/// - Tests: `half_a_handshake_times_out`
pub const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// The answer to a request without TLS.
const PLAIN: &[u8] = b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nContent-Length: 57\r\n\
    Connection: close\r\n\r\nThis port serves HTTPS: begin the address with https://.\n";

/// The certificate, and the thread of handshakes.
#[derive(Debug)]
pub(crate) struct Tls {
    pub(crate) certificates: Arc<CertificateStore>,
    config: Arc<ServerConfig>,
    handshakes: Handle,
    slow_timeout: Duration,
}

/// The reason for which a connection has no TLS.
#[derive(Debug, thiserror::Error)]
enum HandshakeFault {
    /// Peer: it speaks HTTP, and has the answer.
    #[error("a request by HTTP")]
    Plain,
    /// Peer: it ended the connection, sent no TLS, or offered nothing that the server has.
    #[error(transparent)]
    Failed(#[from] std::io::Error),
}

impl Tls {
    /// Opens the certificate. Handshakes run on `handshakes`.
    pub(crate) fn open(files: CertificateFiles, handshakes: Handle) -> Result<Self, CertificateError> {
        let path = files.certificate.clone();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let certificates = Arc::new(CertificateStore::open(files, provider.clone())?);
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(|error| CertificateError::Unusable(path, error))?
            .with_no_client_auth()
            .with_cert_resolver(certificates.clone());
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        // No session is resumed: a page has few connections, and the server keeps no secret of past
        // ones.
        config.session_storage = Arc::new(rustls::server::NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        let slow_timeout = SLOW_TIMEOUT;
        Ok(Tls { certificates, config: Arc::new(config), handshakes, slow_timeout })
    }

    /// Returns the encrypted connection; `None` if the handshake failed or took longer than
    /// `timeout`. A dropped future ends the handshake.
    pub(crate) async fn negotiate(
        &self,
        stream: TcpStream,
        counters: &Arc<Counters>,
        timeout: Duration,
    ) -> Option<TlsStream<Connection>> {
        let (acceptor, counted) = (TlsAcceptor::from(self.config.clone()), counters.clone());
        let slow_timeout = self.slow_timeout;
        let negotiation = async move {
            refuse_http(&stream).await?;
            let accepted = acceptor.accept(Connection::new(stream, counted, slow_timeout)).await;
            accepted.map_err(HandshakeFault::Failed)
        };
        // The set ends its task when it is dropped.
        let mut tasks = JoinSet::new();
        tasks.spawn_on(tokio::time::timeout(timeout, negotiation), &self.handshakes);
        match tasks.join_next().await?.ok()? {
            Ok(Ok(connection)) => return Some(connection),
            Ok(Err(fault)) => {
                Counters::count(&counters.refused_handshake);
                tracing::debug!(%fault, "a client's handshake failed");
            }
            Err(_) => Counters::count(&counters.slow),
        }
        None
    }
}

/// Makes the thread of handshakes. Others run first: a flood of handshakes delays handshakes only.
pub(crate) fn handshake_thread() -> std::io::Result<Runtime> {
    let yields = || {
        if let Err(error) = namely_host::yield_on_wakeup() {
            tracing::debug!(%error, "the thread of handshakes keeps its time slice");
        }
    };
    Builder::new_multi_thread()
        .worker_threads(1)
        .max_blocking_threads(1)
        .thread_name("namely-tls")
        .on_thread_start(yields)
        .enable_time()
        .build()
}

/// Answers a client that speaks HTTP. Others have sent or will send a record of TLS.
async fn refuse_http(stream: &TcpStream) -> Result<(), HandshakeFault> {
    let mut first = [0];
    let octets = stream.peek(&mut first).await?;
    // A record of TLS begins with its type, 22 (RFC 8446, 5.1); a request of HTTP with a method.
    if octets == 1 && first[0].is_ascii_alphabetic() {
        answer_plain(stream).await?;
        return Err(HandshakeFault::Plain);
    }
    Ok(())
}

/// Sends the answer to a request without TLS, and reads the request. The system would discard the
/// answer if octets were left unread.
async fn answer_plain(stream: &TcpStream) -> std::io::Result<()> {
    stream.writable().await?;
    stream.try_write(PLAIN)?;
    socket2::SockRef::from(stream).shutdown(Shutdown::Write)?;
    let mut octets = [0; 1024];
    let mut left = REQUEST_OCTETS_MAX;
    while left > 0 {
        stream.readable().await?;
        match stream.try_read(&mut octets) {
            Ok(0) => break,
            Ok(read) => left = left.saturating_sub(read),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::io::{Read, Write};
    use std::pin::Pin;
    use std::sync::atomic::Ordering;

    use namely_testkit::SelfSigned;
    use rustls::pki_types::CertificateDer;
    use rustls::pki_types::pem::PemObject;
    use rustls::{ClientConfig, ClientConnection, RootCertStore};
    use tokio::io::AsyncWrite;
    use tokio::net::TcpListener;

    use super::*;

    /// The first flight of a client that trusts this certificate.
    fn client_hello(certificate: &std::path::Path) -> ClientConnection {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(certificate).unwrap()).unwrap();
        let provider = rustls::crypto::aws_lc_rs::default_provider();
        let config = ClientConfig::builder_with_provider(provider.into())
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        ClientConnection::new(config.into(), "lab.example".try_into().unwrap()).unwrap()
    }

    fn open(files: &SelfSigned, handshakes: &Runtime) -> Tls {
        let named = CertificateFiles { certificate: files.certificate.clone(), key: files.key.clone() };
        Tls::open(named, handshakes.handle().clone()).unwrap()
    }

    /// Negotiates with a client that sends the whole handshake, or a half of its first flight.
    /// Returns true if the handshake succeeded, and the number of slow clients.
    fn negotiated(files: &SelfSigned, is_whole: bool, timeout: Duration) -> (bool, u64) {
        let handshakes = handshake_thread().unwrap();
        let tls = open(files, &handshakes);
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        let counters = Arc::new(Counters::default());
        let counted = counters.clone();
        let server = runtime.spawn(async move {
            let (stream, _) = listener.accept().await.unwrap();
            tls.negotiate(stream, &counted, timeout).await.is_some()
        });
        let mut stream = std::net::TcpStream::connect(address).unwrap();
        let mut client = client_hello(&files.certificate);
        if is_whole {
            client.complete_io(&mut stream).unwrap();
        } else {
            let mut flight = Vec::new();
            client.write_tls(&mut flight).unwrap();
            stream.write_all(&flight[..flight.len() / 2]).unwrap();
            assert_eq!(stream.read_to_end(&mut Vec::new()).unwrap_or(0), 0);
        }
        let is_done = runtime.block_on(server).unwrap();
        handshakes.shutdown_background();
        (is_done, counters.slow.load(Ordering::Relaxed))
    }

    #[test]
    fn half_a_handshake_times_out() {
        let folder = tempfile::tempdir().unwrap();
        let Some(files) = SelfSigned::make(folder.path(), "lab.example") else { return };
        assert_eq!(negotiated(&files, false, Duration::from_millis(100)), (false, 1));
        assert_eq!(negotiated(&files, true, Duration::from_secs(60)), (true, 0));
    }

    #[test]
    fn a_stalled_client_over_tls_is_disconnected() {
        let folder = tempfile::tempdir().unwrap();
        let Some(files) = SelfSigned::make(folder.path(), "lab.example") else { return };
        let handshakes = handshake_thread().unwrap();
        let tls = Tls { slow_timeout: Duration::from_millis(100), ..open(&files, &handshakes) };
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let mut stream = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let counters = Arc::new(Counters::default());
        let counted = counters.clone();
        let writes = runtime.spawn(async move {
            let (stream, _) = listener.accept().await.unwrap();
            let mut connection = tls.negotiate(stream, &counted, Duration::from_secs(60)).await.unwrap();
            let octets = [0; 16 * 1024];
            loop {
                let written = poll_fn(|context| Pin::new(&mut connection).poll_write(context, &octets)).await;
                if let Err(error) = written {
                    return error.kind();
                }
            }
        });
        client_hello(&files.certificate).complete_io(&mut stream).unwrap();
        assert_eq!(runtime.block_on(writes).unwrap(), std::io::ErrorKind::TimedOut);
        assert_eq!(counters.slow.load(Ordering::Relaxed), 1);
        handshakes.shutdown_background();
    }
}
