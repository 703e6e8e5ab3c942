//! Files of a tree that are fetched at once.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use namely_files::get::JOBS_DEFAULT;
use namely_files::index::PACKED_OCTETS_MAX;
use namely_files::{FileServer, GetOptions, ServeOptions, get_tree};
use namely_socket::{Consumer, Flow};
use namely_transport::connection::Outbox;
use namely_transport::serve::Producer;
use namely_wire::types::GENERIC_COMPONENT;
use namely_wire::{InterestView, LpHeaders, Name, NameRef};

use crate::common::{believing, connection_to, content, key_of, name};
use crate::trees::{SYNC, Site};

/// Octets of a file that is fetched by its own name.
const OCTETS: usize = PACKED_OCTETS_MAX as usize + 1;

/// A producer over a long path: it answers requests for the content of files once that of `at_once`
/// files is requested.
struct LongPath {
    server: FileServer,
    at_once: usize,
    held: Vec<(Vec<u8>, LpHeaders)>,
    requested: Arc<Mutex<Requested>>,
}

/// The files that were requested.
#[derive(Default)]
struct Requested {
    /// In the order of the requests.
    files: Vec<String>,
    content: BTreeSet<String>,
    /// Files with any request when the first content was sent.
    at_once: usize,
}

/// Returns the file of `/p/FILE/…`, unless the request is for the index.
fn file_of(name: NameRef<'_>) -> Option<String> {
    let file = name.components().nth(1).filter(|component| component.typ == GENERIC_COMPONENT)?;
    Some(String::from_utf8_lossy(file.value).into_owned())
}

impl Producer for LongPath {
    fn prefixes(&self) -> Vec<Name> {
        self.server.prefixes()
    }

    fn answer(&mut self, interest: &InterestView<'_>, headers: &LpHeaders, outbox: &mut Outbox) {
        let Some(file) = file_of(interest.name) else { return self.server.answer(interest, headers, outbox) };
        let mut requested = self.requested.lock().unwrap();
        if requested.files.last() != Some(&file) {
            requested.files.push(file.clone());
        }
        // The name of the metadata has no version.
        let is_content = interest.name.components().any(|component| component.version().is_some());
        if is_content && requested.at_once == 0 {
            requested.content.insert(file);
            self.held.push((interest.wire.to_vec(), *headers));
            if requested.content.len() == self.at_once {
                requested.at_once = requested.files.iter().collect::<BTreeSet<_>>().len();
                for (wire, headers) in self.held.drain(..) {
                    let interest = InterestView::parse(&wire).unwrap();
                    self.server.answer(&interest, &headers, outbox);
                }
            }
            return;
        }
        drop(requested);
        self.server.answer(interest, headers, outbox);
    }
}

/// Fetches a tree of `files` files over a path that waits for `at_once` of them. Returns the files
/// that were requested then, and all in the order of the requests.
fn fetched(files: usize, at_once: usize, jobs: Option<usize>) -> Requested {
    let site = Site::new();
    for file in 0..files {
        site.write(file.to_string(), content(OCTETS, file));
    }
    let (signer, anchor) = key_of("/p");
    let server = FileServer::new(&site.served(), ServeOptions::new(name("/p")), signer).unwrap();
    let requested = Arc::new(Mutex::new(Requested::default()));
    let path = LongPath { server, at_once, held: Vec::new(), requested: requested.clone() };
    let consumer = Consumer::over(connection_to(path), Name::new(), believing(anchor)).unwrap();
    let options = GetOptions { jobs, ..SYNC };
    let got = get_tree(&consumer, &name("/p"), &site.got(), options, &mut |_| Flow::Continue).unwrap();
    assert_eq!((got.files, got.failures), (files as u64, 0), "{:?}", got.failed);
    for file in 0..files {
        let there = std::fs::read(site.got().join(file.to_string())).unwrap();
        assert!(there == content(OCTETS, file), "{file}");
    }
    std::mem::take(&mut *requested.lock().unwrap())
}

#[test]
fn small_files_are_in_flight_at_once() {
    let requested = fetched(JOBS_DEFAULT + 4, JOBS_DEFAULT, None);
    assert_eq!(requested.at_once, JOBS_DEFAULT, "{:?}", requested.files);
}

#[test]
fn a_number_limits_files_in_flight() {
    let requested = fetched(7, 3, Some(3));
    assert_eq!(requested.at_once, 3, "{:?}", requested.files);
}

#[test]
fn one_job_fetches_files_in_turn() {
    let requested = fetched(5, 1, Some(1));
    assert_eq!(requested.files, ["0", "1", "2", "3", "4"]);
}
