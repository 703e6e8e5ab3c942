//! Routers and applications that do not see each other's processes, as in two containers that share
//! a Unix socket: the kernel reports the user of the peer, but no process id.

use crate::common;

use std::process::Command;

use common::{Home, ended};
use namely_testkit::{Need, skip};

/// Returns `command` in a process namespace of its own. Skips the test and returns `None` if the
/// system refuses.
fn apart(command: &Command) -> Option<Command> {
    let mut words = vec!["--pid", "--fork", "--kill-child"];
    if !rustix::process::geteuid().is_root() {
        words.extend(["--user", "--map-current-user"]);
    }
    let is_there = Command::new("unshare").args(&words).arg("true").output();
    if !is_there.is_ok_and(|output| output.status.success()) {
        skip(Need::Namespaces, "unshare cannot give a program process ids of its own");
        return None;
    }
    let mut apart = Command::new("unshare");
    apart.args(words).arg(command.get_program()).args(command.get_args());
    if let Some(folder) = command.get_current_dir() {
        apart.current_dir(folder);
    }
    for (key, value) in command.get_envs() {
        match value {
            Some(value) => apart.env(key, value),
            None => apart.env_remove(key),
        };
    }
    Some(apart)
}

#[test]
fn applications_find_routers_across_containers() {
    let home = Home::with_router();
    for words in [&["status"][..], &["route", "add", "/far", "local"]] {
        let Some(mut command) = apart(&home.namely(words)) else { return };
        let end = ended(command.output().unwrap());
        assert_eq!(end.code, Some(0), "{words:?}: {end:?}");
    }
}

#[test]
fn routers_identify_users_across_containers() {
    let mut home = Home::new();
    let Some(router) = apart(&home.namely(["up", "--no-config", "--listen", &home.router_uri()])) else {
        return;
    };
    home.spawn(router);
    home.wait_for("the router", || home.run(["status"]).code == Some(0));
    let text = home.path("note.txt");
    std::fs::write(&text, "there").unwrap();
    let put = home.namely(["put", &text.display().to_string(), "/lab/note", "--for", "3600"]);
    home.spawn(put);
    home.ok(["wait", "/lab/note"]);
    assert_eq!(home.ok(["get", "/lab/note", "-o", "-"]), "there");
}
