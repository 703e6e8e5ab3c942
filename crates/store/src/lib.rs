//! Packets on disk: a directory of append-only files, opened by one [`Store`] at a time.
//!
//! Written records never change. A store has no index by name in memory. When it opens, the store
//! passes each name with its [`Location`] to the caller, oldest first, and the caller builds its
//! own index. A store never answers an Interest, decides on evictions, or starts a thread.
//!
//! # Files
//!
//! ```text
//! lock                       held as long as a store is open
//! packets-<number>.log       packets; the oldest file has the lowest number, of ten digits
//! packets-<number>.index     names and positions of a full file's packets; rebuilt if damaged
//! ```
//!
//! All numbers are little-endian.
//!
//! ```text
//! packets-<number>.log
//! 0                              16
//! | "namely-packets-2" (16)      | record | record | ...
//!
//! record
//! 0            4                     12               20
//! | length (4) | expires (8)         | check (8)      | packet (length octets): one Data
//!
//! packets-<number>.index
//! 0                         16           24          32
//! | "namely-index-003" (16) | octets (8) | check (8) | entries (4) | entry | ... | BLAKE3 (32)
//!
//! entry
//! 0             8            12            20                22
//! | offset (8)  | octets (4) | expires (8) | name octets (2) | name: its components' TLVs
//! ```
//!
//! - `length`, and `octets` of an entry: the size of the packet. `offset`: the start of the
//!   packet's record in the file of packets.
//! - `octets` of an index: the size of the file of packets. `check` of an index: the check of the
//!   file's last record. If either differs from the file, the index is rebuilt. `BLAKE3`: the
//!   digest of all octets before it.
//! - `expires`: end of the packet's freshness, in ms since the Unix epoch; 0: no end.
//! - `check`: octet *i* is octet *i* of BLAKE3(packet) XOR octet *i* mod 4 of `length` XOR octet
//!   *i* of `expires`. Hence a run of zeros is no record, and the check covers the header, too.
//!
//! A file that begins with "namely-packets-1" has records without `expires`: `length`, `check`,
//! packet. Their `check` has no `expires` as an input. The store reads such a file, and begins a
//! new file after it. It refuses a file that begins otherwise, and rebuilds an index of another
//! version.
//!
//! # Crash recovery
//!
//! A record counts once it is whole. When a store is opened, a torn tail of the last file is cut
//! off, and a damaged record with a whole one after it is skipped and counted ([`Store::losses`]).
//! The records of a publication, and the names of their files, are on the disk once
//! [`Store::commit`] succeeds; until then a power cut may lose any part of them. After a failed
//! write (ENOSPC, EIO) its remains are cut off, and earlier records stay. After a failed
//! synchronization the file receives no more records. Every publication in progress at that time
//! fails, because the system reports such a failure only once. Each packet is checked again when it
//! is read.
//!
//! An embedded database would keep a second copy of every name and write each packet twice (log and
//! pages). In return it would allow updates in place, which signed packets never need.
//!
//! ```
//! use namely_store::{Record, Store};
//! # use namely_security::{Signer, sign_data};
//! # use namely_wire::{DataBuilder, Name};
//! # let directory = tempfile::tempdir()?;
//! # let folder = directory.path();
//! # let name: Name = "/lab/run7/v=1".parse().expect("a name");
//! # let packet = &sign_data(&DataBuilder::new(name.as_name()), b"42", &Signer::digest_sha256())?;
//! let mut store = Store::open(folder, 1 << 30, &mut |_, _, _| {})?;
//! let publication = store.begin();
//! let places = store.append(&[Record { name: name.as_bytes(), packet, expires_ms: 0 }])?;
//! store.commit(publication)?;
//! drop(store);
//!
//! // Another process, later: the store reports each packet.
//! let mut found = Vec::new();
//! let store = Store::open(folder, 1 << 30, &mut |name, location, _| {
//!     found.push((name.to_vec(), location));
//! })?;
//! assert_eq!(found, [(name.as_bytes().to_vec(), places[0])]);
//! let stored = store.reader(places[0]).expect("its file is there").read()?;
//! assert_eq!(stored.as_ref(), Some(packet));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![deny(unsafe_code)]

mod error;
mod format;
mod index;
mod scan;
mod store;
mod undo;

pub use error::StoreError;
pub use format::record_octets;
pub use store::{FILES_MAX, Location, OnFound, Record, STORE_PACKETS_MAX, Store, StoredPacket};
