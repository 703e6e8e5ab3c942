//! The right to give commands: users of the socket and holders of keys have it, others do not.

use crate::common;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use common::client::{name, named, unix_ms};
use common::other_user::{as_nobody, connect_as_other_user, connect_as_other_user_by_tcp};
use common::{Client, Daemon, PATIENCE, write};
use namely_messages::{Command, ControlParameters, Dataset, GeneralStatus, Scope};
use namely_security::{Certificate, KeyType, PrivateKey, Signer, sign_interest};
use namely_testkit::{Need, skip};
use namely_testkit::{bound_again, eventually, until};
use namely_wire::{InterestBuilder, NackReason, ValidityPeriod};

/// Users are known over UDP, too.
const UDP: &str = "[authorization]\nloopback_udp = true\n";

/// A key, and its certificate in a file.
fn key(dir: &Path, uri: &str, days_old: u64) -> (Signer, String) {
    let key = Arc::new(PrivateKey::generate(KeyType::EcdsaP256).unwrap());
    let key_name = name(uri);
    let now_s = unix_ms() / 1000;
    let begin = now_s - days_old * 86_400;
    let validity = ValidityPeriod { not_before_s: begin, not_after_s: begin + 86_400 };
    let certificate = Certificate::self_signed(key_name.as_name(), &key, validity, 1).unwrap();
    let path = dir.join(format!("{}.cert", key_name.as_name().component(0).unwrap()));
    write(&path, certificate.to_base64().as_bytes());
    (Signer::new(key_name, key), path.to_str().unwrap().to_owned())
}

fn config_with_key(certificate: &str, rights: &str) -> String {
    format!(
        "[authorization]\nloopback = \"nothing\"\nlocalhop_rib = true\n[[authorization.key]]\ncertificate = \"{certificate}\"\n{rights}\n"
    )
}

fn refused(client: &mut Client, command: Command, parameters: &ControlParameters) -> String {
    let response = client.command(command, parameters);
    assert_eq!(response.code, 403, "{command}: {}", response.text);
    assert!(!response.text.is_empty(), "the refusal has a reason");
    response.text
}

#[test]
fn tcp_commands_need_a_configured_key() {
    let dir = tempfile::tempdir().unwrap();
    let (alice, certificate) = key(dir.path(), "/alice/KEY/1", 0);
    let (mallory, _) = key(dir.path(), "/mallory/KEY/1", 0);
    let daemon = Daemon::start_with(&config_with_key(&certificate, "register = [\"/alice\"]"), &[]);
    let mut client = Client::tcp(daemon.tcp());

    // Anyone on this machine may look.
    assert!(GeneralStatus::decode(&client.dataset(Dataset::StatusGeneral)).is_ok());

    let unsigned = InterestBuilder::new(Command::RibRegister.name(Scope::Localhost, &named("/alice/x")))
        .nonce(client.next_nonce())
        .build();
    let response = client.respond_to(&unsigned);
    assert_eq!(response.code, 403);
    assert!(response.text.contains("not signed"), "{}", response.text);

    let text = refused(&mut client, Command::RibRegister, &named("/alice/x"));
    assert!(text.contains("no key"), "a digest has no owner: {text}");
    client.signer = mallory;
    let text = refused(&mut client, Command::RibRegister, &named("/alice/x"));
    assert!(text.contains("/mallory/KEY/1"), "{text}");

    client.signer = alice;
    client.register("/alice/x");
    let text = refused(&mut client, Command::RibRegister, &named("/bob"));
    assert!(text.contains("/alice/KEY/1 may not register /bob"), "{text}");
    refused(&mut client, Command::CsErase, &named("/alice"));
    assert_eq!(client.routes("/bob"), []);
}

#[test]
fn a_damaged_command_signature_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (alice, certificate) = key(dir.path(), "/alice/KEY/1", 0);
    let daemon = Daemon::start_with(&config_with_key(&certificate, "manage = true"), &[]);
    let mut client = Client::tcp(daemon.tcp());
    client.signer = alice;
    let mut interest =
        client.command_interest(Command::RibRegister.name(Scope::Localhost, &named("/alice/x")), b"");
    let last = interest.len() - 1;
    interest[last] ^= 1;
    let response = client.respond_to(&interest);
    assert_eq!(response.code, 403, "{}", response.text);
    assert_eq!(client.routes("/alice/x"), []);
}

#[test]
fn a_replayed_command_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (alice, certificate) = key(dir.path(), "/alice/KEY/1", 0);
    let daemon = Daemon::start_with(&config_with_key(&certificate, "manage = true"), &[]);
    let mut client = Client::tcp(daemon.tcp());
    client.signer = alice.clone();
    let command = Command::RibRegister.name(Scope::Localhost, &named("/alice/x"));
    let interest = client.command_interest(command.clone(), b"");
    assert_eq!(client.respond_to(&interest).code, 200);
    client.ok(Command::RibUnregister, &named("/alice/x"));

    // The same octets over another connection, except for the Nonce, which no signature covers.
    let mut thief = Client::tcp(daemon.tcp());
    let view = namely_wire::InterestView::parse(&interest).unwrap();
    let at = interest.windows(6).position(|w| w[..2] == [10, 4] && w[2..] == view.nonce.unwrap()).unwrap();
    let mut replay = interest.clone();
    replay[at + 2..at + 6].copy_from_slice(&[7, 7, 7, 7]);
    let response = thief.respond_to(&replay);
    assert_eq!(response.code, 403);
    assert!(response.text.contains("was accepted"), "{}", response.text);
    assert_eq!(client.routes("/alice/x"), []);

    // A command that was signed an hour ago.
    let stale = sign_interest(&InterestBuilder::new(command), b"", &alice, unix_ms() - 3_600_000).unwrap();
    let response = thief.respond_to(&stale);
    assert_eq!(response.code, 403);
    assert!(response.text.contains("clock"), "{}", response.text);
}

#[test]
fn replayed_commands_are_refused_after_restart() {
    let dir = tempfile::tempdir().unwrap();
    let (alice, certificate) = key(dir.path(), "/alice/KEY/1", 0);
    let config = config_with_key(&certificate, "manage = true");
    let daemon = Daemon::start_with(&config, &[]);
    let mut client = Client::tcp(daemon.tcp());
    client.signer = alice.clone();
    let interest =
        client.command_interest(Command::RibRegister.name(Scope::Localhost, &named("/alice/x")), b"");
    assert_eq!(client.respond_to(&interest).code, 200);
    let (_, folder) = daemon.stop();
    // A service manager waits at least this long, which is longer than the tolerance.
    let signed_ms = unix_ms();
    eventually("the tolerance is over", || unix_ms() > signed_ms + 150);
    let daemon = Daemon::start_in(folder, &config, &[]);
    let mut client = Client::tcp(daemon.tcp());
    let response = client.respond_to(&interest);
    assert_eq!(response.code, 403);
    assert!(response.text.contains("before this router started"), "{}", response.text);
    assert_eq!(client.routes("/alice/x"), []);
    client.signer = alice;
    client.register("/alice/x");
}

/// The router crashes and starts again as soon as possible. The second command is from a host with
/// a clock that is a minute ahead.
#[test]
fn replays_are_refused_after_immediate_restart() {
    let dir = tempfile::tempdir().unwrap();
    let (alice, certificate) = key(dir.path(), "/alice/KEY/1", 0);
    let config = config_with_key(&certificate, "manage = true");
    let mut daemon = Daemon::start_with(&config, &[]);
    for (prefix, ahead_ms) in [("/now", 0), ("/ahead", 60_000)] {
        let command = Command::RibRegister.name(Scope::Localhost, &named(prefix));
        let interest =
            sign_interest(&InterestBuilder::new(command), b"", &alice, unix_ms() + ahead_ms).unwrap();
        assert_eq!(Client::tcp(daemon.tcp()).respond_to(&interest).code, 200);
        let folder = daemon.kill();
        daemon = Daemon::start_in(folder, &config, &[]);
        let mut client = Client::tcp(daemon.tcp());
        assert_eq!(client.respond_to(&interest).code, 403, "{prefix}");
        assert_eq!(client.routes(prefix), [], "{prefix}");
    }
}

#[test]
fn loopback_tcp_applications_register_as_their_user() {
    let daemon = Daemon::start();
    let mut client = Client::tcp(daemon.tcp());
    client.register("/by/tcp");
    let mut consumer = daemon.connect();
    consumer.ask("/by/tcp/1");
    assert_eq!(client.serve_one(b"from a user"), name("/by/tcp/1"));
    assert_eq!(consumer.receive(PATIENCE).unwrap().data().content, b"from a user");
    let text = refused(&mut client, Command::CsErase, &named("/"));
    assert!(text.contains("Unix socket") && text.contains("authorization.loopback"), "{text}");
}

#[test]
fn loopback_udp_applications_register_as_their_user() {
    let mut daemon = Daemon::start_with(UDP, &[]);
    for (scope, prefix) in [(Scope::Localhost, "/by/local/udp"), (Scope::Localhop, "/by/udp")] {
        let mut client = Client::udp(daemon.udp());
        client.scope = scope;
        client.register(prefix);
        let mut consumer = daemon.connect();
        let uri = format!("{prefix}/1");
        consumer.ask(&uri);
        assert_eq!(client.serve_one(b"from a user"), name(&uri));
        assert_eq!(consumer.receive(PATIENCE).unwrap().data().content, b"from a user");
        let destroy = ControlParameters { face_id: Some(1), ..named("/x") };
        let text = refused(&mut client, Command::FacesDestroy, &destroy);
        assert!(text.contains("Unix socket"), "{text}");
    }
    let mut client = Client::udp(daemon.udp());
    assert!(client.faces().len() > 2, "datasets are read as over TCP");
    daemon.reload(&format!("{UDP}loopback = \"manage\"\n"));
    client.ok(Command::CsErase, &named("/"));
    daemon.reload(&format!("{UDP}loopback = \"nothing\"\n"));
    let text = refused(&mut client, Command::RibRegister, &named("/x"));
    assert!(text.contains("no key"), "{text}");
}

/// Rights of other machines are separate: they give users no rights by their sockets.
#[test]
fn localhop_over_udp_identifies_no_users() {
    let daemon = Daemon::start_with("[authorization]\nlocalhop_rib = true\n", &[]);
    let mut client = Client::udp(daemon.udp());
    client.scope = Scope::Localhop;
    let text = refused(&mut client, Command::RibRegister, &named("/by/udp"));
    assert!(text.contains("authorization.loopback_udp"), "{text}");
}

/// A face outlives the socket that it was made for: a command belongs to the process that has the
/// address when the command arrives.
#[test]
fn udp_commands_belong_to_the_port_owner() {
    if !rustix::process::geteuid().is_root() {
        skip(Need::Root, "only root can give sockets another owner");
        return;
    }
    let daemon = Daemon::start_with(UDP, &[]);
    let address = namely_testkit::free_address();
    let socket = std::net::UdpSocket::bind(address).unwrap();
    socket.connect(daemon.udp()).unwrap();
    let mut client = Client::udp_from(socket);
    client.register("/first");
    drop(client);
    let socket = bound_again(|| std::net::UdpSocket::bind(address));
    rustix::fs::fchown(&socket, Some(rustix::fs::Uid::from_raw(65_534)), None).unwrap();
    socket.connect(daemon.udp()).unwrap();
    let mut client = Client::udp_from(socket);
    let text = refused(&mut client, Command::RibRegister, &named("/second"));
    assert!(text.contains("user 65534"), "{text}");
}

/// Commands that a program forwards come from that program, for the router and for the kernel.
#[test]
fn forwarded_udp_commands_have_the_forwarders_rights() {
    use std::net::UdpSocket;
    if !rustix::process::geteuid().is_root() {
        skip(Need::Root, "only root can give sockets another owner");
        return;
    }
    let daemon = Daemon::start_with(UDP, &[]);
    let (inward, onward) = (UdpSocket::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
    onward.connect(daemon.udp()).unwrap();
    rustix::fs::fchown(&onward, Some(rustix::fs::Uid::from_raw(65_534)), None).unwrap();
    let mut client = Client::udp(inward.local_addr().unwrap());
    std::thread::spawn(move || {
        let mut octets = [0; 9000];
        while let Ok((length, from)) = namely_testkit::uninterrupted(|| inward.recv_from(&mut octets)) {
            onward.send(&octets[..length]).unwrap();
            let length = namely_testkit::uninterrupted(|| onward.recv(&mut octets)).unwrap();
            inward.send_to(&octets[..length], from).unwrap();
        }
    });
    let text = refused(&mut client, Command::RibRegister, &named("/forwarded"));
    assert!(text.contains("user 65534"), "{text}");
}

/// Address translation or another network namespace can disguise frames as frames of loopback. No
/// socket here has their source port. The same is true of late frames of a program that has ended.
#[test]
fn commands_from_unknown_ports_are_refused() {
    use rustix::net::{AddressFamily, SendFlags, SocketType, ipproto, sendto, socket};
    if !rustix::process::geteuid().is_root() {
        skip(Need::Root, "only root sends from a port that it does not have");
        return;
    }
    let daemon = Daemon::start_with(UDP, &[]);
    let mut watcher = daemon.connect();
    let unknown = |watcher: &mut Client| watcher.counter("management.senders_unknown");
    assert_eq!(unknown(&mut watcher), 0);
    let raw = socket(AddressFamily::INET, SocketType::RAW, Some(ipproto::UDP)).unwrap();
    let free = namely_testkit::free_port();
    let command = Command::RibRegister.name(Scope::Localhost, &named("/from/nowhere"));
    let interest = watcher.command_interest(command, b"");
    let list = InterestBuilder::new(Dataset::RibList.prefix(Scope::Localhost)).can_be_prefix();
    for (i, payload) in [interest, list.must_be_fresh().nonce([1, 2, 3, 4]).build()].iter().enumerate() {
        // RFC 768: a checksum of zero means that there is none.
        let mut datagram = Vec::new();
        for field in [free, daemon.udp().port(), 8 + payload.len() as u16, 0] {
            datagram.extend_from_slice(&field.to_be_bytes());
        }
        datagram.extend_from_slice(payload);
        sendto(&raw, &datagram, SendFlags::empty(), &daemon.udp()).unwrap();
        until("it is refused", || (unknown(&mut watcher) == i as u64 + 1).then_some(()));
    }
    assert_eq!(watcher.routes("/from/nowhere"), []);
}

/// A datagram does not identify which of the sockets of its address sent it.
#[test]
fn a_shared_address_identifies_no_user() {
    use rustix::net::sockopt::set_socket_reuseaddr;
    use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, socket_with};
    if !rustix::process::geteuid().is_root() {
        skip(Need::Root, "only root can give sockets another owner");
        return;
    }
    let shared = |address: std::net::SocketAddr| {
        // A program that another test starts meanwhile inherits none of the sockets.
        let flags = SocketFlags::CLOEXEC;
        let socket = socket_with(AddressFamily::INET, SocketType::DGRAM, flags, None).unwrap();
        set_socket_reuseaddr(&socket, true).unwrap();
        bind(&socket, &address).unwrap();
        std::net::UdpSocket::from(socket)
    };
    let daemon = Daemon::start_with(UDP, &[]);
    let ours = shared("127.0.0.1:0".parse().unwrap());
    let theirs = shared(ours.local_addr().unwrap());
    rustix::fs::fchown(&theirs, Some(rustix::fs::Uid::from_raw(65_534)), None).unwrap();
    ours.connect(daemon.udp()).unwrap();
    let mut client = Client::udp_from(ours);
    client.scope = Scope::Localhop;
    let text = refused(&mut client, Command::RibRegister, &named("/shared"));
    assert!(text.contains("more than one user"), "{text}");
    drop(theirs);
    client.register("/shared");
}

/// A program that forwards a port, as containers' proxies do, has the rights of its own user, and
/// its clients have no others.
#[test]
fn forwarded_tcp_commands_have_the_forwarders_rights() {
    use std::net::{TcpListener, TcpStream};
    if !rustix::process::geteuid().is_root() {
        skip(Need::Root, "only root can give sockets another owner");
        return;
    }
    let daemon = Daemon::start();
    let forwarded = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut client = Client::tcp(forwarded.local_addr().unwrap());
    let (inward, _) = forwarded.accept().unwrap();
    let onward = TcpStream::connect(daemon.tcp()).unwrap();
    rustix::fs::fchown(&onward, Some(rustix::fs::Uid::from_raw(65_534)), None).unwrap();
    for (from, to) in [(&inward, &onward), (&onward, &inward)] {
        let (mut from, mut to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
        std::thread::spawn(move || std::io::copy(&mut from, &mut to));
    }
    let text = refused(&mut client, Command::RibRegister, &named("/forwarded"));
    assert!(text.contains("65534"), "{text}");
}

#[test]
fn the_loopback_setting_limits_users_rights() {
    let mut daemon = Daemon::start_with("[authorization]\nloopback = \"manage\"\n", &[]);
    let mut client = Client::tcp(daemon.tcp());
    client.ok(Command::CsErase, &named("/"));
    daemon.reload("[authorization]\nloopback = \"nothing\"\n");
    let text = refused(&mut client, Command::RibRegister, &named("/x"));
    assert!(text.contains("no key"), "{text}");
}

#[test]
fn user_rules_apply_over_loopback_tcp() {
    if !rustix::process::geteuid().is_root() {
        skip(Need::Root, "only root can become another user");
        return;
    }
    let rules = "[[authorization.user]]\nuser = 65534\nregister = [\"/nobody\"]\n";
    let daemon = Daemon::start_with(rules, &[]);
    as_nobody(&daemon, "authorization::another_user_registers_over_tcp");
}

#[test]
fn a_closed_connection_identifies_no_user() {
    let daemon = Daemon::start_with("[tables]\nnack_no_route = false\n", &[]);
    let mut watcher = daemon.connect();
    // Commands after a reset are not read; commands before the end are.
    let mut client = Client::tcp(daemon.tcp());
    let own = client.own_face_by_list();
    let command = Command::RibRegister.name(Scope::Localhost, &named("/gone"));
    let interest = client.command_interest(command, b"");
    client.send(&interest);
    drop(client);
    until("the face is gone", || (!watcher.faces().iter().any(|face| face.face_id == own)).then_some(()));
    assert!(watcher.routes("/gone").is_empty());
}

#[test]
fn browsers_cannot_register_for_web_pages() {
    use std::io::Write;
    let daemon = Daemon::start();
    let command = Command::RibRegister.name(Scope::Localhost, &named("/page"));
    let interest = InterestBuilder::new(command).nonce([1, 2, 3, 4]).build();
    // The head of the request is cut as one packet of type 80 ('P') and length 79 ('O').
    let mut request = b"POST /".to_vec();
    request.resize(81, b'x');
    request.extend_from_slice(&interest);
    let mut stream = std::net::TcpStream::connect(daemon.tcp()).unwrap();
    stream.write_all(&request).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let end = std::io::Read::read(&mut stream, &mut [0; 64]);
    assert!(matches!(end, Ok(0)) || end.is_err_and(|e| e.kind() == std::io::ErrorKind::ConnectionReset));
    assert_eq!(daemon.connect().routes("/page"), []);
}

#[test]
#[ignore = "run as another user by user_rules_apply_over_loopback_tcp"]
fn another_user_registers_over_tcp() {
    let Some(mut client) = connect_as_other_user_by_tcp() else { return };
    client.register("/nobody/x");
    let text = refused(&mut client, Command::RibRegister, &named("/somebody"));
    assert!(text.contains("user 65534"), "{text}");
    refused(&mut client, Command::CsErase, &named("/nobody"));
    // A group of a sync protocol chooses multicast for the prefix that it registered, and no other.
    let multicast = name("/localhost/nfd/strategy/multicast");
    let choice = |prefix| ControlParameters { strategy: Some(multicast.clone()), ..named(prefix) };
    client.ok(Command::StrategyChoiceSet, &choice("/nobody/x"));
    refused(&mut client, Command::StrategyChoiceSet, &choice("/nobody"));
}

#[test]
fn an_expired_certificate_gives_no_rights() {
    let dir = tempfile::tempdir().unwrap();
    let (alice, certificate) = key(dir.path(), "/alice/KEY/1", 2);
    let daemon = Daemon::start_with(&config_with_key(&certificate, "manage = true"), &[]);
    let mut client = Client::tcp(daemon.tcp());
    client.signer = alice;
    refused(&mut client, Command::RibRegister, &named("/alice/x"));
}

#[test]
fn localhost_commands_do_not_pass_udp() {
    let dir = tempfile::tempdir().unwrap();
    let (alice, certificate) = key(dir.path(), "/alice/KEY/1", 0);
    let daemon = Daemon::start_with(&config_with_key(&certificate, "register = [\"/alice\"]"), &[]);
    let mut client = Client::udp(daemon.udp());
    let local = InterestBuilder::new(Dataset::StatusGeneral.prefix(Scope::Localhost)).can_be_prefix().build();
    assert!(client.express(&local, Duration::from_millis(300)).is_none(), "a UDP face is not local");

    client.scope = Scope::Localhop;
    refused(&mut client, Command::RibRegister, &named("/alice/x"));
    client.signer = alice;
    client.register("/alice/x");
    let text =
        refused(&mut client, Command::FacesDestroy, &ControlParameters { face_id: Some(1), ..named("/x") });
    assert!(text.contains("localhop"), "{text}");

    let mut consumer = daemon.connect();
    consumer.ask("/alice/x/1");
    assert_eq!(client.serve_one(b"from a neighbor"), name("/alice/x/1"));
    assert_eq!(consumer.receive(PATIENCE).unwrap().data().content, b"from a neighbor");
}

#[test]
fn localhop_is_silent_unless_configured() {
    let daemon = Daemon::start();
    let mut client = Client::udp(daemon.udp());
    let interest = client.command_interest(Command::RibRegister.name(Scope::Localhop, &named("/x")), b"");
    assert_eq!(client.express(&interest, PATIENCE).unwrap().unwrap_err(), NackReason::NoRoute);
}

#[test]
fn another_user_may_only_bind_by_default() {
    if !rustix::process::geteuid().is_root() {
        skip(Need::Root, "only root can become another user");
        return;
    }
    let daemon = Daemon::start_with("[network]\nlocal = [\"/lab\"]\n", &[]);
    as_nobody(&daemon, "authorization::another_user_binds_below_local_only");
}

#[test]
fn rules_for_users_are_enforced() {
    if !rustix::process::geteuid().is_root() {
        skip(Need::Root, "only root can become another user");
        return;
    }
    let rules = "[network]\nlocal = [\"/lab\"]\n[authorization]\nbind_below_local = false\n\
                 [[authorization.user]]\nuser = 65534\nregister = [\"/nobody\"]\nbind = [\"/bound\"]\n";
    let daemon = Daemon::start_with(rules, &[]);
    as_nobody(&daemon, "authorization::another_user_registers_its_prefix_only");
}

#[test]
fn a_rule_lets_another_user_manage() {
    if !rustix::process::geteuid().is_root() {
        skip(Need::Root, "only root can become another user");
        return;
    }
    let daemon = Daemon::start_with("[[authorization.user]]\nuser = \"*\"\nmanage = true\n", &[]);
    as_nobody(&daemon, "authorization::manages");
}

#[test]
#[ignore = "run as another user by another_user_may_only_bind_by_default"]
fn another_user_binds_below_local_only() {
    let Some(mut client) = connect_as_other_user() else { return };
    let bound = client.command(Command::BptBind, &named("/lab/nobody"));
    assert_eq!((bound.code, bound.text.as_str()), (200, "OK"));
    for prefix in ["/lab", "/other", "/", "/localhost/nfd/x"] {
        let text = refused(&mut client, Command::BptBind, &named(prefix));
        assert!(text.contains("user 65534 may not bind") || text.contains("management"), "{text}");
    }
    let text = refused(&mut client, Command::RibRegister, &named("/lab/nobody"));
    assert!(text.contains("user 65534 may not register /lab/nobody"), "{text}");
    refused(&mut client, Command::RibRegister, &named("/anything"));
    refused(&mut client, Command::RibRegister, &named("/localhost/x"));
    let local = ControlParameters { face_id: Some(1), ..named("/y") };
    refused(&mut client, Command::RibRegister, &local);
    let other = ControlParameters { face_id: Some(256), ..named("/lab/other") };
    refused(&mut client, Command::BptBind, &other);
    refused(&mut client, Command::BptUnbind, &other);
    refused(&mut client, Command::FibAddNexthop, &named("/y"));
    refused(&mut client, Command::CsErase, &named("/"));
    refused(&mut client, Command::StrategyChoiceUnset, &named("/y"));
    let create = ControlParameters { uri: Some("udp4://127.0.0.1:9".into()), ..Default::default() };
    refused(&mut client, Command::FacesCreate, &create);
    refused(
        &mut client,
        Command::FacesDestroy,
        &ControlParameters { face_id: Some(256), ..Default::default() },
    );
}

#[test]
#[ignore = "run as another user by rules_for_users_are_enforced"]
fn another_user_registers_its_prefix_only() {
    let Some(mut client) = connect_as_other_user() else { return };
    client.register("/nobody/x");
    refused(&mut client, Command::RibRegister, &named("/somebody"));
    for (prefix, code) in [("/nobody/y", 200), ("/bound", 200), ("/somebody", 403), ("/lab/x", 403)] {
        let response = client.command(Command::BptBind, &named(prefix));
        assert_eq!(response.code, code, "{prefix}: {}", response.text);
    }
    refused(&mut client, Command::RibRegister, &named("/bound"));
}

#[test]
#[ignore = "run as another user by a_rule_lets_another_user_manage"]
fn manages() {
    let Some(mut client) = connect_as_other_user() else { return };
    client.ok(Command::FibAddNexthop, &named("/y"));
    client.ok(Command::CsErase, &named("/"));
}
