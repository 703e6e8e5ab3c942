//! `authorizations` and `rib`: access rights.

use std::path::Path;

use super::Migrated;
use super::info::Entry;

/// The privileges of an identity in NFD. The right `manage` includes all of them.
const PRIVILEGES: [&str; 4] = ["faces", "fib", "cs", "strategy-choice"];

/// The granted rights, by identity.
#[derive(Default)]
struct Rights {
    manage: bool,
    register: bool,
}

pub(super) fn sections(config: &Entry, folder: &Path, to: &mut Migrated) {
    let mut everybody = Rights::default();
    let mut keys: Vec<(String, Rights)> = Vec::new();
    let mut of = |file: &str| {
        let file = folder.join(file).display().to_string();
        let known = keys.iter().position(|(known, _)| *known == file);
        known.unwrap_or_else(|| {
            keys.push((file, Rights::default()));
            keys.len() - 1
        })
    };
    let mut given = Vec::new();
    for authorize in config.get("authorizations").iter().flat_map(|all| &all.below) {
        match authorize.value_of("certfile") {
            Some("any") => {
                everybody.manage = true;
                let any = authorize.get("certfile").unwrap_or(authorize);
                let text = "every local user may manage the router ([[authorization.user]] with `manage`): keep that only \
                            where all users are trusted, otherwise name users, or keys in [[authorization.key]]";
                to.note(any, "authorizations.authorize.certfile", text);
            }
            Some(file) => given.push((of(file), true)),
            None => to.note(authorize, "authorizations.authorize", "names no certfile: left out"),
        }
        let some = authorize.get("privileges").map_or(&[][..], |list| &list.below);
        if !PRIVILEGES.iter().all(|right| some.iter().any(|entry| entry.key == *right)) {
            let text = "`manage` is faces, fib, cs and strategy-choice together: it gives more than this did";
            to.note(authorize, "authorizations.authorize.privileges", text);
        }
    }
    let nothing = Entry::default();
    let rib = config.get("rib").unwrap_or(&nothing);
    const KNOWN: [&str; 5] = [
        "localhost_security",
        "localhop_security",
        "prefix_announcement_validation",
        "auto_prefix_propagate",
        "readvertise_nlsr",
    ];
    to.note_others(rib, "rib", &KNOWN);
    for (key, is_localhop) in [("localhost_security", false), ("localhop_security", true)] {
        let Some(security) = rib.get(key) else { continue };
        rules(security, key, to);
        for anchor in anchors(security) {
            match anchor {
                Anchor::File(file) => given.push((of(file), false)),
                Anchor::Any if !is_localhop => everybody.register = true,
                Anchor::Any => {
                    let text = "namelyd does not accept registrations of everyone on the network: name the certificates of neighbors in [[authorization.key]]";
                    to.note(security, "rib.localhop_security.trust-anchor", text);
                }
                Anchor::Other(entry) => {
                    to.note(
                        entry,
                        &format!("rib.{key}.trust-anchor"),
                        "only `any` and files are known: left out",
                    );
                }
            }
        }
    }
    for (index, manage) in given {
        if let Some((_, rights)) = keys.get_mut(index) {
            rights.manage |= manage;
            rights.register |= !manage;
        }
    }
    announcements(rib, folder, to);
    if let Some(propagate) = rib.get("auto_prefix_propagate") {
        let text =
            "none: routers that face this one can have [[autoreg]], and a routing daemon [readvertise]";
        to.note(propagate, "rib.auto_prefix_propagate", text);
    }
    write(rib.get("localhop_security").is_some(), &everybody, &keys, to);
    if rib.value_of("readvertise_nlsr") == Some("yes") {
        to.table("[readvertise]");
        to.set("origins", vec![toml::Value::from("client")]);
    }
}

fn write(localhop: bool, everybody: &Rights, keys: &[(String, Rights)], to: &mut Migrated) {
    let all = || vec![toml::Value::from("/")];
    if localhop {
        // If the table exists, it is the last one, because `announcements` wrote it and no table
        // followed. So the entry is appended to it.
        if !to.toml.contains("\n[authorization]\n") {
            to.table("[authorization]");
        }
        to.set("localhop_rib", true);
    }
    if everybody.manage || everybody.register {
        to.table("[[authorization.user]]");
        to.set("user", "*");
        if everybody.register {
            to.set("register", all());
        }
        if everybody.manage {
            to.set("manage", true);
        }
    }
    for (file, rights) in keys {
        to.table("[[authorization.key]]");
        to.set("certificate", file.as_str());
        if rights.register {
            to.set("register", all());
        }
        if rights.manage {
            to.set("manage", true);
        }
    }
}

/// Trust anchors of a validator.
enum Anchor<'a> {
    Any,
    File(&'a str),
    Other(&'a Entry),
}

fn anchors(security: &Entry) -> impl Iterator<Item = Anchor<'_>> {
    let all = security.below.iter().filter(|entry| entry.key == "trust-anchor");
    all.map(|anchor| match (anchor.value_of("type"), anchor.value_of("file-name")) {
        (Some("any"), _) => Anchor::Any,
        (Some("file"), Some(file)) => Anchor::File(file),
        _ => Anchor::Other(anchor),
    })
}

fn rules(security: &Entry, key: &str, to: &mut Migrated) {
    if let Some(rule) = security.get("rule") {
        let text = "rules of ndn-cxx's validator have no equivalent: the anchors' own keys may register, but not the keys that they certify";
        to.note(rule, &format!("rib.{key}.rule"), text);
    }
}

fn announcements(rib: &Entry, folder: &Path, to: &mut Migrated) {
    let Some(validation) = rib.get("prefix_announcement_validation") else { return };
    rules(validation, "prefix_announcement_validation", to);
    let mut files: Vec<toml::Value> = Vec::new();
    for anchor in anchors(validation) {
        match anchor {
            // With no anchors, each announcement of a face that may register is accepted.
            Anchor::Any => return,
            Anchor::File(file) => files.push(folder.join(file).display().to_string().into()),
            Anchor::Other(entry) => {
                let key = "rib.prefix_announcement_validation.trust-anchor";
                to.note(entry, key, "only `any` and files are known: left out");
            }
        }
    }
    if !files.is_empty() {
        to.table("[authorization]");
        to.set("announcement_anchors", files);
    }
}
