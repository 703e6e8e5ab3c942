//! The page over TLS, as curl and a client of rustls see it.

mod common;

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use namely_dashboard::{
    CERTIFICATE_OCTETS_MAX, CONNECTIONS_MAX, CertificateError, CertificateFiles, Dashboard, Options,
    StartError,
};
use namely_testkit::{Need, SelfSigned, eventually, skip};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, HandshakeKind, RootCertStore, StreamOwned};
use serde_json::json;

use self::common::{Answer, Events, World, answer, ask};

const HOST: &str = "lab.example";

/// A page over TLS on all addresses, and its certificate.
struct TlsWorld {
    world: World,
    files: SelfSigned,
    folder: tempfile::TempDir,
}

impl TlsWorld {
    /// `None` without openssl.
    fn new() -> Option<Self> {
        Self::with(|_| {})
    }

    fn with(change: impl FnOnce(&mut Options)) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let files = SelfSigned::make(folder.path(), HOST)?;
        let world = World::with(|options| {
            options.listen = "0.0.0.0:0".parse().unwrap();
            options.certificate = Some(named(&files));
            change(options);
        });
        Some(TlsWorld { world, files, folder })
    }

    /// A client that trusts the certificate in the file now.
    fn client(&self) -> Arc<ClientConfig> {
        let mut roots = RootCertStore::empty();
        let octets = std::fs::read(&self.files.certificate).unwrap();
        roots.add(CertificateDer::from_pem_slice(&octets).unwrap()).unwrap();
        let provider = rustls::crypto::aws_lc_rs::default_provider();
        let config =
            ClientConfig::builder_with_provider(provider.into()).with_safe_default_protocol_versions();
        Arc::new(config.unwrap().with_root_certificates(roots).with_no_client_auth())
    }

    fn connect(&self) -> TlsConnection {
        encrypted(&self.client(), HOST, self.world.connect())
    }

    fn get(&self, path: &str, lines: &str) -> Answer {
        ask(self.connect(), &format!("GET {path} HTTP/1.1\r\nHost: {}\r\n{lines}", self.authority()), "")
    }

    fn authority(&self) -> String {
        format!("{HOST}:{}", self.world.address().port())
    }

    fn token(&self) -> String {
        format!("Authorization: Bearer {}\r\n", self.world.page.token())
    }

    /// Connections that were closed for others or as slow.
    fn closed(&self) -> u64 {
        let counters = self.world.page.counters();
        counters.refused_full.load(Ordering::Relaxed) + counters.slow.load(Ordering::Relaxed)
    }

    fn refused_handshakes(&self) -> u64 {
        self.world.page.counters().refused_handshake.load(Ordering::Relaxed)
    }
}

type TlsConnection = StreamOwned<ClientConnection, TcpStream>;

fn encrypted(client: &Arc<ClientConfig>, host: &str, stream: TcpStream) -> TlsConnection {
    let name = ServerName::try_from(host.to_owned()).unwrap();
    StreamOwned::new(ClientConnection::new(client.clone(), name).unwrap(), stream)
}

fn named(files: &SelfSigned) -> CertificateFiles {
    CertificateFiles { certificate: files.certificate.clone(), key: files.key.clone() }
}

fn start(files: &SelfSigned) -> Result<Dashboard, CertificateError> {
    let options = Options { certificate: Some(named(files)), ..Options::default() };
    Dashboard::start(options).map_err(|error| match error {
        StartError::Certificate(error) => error,
        other => panic!("{other}"),
    })
}

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

/// The exit status and the output of curl with this many words; `None` without curl.
fn curl(world: &TlsWorld, words: &[&str]) -> Option<(Option<i32>, String)> {
    let mut command = Command::new("curl");
    command.args(["--silent", "--max-time", "60", "--write-out", " %{http_code}", "--noproxy", "*"]);
    command.args(["--resolve", &format!("{}:127.0.0.1", world.authority()), "--cacert"]);
    command.arg(&world.files.certificate).args(words);
    match command.output() {
        Ok(output) => Some((output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())),
        Err(error) => {
            skip(Need::Curl, error);
            None
        }
    }
}

#[test]
fn curl_loads_the_page_over_tls() {
    let Some(world) = TlsWorld::new() else { return };
    let page = format!("https://{}/", world.authority());
    let Some((code, said)) = curl(&world, &[&page]) else { return };
    assert!(code == Some(0) && said.contains("<title>") && said.ends_with(" 200"), "{code:?} {said}");
    let token = world.token();
    let events = format!("{page}api/token");
    for (words, status) in [
        (vec!["-H", "Host: evil.example", &page], "421"),
        (vec!["-H", "Sec-Fetch-Site: cross-site", &page], "403"),
        (vec![events.as_str()], "401"),
        (vec!["-H", token.trim_end(), &events], "200"),
        (vec![&*format!("http://{}/", world.authority())], "400"),
    ] {
        let (code, said) = curl(&world, &words).unwrap();
        assert!(code == Some(0) && said.ends_with(status), "{words:?}: {code:?} {said}");
    }
    // 35: no common version of TLS.
    assert_eq!(curl(&world, &["--tls-max", "1.2", &page]).unwrap().0, Some(35));
}

#[test]
fn public_pages_need_the_token() {
    let Some(world) = TlsWorld::with(|options| {
        options.prometheus = Some("http://127.0.0.1:9".parse().unwrap());
    }) else {
        return;
    };
    assert!(world.world.page.is_reachable_remotely());
    for path in ["/api/events", "/api/history?router=0&span=3600"] {
        assert_eq!(world.get(path, "").status, 401, "{path}");
    }
    let page = world.get("/", "");
    assert_eq!(page.status, 200, "the page itself has no data");
    for header in ["strict-transport-security", "set-cookie"] {
        assert!(!page.head.contains(header), "{header}");
    }
    let request = format!("GET /api/events HTTP/1.1\r\nHost: {}\r\n{}\r\n", world.authority(), world.token());
    assert_eq!(Events::of(world.connect(), &request).status, 200);
}

#[test]
fn the_origin_of_an_encrypted_page_is_https() {
    let Some(world) = TlsWorld::with(|options| options.hosts = vec!["router.example".into()]) else { return };
    let authority = world.authority();
    let url = world.world.page.url();
    assert!(url.starts_with("https://router.example:") && url.ends_with(world.world.page.token()), "{url}");
    for (host, lines, status) in [
        (&*authority, format!("Origin: https://{authority}"), 200),
        (&*authority, format!("Origin: http://{authority}"), 403),
        (&*authority, "Origin: https://evil.example".into(), 403),
        (&*authority, "Sec-Fetch-Site: cross-site".into(), 403),
        ("router.example", String::new(), 200),
        ("192.0.2.1", String::new(), 200),
        ("evil.example", String::new(), 421),
    ] {
        let lines = format!("GET / HTTP/1.1\r\nHost: {host}\r\n{lines}");
        assert_eq!(ask(world.connect(), &lines, "").status, status, "{lines}");
    }
    let body = json!({"router": 9, "do": "face_destroy", "face": 1}).to_string();
    let lines = format!(
        "POST /api/act HTTP/1.1\r\nHost: {authority}\r\nOrigin: https://{authority}\r\n{}",
        world.token()
    );
    assert_eq!(ask(world.connect(), &lines, &body).status, 400, "there is no such router");
}

#[test]
fn http_to_the_tls_port_gets_400() {
    let Some(world) = TlsWorld::new() else { return };
    let plain = world.world.get("/");
    assert_eq!(plain.status, 400);
    assert!(plain.body.contains("https://") && plain.head.contains("text/plain"), "{plain:?}");
    // The rest of a long request does not discard the answer.
    let mut stream = world.world.connect();
    stream.write_all(format!("GET /{} HTTP/1.1\r\n", "x".repeat(8000)).as_bytes()).unwrap();
    assert_eq!(answer(stream).status, 400);
    eventually("both are counted", || world.refused_handshakes() == 2);
    assert_eq!(world.get("/", "").status, 200);
    assert_eq!(world.refused_handshakes(), 2);
}

#[test]
fn failed_handshakes_are_counted() {
    let Some(world) = TlsWorld::new() else { return };
    // Records of another version; of another type; none at all.
    for octets in [&b"\x16\x09\x09\x00\x05hello"[..], b"\x17\x03\x03\x00\x01x", b""] {
        let mut stream = world.world.connect();
        stream.write_all(octets).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let mut said = Vec::new();
        let _ = stream.read_to_end(&mut said);
        // An alert, if anything.
        assert!(said.is_empty() || said[0] == 21, "{said:?}");
    }
    eventually("all are counted", || world.refused_handshakes() == 3);
}

#[test]
fn no_session_is_resumed() {
    let Some(world) = TlsWorld::new() else { return };
    let client = world.client();
    for _ in 0..2 {
        let mut connection = encrypted(&client, HOST, world.world.connect());
        let lines = format!("GET / HTTP/1.1\r\nHost: {}", world.authority());
        assert_eq!(ask(&mut connection, &lines, "").status, 200);
        let kind = connection.conn.handshake_kind();
        assert!(
            matches!(kind, Some(HandshakeKind::Full | HandshakeKind::FullWithHelloRetryRequest)),
            "{kind:?}"
        );
    }
}

#[test]
fn a_renewed_certificate_is_used() {
    let Some(world) = TlsWorld::new() else { return };
    let page = &world.world.page;
    let (before, trusting) = (page.certificate().unwrap(), world.client());
    assert_eq!((before.names.as_slice(), page.renew_certificate().unwrap()), (&[HOST.to_owned()][..], None));
    SelfSigned::make(world.folder.path(), "new.example").unwrap();
    let after = page.renew_certificate().unwrap().unwrap();
    assert_eq!(
        (after.names.as_slice(), page.certificate()),
        (&["new.example".to_owned()][..], Some(after.clone()))
    );
    assert_ne!(before.sha256, after.sha256);
    assert_eq!(page.renew_certificate().unwrap(), None);
    let get = |client: &Arc<ClientConfig>, host: &str| {
        let mut connection = encrypted(client, host, world.world.connect());
        let request = format!("GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        connection.write_all(request.as_bytes()).map(|()| answer(connection).status)
    };
    assert_eq!(get(&world.client(), "new.example").unwrap(), 200);
    assert!(get(&trusting, HOST).is_err(), "the certificate before");
}

#[test]
fn a_faulty_renewal_keeps_the_certificate() {
    let Some(world) = TlsWorld::new() else { return };
    let (page, trusting) = (&world.world.page, world.client());
    let before = page.certificate();
    let key = std::fs::read(&world.files.key).unwrap();
    let other = tempfile::tempdir().unwrap();
    let other = SelfSigned::make(other.path(), HOST).unwrap();
    for (what, spoil) in [
        ("no certificate", &(|| std::fs::write(&world.files.certificate, "x").unwrap()) as &dyn Fn()),
        ("is not that of", &|| {
            std::fs::copy(&other.certificate, &world.files.certificate).map(drop).unwrap()
        }),
        ("no private key", &|| std::fs::write(&world.files.key, "x").unwrap()),
        ("others may open it", &|| set_mode(&world.files.key, 0o644)),
        ("No such file", &|| std::fs::remove_file(&world.files.key).unwrap()),
    ] {
        spoil();
        // A fault may be the moment between the replacements of the two files.
        assert_eq!(page.renew_certificate().unwrap(), None, "{what}");
        let error = page.renew_certificate().unwrap_err().to_string();
        assert!(error.contains(what), "{what}: {error}");
        assert_eq!(page.renew_certificate().unwrap(), None, "{what}: once");
        let lines = format!("GET / HTTP/1.1\r\nHost: {}", world.authority());
        assert_eq!(ask(encrypted(&trusting, HOST, world.world.connect()), &lines, "").status, 200, "{what}");
    }
    assert_eq!(page.certificate(), before);
    std::fs::copy(&other.certificate, &world.files.certificate).unwrap();
    std::fs::copy(&other.key, &world.files.key).unwrap();
    set_mode(&world.files.key, 0o600);
    assert_ne!(page.renew_certificate().unwrap(), None);
    assert_ne!(std::fs::read(&world.files.key).unwrap(), key);
}

#[test]
fn keys_that_others_may_read_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let Some(files) = SelfSigned::make(folder.path(), HOST) else { return };
    start(&files).unwrap();
    for mode in [0o640, 0o604] {
        set_mode(&files.key, mode);
        let error = start(&files).unwrap_err();
        assert!(matches!(error, CertificateError::Read(..)), "{error:?}");
        assert!(error.to_string().contains(&format!("mode {mode:o}")), "{error}");
    }
}

#[test]
fn oversized_certificate_files_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let Some(files) = SelfSigned::make(folder.path(), HOST) else { return };
    for path in [&files.certificate, &files.key] {
        let text = std::fs::read(path).unwrap();
        let mut padded = text.clone();
        padded.resize(CERTIFICATE_OCTETS_MAX as usize, b'\n');
        std::fs::write(path, &padded).unwrap();
        start(&files).unwrap();
        padded.push(b'\n');
        std::fs::write(path, &padded).unwrap();
        assert!(matches!(start(&files), Err(CertificateError::Read(..))));
        std::fs::write(path, &text).unwrap();
    }
}

/// A host opens twice as many half handshakes as there are connections, while a client of another
/// host has not yet sent its token.
#[test]
fn a_flood_of_handshakes_spares_other_hosts() {
    let Some(world) = TlsWorld::new() else { return };
    let port = world.world.address().port();
    let from = |host: u8| {
        let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
        socket.bind(&SocketAddr::from((Ipv4Addr::new(127, 0, 0, host), 0)).into()).unwrap();
        socket.connect(&SocketAddr::from((Ipv4Addr::LOCALHOST, port)).into()).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        TcpStream::from(socket)
    };
    let half = || {
        let mut stream = from(2);
        // The beginning of a record with a ClientHello.
        let _ = stream.write_all(&[22, 3, 1, 0, 200, 1]);
        stream
    };
    let client = world.client();
    let lines = format!("GET /api/token HTTP/1.1\r\nHost: {}\r\n{}\r\n", world.authority(), world.token());
    let mut halves: Vec<_> = (0..CONNECTIONS_MAX).map(|_| half()).collect();
    let mut operators = 0;
    let mut is_served = || {
        let operator = from(1);
        operators += 1;
        halves.extend((0..CONNECTIONS_MAX).map(|_| half()));
        // Each further connection closed another one.
        let further = (halves.len() + operators - CONNECTIONS_MAX) as u64;
        eventually("the flood is accepted", || world.closed() >= further);
        let mut operator = encrypted(&client, HOST, operator);
        let mut status = [0; 12];
        operator.write_all(lines.as_bytes()).and_then(|()| operator.read_exact(&mut status)).is_ok()
            && &status == b"HTTP/1.1 200"
    };
    // A busy machine may take longer than the two seconds of a reserved slot.
    assert!((0..10).any(|_| is_served()), "the client of the other host is served");
}
