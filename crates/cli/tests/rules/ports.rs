//! A test that binds a port later takes it from `namely_testkit::free_port`. The system gives a
//! port of its own range, once released, to the next socket of any process.

use super::each_source;

/// Returns true for a statement that binds any port and releases it at once.
fn releases_a_port(statement: &str) -> bool {
    let plain: String = statement.split_whitespace().collect();
    plain.match_indices("::bind(").any(|(start, _)| {
        let Some((address, rest)) = plain[start + 7..].split_once(')') else { return false };
        let is_any = address.ends_with(":0\"") || address.ends_with(",0");
        is_any && (rest.contains(".local_addr()") || rest.contains("::local_addr"))
    })
}

#[test]
fn no_test_rebinds_a_released_port() {
    let mut found = Vec::new();
    each_source(&mut |name, text| {
        if name.contains("/tests/") && !name.ends_with("rules/ports.rs") {
            found.extend(
                text.split(';').filter(|part| releases_a_port(part)).map(|part| format!("{name}: {part}")),
            );
        }
    });
    assert!(found.is_empty(), "call `namely_testkit::free_port`:\n{}", found.join("\n"));
}

#[test]
fn released_ports_are_detected() {
    assert!(releases_a_port(
        "let p = UdpSocket::bind(\"127.0.0.1:0\").unwrap().local_addr().unwrap().port()"
    ));
    assert!(releases_a_port("|| TcpListener::bind((LOCALHOST, 0)).and_then(|l| l.local_addr())"));
    assert!(!releases_a_port("let socket = UdpSocket::bind(\"127.0.0.1:0\").unwrap()"));
    assert!(!releases_a_port("let a = TcpListener::bind(\"127.0.0.1:7\").unwrap().local_addr()"));
}
