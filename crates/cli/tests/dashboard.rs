//! `namely dashboard` as a command: its output, its routers, and its end.

use crate::common;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

use serde_json::{Value, json};

use self::common::Home;

/// The address and the token that it printed.
fn printed(home: &Home) -> (String, String) {
    let mut found = None;
    home.wait_for("the address", || {
        let log = home.background_log();
        found = log.lines().find_map(|line| {
            let (address, token) = line.strip_prefix("http://")?.split_once("/#token=")?;
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
    let (address, token) = printed(&home);
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
    let mut home = Home::new();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let said = home.fails(69, ["dashboard", "--listen", &address]);
    assert!(said.contains(&format!("cannot listen on {address}")) && said.contains("--listen"), "{said}");
    let open = home.namely(["dashboard", "--listen", "0.0.0.0:0"]);
    home.spawn(open);
    printed(&home);
    home.wait_for("the warning", || {
        let log = home.background_log();
        log.contains("WARNING") && log.contains("without encryption")
    });
}
