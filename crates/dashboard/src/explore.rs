//! The objects and names below a name. They are fetched through a router by the socket library and
//! verified, up to the amount that a page shows.

use std::io::Read;
use std::time::{Duration, Instant};

use namely_socket::{BindError, Consumer, FetchError, ObjectInfo};
use namely_wire::rdr::{listing, listing_name};
use namely_wire::{Component, Name};
use serde_json::{Value, json};

use crate::act::name;
use crate::look::text;
use crate::reach::{RouterError, RouterLink};

/// Explorations of names in progress at once.
///
/// # Limit
/// A further exploration is refused with 503.
/// - Counter: `refused_busy`
/// - Tests: `excess_actions_are_refused_as_busy`
pub const EXPLORATIONS_MAX: usize = 4;

/// Octets of an object that a dashboard fetches for display.
///
/// # Limit
/// The rest is not fetched.
/// - Tests: `the_page_fetches_verified_content`
pub const PREVIEW_OCTETS_MAX: usize = 64 * 1024;

/// Octets of a directory's listing that a dashboard fetches.
///
/// # Limit
/// A longer listing is refused.
/// - Tests: `a_listing_has_a_size_limit`
pub const LISTING_OCTETS_MAX: u64 = 1 << 20;

/// Entries of a directory that a dashboard lists.
///
/// # Limit
/// The rest is counted.
/// - Tests: `shown_directory_entries_are_limited`
pub const ENTRIES_MAX: usize = 1000;

/// Maximum time of an exploration.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum number of octets of binary content that are shown in hexadecimal.
const HEX_OCTETS: usize = 512;

/// Resolves `wanted` and returns the beginning of its content.
pub(crate) fn explore(reach: &RouterLink, wanted: &str) -> Result<Value, RouterError> {
    let wanted = name(wanted)?;
    let consumer =
        Consumer::bind(Name::new(), reach.consumer(TIMEOUT, LISTING_OCTETS_MAX)).map_err(unbound)?;
    let info = consumer.stat(&wanted).map_err(unfetched)?;
    let signer = info.signer.as_ref().map(|signer| text(&signer.to_string()));
    let about = json!({
        "name": text(&info.name.to_string()), "octets": info.octets, "segments": info.segments,
        "mtime_ms": info.mtime_ns.map(|ns| ns / 1_000_000), "signer": signer,
        "manifests": format!("{:?}", info.signature_mode),
    });
    if info.is_directory {
        let octets = listed(&consumer, &wanted)?;
        return Ok(json!({"kind": "directory", "about": about, "directory": directory(&wanted, &octets)}));
    }
    let octets = beginning(&consumer, &info)?;
    Ok(json!({"kind": "object", "about": about, "content": content(&octets, info.octets)}))
}

fn listed(consumer: &Consumer, directory: &Name) -> Result<Vec<u8>, RouterError> {
    consumer.fetch(&listing_name(directory.as_name())).map_err(unfetched)
}

fn directory(of: &Name, octets: &[u8]) -> Value {
    let (mut shown, mut total) = (Vec::new(), 0_usize);
    // An entry that cannot be read ends the list, because the beginning of the next is unknown.
    for entry in listing(octets).map_while(Result::ok) {
        total += 1;
        if shown.len() < ENTRIES_MAX {
            let below = of.join(Component::generic(entry.name));
            let label = String::from_utf8_lossy(entry.name);
            shown.push(
                json!({"label": text(&label), "name": below.to_string(), "directory": entry.is_directory}),
            );
        }
    }
    json!({"total": total, "entries": shown})
}

fn beginning(consumer: &Consumer, info: &ObjectInfo) -> Result<Vec<u8>, RouterError> {
    let end = Instant::now() + TIMEOUT;
    let mut stream = consumer.open(&info.name).map_err(unfetched)?;
    stream.set_limit(PREVIEW_OCTETS_MAX as u64);
    let mut octets = Vec::new();
    let mut piece = vec![0; 16 * 1024];
    while octets.len() < PREVIEW_OCTETS_MAX && Instant::now() < end {
        let room = piece.len().min(PREVIEW_OCTETS_MAX - octets.len());
        let read = stream.read(piece.get_mut(..room).unwrap_or_default());
        match read.map_err(|error| RouterError { what: error.to_string(), hint: None })? {
            0 => break,
            read => octets.extend_from_slice(piece.get(..read).unwrap_or_default()),
        }
    }
    Ok(octets)
}

/// The octets as text if they are text; otherwise the first of them in hexadecimal.
fn content(octets: &[u8], total: Option<u64>) -> Value {
    let is_cut = total.is_none_or(|total| octets.len() as u64 != total) && octets.len() >= PREVIEW_OCTETS_MAX;
    let readable = match std::str::from_utf8(octets) {
        Ok(text) => Some(text),
        // The last character may be cut.
        Err(error) if is_cut && error.error_len().is_none() => {
            octets.get(..error.valid_up_to()).and_then(|octets| std::str::from_utf8(octets).ok())
        }
        Err(_) => None,
    };
    let shown = octets.len();
    match readable.filter(|text| !text.contains('\0')) {
        Some(text) => json!({"text": text, "shown": shown, "cut": is_cut}),
        None => {
            let hex: String = octets.iter().take(HEX_OCTETS).map(|octet| format!("{octet:02x}")).collect();
            json!({"hex": hex, "shown": shown, "cut": is_cut})
        }
    }
}

fn unbound(error: BindError) -> RouterError {
    RouterError { what: error.to_string(), hint: error.hint().map(Into::into) }
}

fn unfetched(error: FetchError) -> RouterError {
    RouterError { what: error.to_string(), hint: error.hint().map(Into::into) }
}

#[cfg(test)]
mod tests {
    use namely_daemon::Router;
    use namely_daemon::config::Config;
    use namely_security::TrustPolicy;
    use namely_socket::{Producer, ProducerOptions, PublishOptions, Suite, Trust};
    use namely_wire::FaceUri;
    use namely_wire::rdr::{ListingEntry, encode_listing};

    use super::*;

    #[test]
    fn non_text_content_becomes_octets() {
        assert_eq!(content("zu Ende: ä".as_bytes(), Some(11))["text"], "zu Ende: ä");
        assert_eq!(content(b"\xff\x00", Some(2))["hex"], "ff00");
        assert_eq!(content(b"a\0", Some(2))["hex"], "6100");
        let mut long = vec![b'a'; PREVIEW_OCTETS_MAX - 1];
        long.push("ä".as_bytes()[0]);
        let cut = content(&long, Some(PREVIEW_OCTETS_MAX as u64 + 1));
        assert_eq!(cut["text"].as_str().unwrap().len(), PREVIEW_OCTETS_MAX - 1);
        assert_eq!(cut["cut"], true);
        long[PREVIEW_OCTETS_MAX - 1] = b'a';
        assert_eq!(content(&long, Some(PREVIEW_OCTETS_MAX as u64))["cut"], false, "all of it");
    }

    #[test]
    fn a_listing_has_a_size_limit() {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("namely.sock").to_str().unwrap().to_owned();
        let mut config = Config::default();
        config.faces.listen = vec![FaceUri::Unix(socket.clone())];
        let _router = Router::start(config).unwrap();
        let router = Some(format!("unix://{socket}"));
        let trust = Trust::Policy(TrustPolicy::digest_only().into());
        let reach = RouterLink { router: router.clone(), trust_router_of: String::new(), trust };
        let options = ProducerOptions { router, suite: Suite::DigestSha256, ..ProducerOptions::default() };
        let producer = Producer::bind("/lab".parse().unwrap(), options).unwrap();
        let consumer = Consumer::bind(Name::new(), reach.consumer(TIMEOUT, LISTING_OCTETS_MAX)).unwrap();
        for (name, octets, is_fetched) in
            [("/lab/a", LISTING_OCTETS_MAX, true), ("/lab/b", LISTING_OCTETS_MAX + 1, false)]
        {
            let name: Name = name.parse().unwrap();
            let content = vec![b'x'; octets as usize];
            producer.publish(&listing_name(name.as_name()), &content, &PublishOptions::default()).unwrap();
            let found = listed(&consumer, &name);
            assert_eq!(found.is_ok(), is_fetched, "{octets}: {:?}", found.err());
        }
    }

    #[test]
    fn shown_directory_entries_are_limited() {
        for (n, shown) in [(ENTRIES_MAX, ENTRIES_MAX), (ENTRIES_MAX + 1, ENTRIES_MAX)] {
            let names: Vec<String> = (0..n).map(|i| format!("f{i}")).collect();
            let entries = names.iter().map(|name| ListingEntry::new(name.as_bytes(), false).unwrap());
            let octets = encode_listing(entries);
            let found = directory(&"/lab".parse().unwrap(), &octets);
            assert_eq!(found["total"], n);
            assert_eq!(found["entries"].as_array().unwrap().len(), shown);
            assert_eq!(found["entries"][0]["name"], "/lab/f0");
        }
    }
}
