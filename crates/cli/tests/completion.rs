//! Completion of names that only the network or the key chain knows.

use crate::common;

use std::fs;

use common::Home;

fn complete(home: &Home, words: &[&str]) -> Vec<String> {
    home.ok([&["complete", "--"], words].concat()).lines().map(str::to_owned).collect()
}

#[test]
fn distrust_completes_the_trusted_anchors() {
    let (home, other) = (Home::new(), Home::new());
    home.ok(["key", "new", "/mine"]);
    other.ok(["key", "new", "/lab/other"]);
    fs::write(home.path("other.cert"), other.ok(["cert", "export", "/lab/other"])).unwrap();
    home.ok(["cert", "trust", "other.cert"]);
    let anchor = home.json(["cert", "trusted"])[0]["certificate"].as_str().unwrap().to_owned();
    assert_eq!(complete(&home, &["cert", "distrust", ""]), ["/lab/other".to_owned(), anchor]);
    assert!(complete(&home, &["cert", "distrust", "/mine"]).is_empty(), "a key of one's own is no anchor");
}

#[test]
fn names_below_a_directory_are_completed() {
    let mut home = Home::with_router();
    fs::create_dir_all(home.path("data/odd dir")).unwrap();
    fs::write(home.path("data/run7.root"), "7").unwrap();
    fs::write(home.path("data/odd dir/x"), "x").unwrap();
    home.serve("/lab/data", ["serve", "data", "--prefix", "/lab/data"]);
    // The server indexes the directory once it has registered its name.
    home.wait_for("the listing", || home.run(["ls", "/lab/data"]).code == Some(0));
    // On a busy machine the listing may come later than a user at a terminal would wait.
    let completes = |words: &[&str], expected: &[&str]| {
        home.wait_for("the completion", || complete(&home, words) == expected);
    };
    completes(&["get", "/lab/data/"], &["/lab/data/odd%20dir", "/lab/data/run7.root"]);
    completes(&["get", "/lab/data/r"], &["/lab/data/run7.root"]);
    completes(&["ls", "/lab/data/odd%20dir/"], &["/lab/data/odd%20dir/x"]);
    assert!(complete(&home, &["get", "/elsewhere/x"]).is_empty());
}
