//! `namely dashboard` as a command: its output, its routers, and its end.

use crate::common;

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use namely_testkit::{Need, skip, succeeds_or_skip};
use serde_json::{Value, json};

use self::common::Home;

/// The address, after this scheme, and the token that it printed.
fn printed(home: &Home, scheme: &str) -> (String, String) {
    let mut found = None;
    home.wait_for("the address", || {
        let log = home.background_log();
        found = log.lines().find_map(|line| {
            let (address, token) = line.strip_prefix(scheme)?.split_once("/#token=")?;
            Some((address.to_owned(), token.to_owned()))
        });
        found.is_some()
    });
    found.unwrap()
}

/// Posts a request and returns the body of the response.
fn post(address: &str, token: &str, path: &str, body: &Value) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    let body = body.to_string();
    let octets = body.len();
    let request = format!(
        "POST {path} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n\
         Content-Length: {octets}\r\n\r\n{body}"
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer.split_once("\r\n\r\n").unwrap().1.to_owned()
}

#[test]
fn the_dashboard_shows_the_given_routers() {
    let mut home = Home::with_router();
    let other = format!("unix://{}", home.path("other.sock").display());
    home.start_router_at(&[&other]);
    let hostile = "<img src=x onerror=alert(1)>";
    std::fs::create_dir(home.path("data")).unwrap();
    std::fs::write(home.path("data").join(hostile), "x").unwrap();
    home.serve("/lab", ["serve", "data", "--prefix", "/lab"]);
    let first = home.router_uri();
    // One of them before the command, as for every command.
    let page = home.namely(["--router", &first, "dashboard", "--listen", "127.0.0.1:0", "--router", &other]);
    let page = home.spawn(page);
    let (address, token) = printed(&home, "http://");
    let explored =
        |router: u64| post(&address, &token, "/api/explore", &json!({"router": router, "name": "/lab"}));
    let found: Value = serde_json::from_str(&explored(0)).unwrap();
    assert_eq!(found["directory"]["entries"][0]["label"], hostile, "{found}");
    assert_eq!(found["kind"], "directory");
    assert!(explored(1).contains("error"), "the other router has no route to it");
    assert!(explored(2).contains("no such router"));
    home.stop(page);
    let log = home.background_log();
    assert!(log.contains("3 requests") && !log.contains("WARNING"), "{log}");
}

#[test]
fn dashboard_listen_problems_print_clear_lines() {
    let home = Home::new();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let said = home.fails(69, ["dashboard", "--listen", &address]);
    assert!(said.contains(&format!("cannot listen on {address}")) && said.contains("--listen"), "{said}");
    let said = home.fails(2, ["dashboard", "--listen", "0.0.0.0:0"]);
    assert!(said.contains("without TLS") && said.contains("--tls-cert") && said.contains("ssh -L"), "{said}");
    for alone in ["--tls-cert", "--tls-key"] {
        home.fails(2, ["dashboard", alone, "cert.pem"]);
    }
    let said = home.fails(1, ["dashboard", "--tls-cert", "cert.pem", "--tls-key", "key.pem"]);
    assert!(
        said.contains("cannot read key.pem: No such file or directory\n") && said.contains("hint: check"),
        "{said}"
    );
}

/// The command by which docs/dashboard.md makes a certificate.
fn documented_openssl() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/dashboard.md");
    let page = fs::read_to_string(path).unwrap();
    let (_, from) = page.split_once("\nopenssl ").unwrap();
    let (command, _) = from.split_once("\nnamely ").unwrap();
    format!("openssl {command}")
}

#[test]
fn the_documented_certificate_serves_https() {
    let mut home = Home::new();
    let make = || {
        let mut shell = Command::new("sh");
        shell.args(["-c", &documented_openssl()]).current_dir(home.path(""));
        succeeds_or_skip(Need::Openssl, &mut shell)
    };
    if !make() {
        return;
    }
    let words = [
        "dashboard",
        "--listen",
        "0.0.0.0:0",
        "--tls-cert",
        "cert.pem",
        "--tls-key",
        "key.pem",
        "--interval",
        "60",
    ];
    let set_mode = |mode| {
        let key = home.path("key.pem");
        fs::set_permissions(key, fs::Permissions::from_mode(mode)).unwrap();
    };
    set_mode(0o644);
    let said = home.fails(1, words);
    assert!(said.contains("others may open it (mode 644)") && said.contains("chmod 600 key.pem"), "{said}");
    set_mode(0o600);
    let page = home.namely(words);
    let page = home.spawn(page);
    let (address, token) = printed(&home, "https://");
    let mut curl = Command::new("curl");
    curl.args(["--silent", "--fail", "--noproxy", "*", "--cacert", "cert.pem", "--resolve"]);
    curl.args([&format!("{address}:127.0.0.1"), "-H", &format!("Authorization: Bearer {token}")]);
    curl.arg(format!("https://{address}/api/token")).current_dir(home.path(""));
    assert!(address.starts_with("lab.example:"), "{address}");
    match curl.output() {
        Ok(output) => assert!(output.status.success(), "{output:?}"),
        Err(error) => skip(Need::Curl, error),
    }
    home.wait_for("the fingerprint", || home.background_log().contains(&fingerprint(&home)));
    assert!(home.background_log().contains("other machines can reach 0.0.0.0:"));
    let shell = documented_openssl();
    let made = Command::new("sh").args(["-c", &shell]).current_dir(home.path("")).output().unwrap();
    assert!(made.status.success());
    let renewed = || home.background_log().lines().any(|line| line == fingerprint(&home));
    home.wait_for("the renewal", || {
        home.background_log().contains("the certificate was renewed") && renewed()
    });
    fs::write(home.path("cert.pem"), "none").unwrap();
    let faulty = || {
        home.background_log()
            .contains("WARNING: cert.pem has no certificate in PEM; the previous certificate")
    };
    home.wait_for("the report of the fault", faulty);
    home.stop(page);
    let log = home.background_log();
    assert!(log.contains(" without a TLS handshake") && !log.contains("PRIVATE"), "{log}");
}

/// The SHA-256 of the certificate in the file, as the dashboard prints it.
fn fingerprint(home: &Home) -> String {
    let mut openssl = Command::new("openssl");
    openssl.args(["x509", "-in", "cert.pem", "-noout", "-fingerprint", "-sha256"]).current_dir(home.path(""));
    let said = String::from_utf8(openssl.output().unwrap().stdout).unwrap();
    let (_, digits) = said.split_once('=').unwrap();
    digits.trim().replace(':', "").to_lowercase()
}
