//! Packets on disk: a directory of append-only files, opened by one [`Store`] at a time; and the
//! disk tier of a content store ([`tier`]).
//!
//! Nothing that was written is ever changed. A store has no index by name in memory: whoever opens
//! it gets each name with its [`Location`], the oldest first, and keeps what it wants to know. It
//! never answers an Interest, decides what may go, or starts a thread.
//!
//! # Files
//!
//! ```text
//! lock                       held as long as a store is open
//! packets-<number>.log       packets; the oldest file has the lowest number, of ten digits
//! packets-<number>.index     what is where in a file that is full; made again when it is damaged
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
//! - `length`, `octets` of an entry: of the packet; `offset`: where its record begins in the file
//!   of packets.
//! - `octets` and `check` of an index: of the whole file of packets, and of its last record. An
//!   index of a file that is another by now is made again. `BLAKE3`: of all before it.
//! - `expires`: ms since the Unix epoch, from when on the packet is no longer fresh; 0: never.
//! - `check`: octet *i* is octet *i* of BLAKE3(packet) XOR octet *i* mod 4 of `length` XOR octet
//!   *i* of `expires`. So a run of zeros is no record, and the header is covered like the packet.
//!
//! A file that begins with "namely-packets-1" has records without `expires` (`length`, `check`,
//! packet), and `check` without it: it is read, and a new file is begun behind it. A file that
//! begins otherwise is refused. An index of another version is made again.
//!
//! # What a crash leaves
//!
//! A record counts once it is whole. When a store is opened, a torn tail of the last file is cut
//! off, and a damaged record with a whole one behind it is skipped and counted ([`Store::losses`]).
//! What a publication appended is on the disk once [`Store::commit`] says so, and with it the names
//! of its files; until then any part of it may be lost when the power goes. What cannot be written
//! (ENOSPC, EIO) is cut off again, and what was there stays. A file that the disk failed to take is
//! not appended to, and no publication that was under way then is believed to be on the disk, since
//! the system tells of such a failure once only. Each packet is checked again when it is read.
//!
//! An embedded database would keep a second copy of every name and write each packet twice (log and
//! pages) to give changes in place, which signed packets never need.
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
//! // Another process, later: each packet that is there is told of.
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
mod lock;
mod scan;
mod store;
#[cfg(test)]
mod testing;
pub mod tier;
mod undo;

pub use error::StoreError;
pub use format::record_octets;
pub use store::{FILES_MAX, Location, OnFound, Record, STORE_PACKETS_MAX, Store, StoredPacket};
