//! No test assumes that an event happens within a fixed sleep: on a busy machine it happens later.
//! Tests wait for a condition with `namely_testkit`. If time itself is the subject of a test, its
//! sleep is listed here with the reason.

use super::each_source;

/// Permitted sleeps of tests: file, number, and the reason why no condition can replace them.
const SLEEPS: &[(&str, usize, &str)] = &[
    ("bench/src/probe.rs", 1, "answers late"),
    ("crates/cli/tests/memif.rs", 1, "kills at some moment of a burst"),
    ("crates/daemon/tests/beside/mod.rs", 1, "a producer takes its time"),
    ("crates/daemon/tests/busy_poll.rs", 3, "measures idleness"),
    ("crates/daemon/tests/common/client.rs", 1, "answers late"),
    ("crates/daemon/tests/costs.rs", 2, "measures idleness"),
    ("crates/daemon/tests/faults.rs", 2, "measures idleness"),
    ("crates/daemon/tests/idle.rs", 2, "measures idleness"),
    ("crates/daemon/tests/many_neighbours.rs", 2, "measures octets a second"),
    ("crates/daemon/tests/neighbours.rs", 1, "paces a flood"),
    ("crates/daemon/tests/proof.rs", 1, "that a neighbor stays is seen by time only"),
    ("crates/daemon/tests/vip_overload.rs", 1, "paces a flood"),
    ("crates/dataplane/tests/dataplane.rs", 1, "reads slowly, so that a queue stands"),
    ("crates/dashboard/src/connection.rs", 2, "reads slowly, and then no more"),
    ("crates/datagrams/src/mmsg.rs", 1, "the time that a datagram lies is measured"),
    ("crates/files/tests/serve_and_get.rs", 1, "paces changes of a file"),
    ("crates/host/src/clock.rs", 1, "the time of a sleep is measured"),
    ("crates/io/tests/descriptors.rs", 1, "counts tries in a time"),
    ("crates/io/tests/ethernet.rs", 1, "paces a flood"),
    ("crates/io/tests/ethernet_faults.rs", 1, "a device is gone for a moment"),
    ("crates/io/tests/shares.rs", 3, "reads slowly; works long; lets answers become late"),
    ("crates/io/tests/udp.rs", 1, "paces packets beside a flood"),
    ("crates/io/tests/unix.rs", 1, "measures idleness"),
    ("crates/io/tests/unproven.rs", 1, "paces a flood"),
    ("crates/proxy/tests/overload.rs", 1, "holds a place for some tries"),
    ("crates/socket/tests/fetch.rs", 1, "that no more comes is seen by time only"),
    ("crates/socket/tests/on_demand.rs", 1, "races are begun at several moments"),
    ("crates/tier/src/tests.rs", 1, "kills at some moment of a write"),
    ("experiments/src/linear_video/audience.rs", 1, "answers late"),
    ("interop/tests/path_mtu.rs", 1, "that no more is sent is seen by time only"),
];

/// Exempt: this file, and the helper that sleeps between two checks of a condition.
const OF_THE_RULE: [&str; 2] = ["crates/cli/tests/rules/sleeps.rs", "crates/testkit/src/wait.rs"];

/// The tests of a file: all of a test file, otherwise the part from its test module on, which is
/// the last item of a file.
fn of_tests<'a>(name: &str, text: &'a str) -> &'a str {
    let is_tests = ["tests", "benches"].iter().any(|folder| name.contains(&format!("/{folder}/")))
        || name.ends_with("/tests.rs")
        || name.starts_with("interop/");
    let begin = if is_tests { Some(0) } else { module_of_tests(text) };
    begin.map_or("", |begin| &text[begin..])
}

/// The offset of the first inline test module.
fn module_of_tests(text: &str) -> Option<usize> {
    let mark = "#[cfg(test)]\nmod ";
    let marks = text.match_indices(mark).map(|(at, _)| at);
    // A module in a file of its own (`mod tests;`) is searched there.
    marks
        .into_iter()
        .find(|at| text[at + mark.len()..].lines().next().is_some_and(|line| line.ends_with('{')))
}

/// The number of calls of functions named `sleep`, such as those of the standard library and tokio.
/// Methods, definitions and comments do not count.
fn sleeps(text: &str) -> usize {
    let code = text.lines().map(|line| line.split("//").next().unwrap_or_default());
    code.map(|line| {
        let calls = line.match_indices("sleep(").map(|(at, _)| &line[..at]);
        calls.filter(|before| is_call(before)).count()
    })
    .sum()
}

/// True if `sleep(` after this text calls a function of that name.
fn is_call(before: &str) -> bool {
    let is_of_a_type = before.ends_with('.') || before.ends_with("fn ");
    let is_longer = before.ends_with(|last: char| last.is_alphanumeric() || last == '_');
    !is_of_a_type && !is_longer
}

#[test]
fn tests_wait_for_conditions_not_time() {
    let mut found: Vec<(String, usize)> = Vec::new();
    each_source(&mut |name, text| {
        let count = if OF_THE_RULE.contains(&name) { 0 } else { sleeps(of_tests(name, text)) };
        found.extend((count > 0).then(|| (name.to_owned(), count)));
    });
    let mut wrong: Vec<String> = Vec::new();
    for (file, count) in &found {
        let entered = SLEEPS.iter().find(|(name, ..)| name == file).map_or(0, |(_, count, _)| *count);
        if *count > entered {
            wrong.push(format!(
                "{file} sleeps {count} times, and {entered} are entered: wait for a condition by \
                 `namely_testkit::eventually`, or enter the sleep in rules/sleeps.rs with the reason"
            ));
        }
    }
    for (file, entered, _) in SLEEPS {
        let count = found.iter().find(|(name, _)| name == file).map_or(0, |(_, count)| *count);
        if count < *entered {
            wrong.push(format!(
                "{file} sleeps {count} times: lower its entry of {entered} in rules/sleeps.rs"
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn sleep_calls_are_distinguished_from_methods() {
    let text = "fn a() { std::thread::sleep(x); }\n#[cfg(test)]\nmod tests {\n    sleep(x);\n    a.sleep(x); // sleep(\n}\n";
    assert_eq!((sleeps(text), sleeps(of_tests("crates/a/src/lib.rs", text))), (2, 1));
    assert_eq!(sleeps(of_tests("crates/a/tests/b.rs", text)), 2);
    assert_eq!(sleeps("tokio::time::sleep(x).await; fn sleep(x) {} asleep(x) interrupt.sleep(x)"), 1);
    let elsewhere = "#[cfg(test)]\nmod tests;\nfn a() { sleep(x); }\n";
    assert_eq!(sleeps(of_tests("crates/a/src/lib.rs", elsewhere)), 0);
}
