//! Tests with NDN-DPDK's management interface (VI-05): the requests to it, and invalid answers. A
//! whole file through two such faces is in `interop/tests/ndndpdk.rs`.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use namely_memif::{Budget, Handshake, Interface, Options as Rings, Progress};
use namely_transport::connection::{
    ANSWER_OCTETS_MAX, CommandError, Connection, ConnectionError, Options, Reachability,
};
use namely_wire::Name;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use serde_json::{Value, json};

/// Starts a management that answers each request with the octets that `answer` returns. Returns its
/// address, and the requests that it received.
fn management(
    answer: impl Fn(&Value, &mut TcpStream) -> Vec<u8> + Send + 'static,
) -> (String, Receiver<Value>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (sender, questions) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let question = question(&mut stream);
            let octets = answer(&question, &mut stream);
            let _ = sender.send(question);
            let _ = stream.write_all(&octets);
        }
    });
    (format!("ndndpdk://{address}"), questions)
}

fn question(stream: &mut TcpStream) -> Value {
    let mut octets = Vec::new();
    let mut piece = [0; 4096];
    loop {
        let read = stream.read(&mut piece).unwrap();
        assert!(read > 0, "a question that ends early");
        octets.extend_from_slice(&piece[..read]);
        let Some(head) = octets.windows(4).position(|at| at == b"\r\n\r\n") else { continue };
        let text = String::from_utf8_lossy(&octets[..head]).into_owned();
        assert!(text.starts_with("POST / HTTP/1.0\r\n"), "{text}");
        let length = text.lines().find_map(|line| line.strip_prefix("Content-Length: ")).unwrap();
        if octets.len() == head + 4 + length.parse::<usize>().unwrap() {
            return serde_json::from_slice(&octets[head + 4..]).unwrap();
        }
    }
}

fn http(body: &str) -> Vec<u8> {
    format!(
        "HTTP/1.0 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

fn data(field: &str, value: &Value) -> Vec<u8> {
    http(&json!({ "data": { field: value } }).to_string())
}

/// A memif socket that accepts one client.
fn listen(path: &Path) -> OwnedFd {
    let socket =
        rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
            .unwrap();
    rustix::net::bind(&socket, &SocketAddrUnix::new(path).unwrap()).unwrap();
    rustix::net::listen(&socket, 1).unwrap();
    socket
}

fn take_up(listener: &OwnedFd) -> Interface {
    let socket = rustix::net::accept(listener).unwrap();
    rustix::io::ioctl_fionbio(&socket, true).unwrap();
    let mut handshake = Handshake::server(socket, Rings::default(), &Budget::new(usize::MAX)).unwrap();
    loop {
        match handshake.proceed().unwrap() {
            Progress::Connected(interface) => return *interface,
            Progress::Waiting(waiting) => handshake = waiting,
        }
        let timeout = Timespec { tv_sec: 60, tv_nsec: 0 };
        let ready = poll(&mut [PollFd::new(&handshake, PollFlags::IN)], Some(&timeout)).unwrap();
        assert_eq!(ready, 1, "the client says nothing");
    }
}

fn field(question: &Value) -> &'static str {
    let query = question["query"].as_str().unwrap();
    let fields = ["createFace(locator", "insertFibEntry(name", "fib(name", "delete(id"];
    let found = fields.iter().find(|field| query.split('{').nth(1).unwrap().contains(*field));
    found.unwrap().split('(').next().unwrap()
}

fn connect(uri: &str) -> Result<Connection, ConnectionError> {
    Connection::find(Some(uri), Options { reconnect: Duration::ZERO, ..Options::default() })
}

/// A forwarder whose FIB holds `before` at each name.
fn forwarder(before: Value) -> (String, Receiver<Value>) {
    management(move |question, _| match field(question) {
        "createFace" => {
            let path = question["variables"]["locator"]["socketName"].as_str().unwrap();
            let listener = listen(Path::new(path));
            std::thread::spawn(move || {
                let interface = take_up(&listener);
                // Keeps the interface open until the other end closes.
                while interface.link.check().is_ok() {
                    let _ = interface.link.wait(Duration::from_millis(10));
                }
            });
            data("createFace", &json!({ "id": "FACE" }))
        }
        "fib" => data("fib", &before),
        "delete" => data("delete", &json!(true)),
        field => data(field, &json!({ "id": "ENTRY" })),
    })
}

fn next_query(questions: &Receiver<Value>) -> (&'static str, Value) {
    let question = questions.recv_timeout(Duration::from_secs(60)).expect("another question");
    (field(&question), question["variables"].clone())
}

#[test]
fn ndn_dpdk_creates_and_deletes_face_and_entry() {
    let folder = tempfile::tempdir().unwrap();
    let (uri, questions) = forwarder(json!([]));
    let uri = format!("{uri}?sockets={}", folder.path().display());
    let mut connection = connect(&uri).unwrap();
    assert_eq!(connection.uri().to_string(), uri);
    assert_eq!(connection.frame_octets_max(), Some(2048));
    let (field, variables) = next_query(&questions);
    let locator = &variables["locator"];
    assert_eq!(
        (field, &locator["scheme"], &locator["role"]),
        ("createFace", &json!("memif"), &json!("server"))
    );
    assert_eq!((&locator["id"], &locator["dataroom"]), (&json!(1), &json!(2048)));
    let owner = rustix::process::geteuid();
    let expected = if owner.is_root() {
        Value::Null
    } else {
        json!([owner.as_raw(), rustix::process::getegid().as_raw()])
    };
    assert_eq!(locator["socketOwner"], expected);

    let prefix: Name = "/cms/v=1".parse().unwrap();
    assert_eq!(connection.register(&prefix, &mut |_, _| {}).unwrap(), Reachability::Route);
    let name = json!("/8=cms/54=%01");
    assert_eq!(next_query(&questions), ("fib", json!({ "name": name })));
    let inserted = json!({ "name": name, "nexthops": ["FACE"], "strategy": null });
    assert_eq!(next_query(&questions), ("insertFibEntry", inserted));
    drop(connection);
    assert_eq!(next_query(&questions).0, "fib");
    assert_eq!(next_query(&questions), ("delete", json!({ "id": "FACE" })));
}

#[test]
fn a_shared_entry_keeps_its_other_nexthops() {
    let folder = tempfile::tempdir().unwrap();
    // A deleted face is null.
    let entry = json!([{
        "id": "OLD", "nexthops": [{ "id": "OTHER" }, null, { "id": "FACE" }], "strategy": { "id": "S" }
    }]);
    let (uri, questions) = forwarder(entry);
    let mut connection = connect(&format!("{uri}?sockets={}", folder.path().display())).unwrap();
    let prefix: Name = "/p".parse().unwrap();
    connection.register(&prefix, &mut |_, _| {}).unwrap();
    connection.unregister(&prefix).unwrap();
    drop(connection);
    assert_eq!(next_query(&questions).0, "createFace");
    for nexthops in [json!(["OTHER", "FACE"]), json!(["OTHER"])] {
        assert_eq!(next_query(&questions).0, "fib");
        let inserted = json!({ "name": "/8=p", "nexthops": nexthops, "strategy": "S" });
        assert_eq!(next_query(&questions), ("insertFibEntry", inserted));
    }
    assert_eq!(next_query(&questions), ("delete", json!({ "id": "FACE" })));
}

/// Returns the message for a user if the forwarder answers with `octets`.
fn error_of(octets: Vec<u8>) -> (String, &'static str) {
    let (uri, _questions) = management(move |_, _| octets.clone());
    let error = connect(&uri).unwrap_err();
    (error.to_string(), error.hint().unwrap())
}

#[test]
fn invalid_management_answers_return_a_hint() {
    let address = "name the address of ndndpdk-svc's GraphQL server";
    for (octets, line, hint) in [
        (
            http(r#"{"data":null,"errors":[{"message":"no\nforwarder"},{"message":"more"}]}"#),
            "the management of NDN-DPDK refuses: \"no\\nforwarder\"",
            "was activated as a forwarder",
        ),
        (http(r#"{"errors":[{}]}"#), "refuses: \"no reason\"", "activated"),
        (http(r#"{"data":{"createFace":{"id""#), "malformed: it ends early", address),
        (
            b"HTTP/1.0 200 OK\r\nContent-Length: 100\r\n\r\n{\"data\":".to_vec(),
            "malformed: it ends early",
            address,
        ),
        (http("<html>"), "malformed: it is no JSON", address),
        (http(r#"{"data":{"createFace":{"id":7}}}"#), "malformed: an id in it is none", address),
        (http(r#"{"data":{"createFace":{"id":""}}}"#), "malformed: an id in it is none", address),
        (http(r#"{"data":{"face":{"id":"x"}}}"#), "malformed: what was asked for is not in it", address),
        (http("[[[["), "malformed: it ends early", address),
        (b"HTTP/1.0 404 Not Found\r\n\r\nnothing".to_vec(), "HTTP status 404", address),
        (b"SSH-2.0-x\r\n".to_vec(), "malformed: it is no HTTP", address),
        (Vec::new(), "malformed: it is no HTTP", address),
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec(),
            "malformed: it comes in chunks",
            address,
        ),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 99999999\r\n\r\n".to_vec(), "more than 65536 octets", address),
        (b"HTTP/1.0 200 OK\r\nContent-Length: x\r\n\r\n".to_vec(), "its length is no number", address),
    ] {
        let shown = String::from_utf8_lossy(&octets).into_owned();
        let (error, what_to_do) = error_of(octets);
        assert!(error.contains(line) && !error.contains('\n'), "{shown}: {error}");
        assert!(what_to_do.contains(hint), "{shown}: {what_to_do}");
    }
}

#[test]
fn a_management_answer_has_a_size_limit() {
    let padded = |octets: usize| {
        let head = "HTTP/1.0 200 OK\r\n\r\n".len();
        let body = r#"{"errors":[{"message":"whole"}]}"#;
        let padding = " ".repeat(octets - head - body.len());
        format!("HTTP/1.0 200 OK\r\n\r\n{body}{padding}").into_bytes()
    };
    assert!(error_of(padded(ANSWER_OCTETS_MAX)).0.contains("refuses: \"whole\""));
    assert!(error_of(padded(ANSWER_OCTETS_MAX + 1)).0.contains("more than 65536 octets"));
    let (uri, _questions) = management(|_, stream| {
        let _ = stream.write_all(b"HTTP/1.0 200 OK\r\n\r\n");
        while stream.write_all(&[b' '; 4096]).is_ok() {}
        Vec::new()
    });
    assert!(connect(&uri).unwrap_err().to_string().contains("more than 65536 octets"));
}

#[test]
fn an_absent_management_times_out() {
    let nobody = namely_testkit::free_address();
    let error = connect(&format!("ndndpdk://{nobody}")).unwrap_err();
    assert!(error.to_string().contains("is not there: connection refused"), "{error}");
    assert!(error.hint().unwrap().starts_with("start ndndpdk-svc there"), "{:?}", error.hint());
    // It accepts connections and never answers.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let began = Instant::now();
    let error = connect(&format!("ndndpdk://{}", silent.local_addr().unwrap())).unwrap_err();
    assert!(error.to_string().contains("did not answer within 5 s"), "{error}");
    assert!(began.elapsed() < Duration::from_secs(60), "{:?}", began.elapsed());
}

#[test]
fn a_face_without_its_socket_is_deleted() {
    let folder = tempfile::tempdir().unwrap();
    let (uri, questions) = management(|question, _| match field(question) {
        "createFace" => data("createFace", &json!({ "id": "FACE" })),
        _ => data("delete", &json!(true)),
    });
    let error = connect(&format!("{uri}?sockets={}", folder.path().display())).unwrap_err();
    let text = error.to_string();
    assert!(text.contains(&*folder.path().to_string_lossy()) && text.contains("cannot be used"), "{text}");
    assert!(error.hint().unwrap().contains("?sockets=/run/ndn"), "{:?}", error.hint());
    assert_eq!(next_query(&questions).0, "createFace");
    assert_eq!(next_query(&questions), ("delete", json!({ "id": "FACE" })));
}

#[test]
fn a_refused_ndn_dpdk_prefix_has_a_reason() {
    let folder = tempfile::tempdir().unwrap();
    let (uri, _questions) = {
        let (forwarder, _) = forwarder(json!([]));
        let forwarder = forwarder.replace("ndndpdk://", "");
        // This management forwards all requests except insertions.
        management(move |question, _| {
            if field(question) == "insertFibEntry" {
                return http(r#"{"errors":[{"message":"FIB is full"}],"data":null}"#);
            }
            let body = question.to_string();
            let mut inner = TcpStream::connect(&forwarder).unwrap();
            write!(inner, "POST / HTTP/1.0\r\nContent-Length: {}\r\n\r\n{body}", body.len()).unwrap();
            let mut answer = Vec::new();
            inner.read_to_end(&mut answer).unwrap();
            answer
        })
    };
    let mut connection = connect(&format!("{uri}?sockets={}", folder.path().display())).unwrap();
    let error = connection.register(&"/p".parse().unwrap(), &mut |_, _| {}).unwrap_err();
    assert!(matches!(error, CommandError::NotBound(_)), "{error:?}");
    assert!(error.to_string().contains("refuses: \"FIB is full\""), "{error}");
    assert!(error.hint().unwrap().contains("log of ndndpdk-svc"), "{:?}", error.hint());
}
