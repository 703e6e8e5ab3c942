//! Objects that a C program holds by a number (`icn_open` and its relatives), and the listings of
//! directories.
//!
//! Follows docs/c.md. Without ICN_AHEAD, a read requests only its own octets. So many objects may
//! be open, and none of them caches content.

use std::io::{Read, Seek, SeekFrom};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use libc::c_int;
use namely_socket::{Consumer, ObjectStream};
use namely_wire::{Name, rdr};

use crate::failure::{Errno, Failure};
use crate::objects::stat_of;
use crate::reading::{of_stream, timeout};
use crate::socket::{check_flags, find};
use crate::system::signals_blocked;
use crate::table::Table;
use crate::types::{ICN_AHEAD, ICN_OPEN_MAX, ICN_RANGES_MAX, ICN_RANGES_OCTETS_MAX, icn_stat};

static OPENED: Table<Opened, ICN_OPEN_MAX> = Table::new();

/// An open object: one version of it, unaffected by later publications.
struct Opened {
    consumer: Arc<Consumer>,
    /// Requests the octets of each read, and nothing else.
    stream: ObjectStream,
    /// Reads ahead, from the first read with ICN_AHEAD on.
    ahead: Mutex<Option<Ahead>>,
}

struct Ahead {
    stream: ObjectStream,
    position: u64,
}

impl Opened {
    fn ahead(&self) -> MutexGuard<'_, Option<Ahead>> {
        self.ahead.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn of(number: c_int) -> Result<Arc<Self>, Failure> {
        Ok(OPENED.get(number)?)
    }
}

/// `icn_open`.
pub(crate) fn open(socket: c_int, name: &Name) -> Result<c_int, Failure> {
    let consumer = find(socket)?.consumer()?;
    let stream = signals_blocked(|| consumer.open_async(name))?.wait(timeout(&consumer))?;
    Ok(OPENED.insert(Opened { consumer, stream, ahead: Mutex::new(None) })?)
}

/// `icn_shut`.
pub(crate) fn shut(number: c_int) -> Result<(), Failure> {
    OPENED.remove(number)?;
    Ok(())
}

/// `icn_fstat`.
pub(crate) fn stat(number: c_int) -> Result<icn_stat, Failure> {
    Ok(stat_of(&Opened::of(number)?.stream.info()))
}

/// `icn_read_at`.
pub(crate) fn read_at(number: c_int, buffer: &mut [u8], offset: i64, flags: c_int) -> Result<usize, Failure> {
    check_flags(flags, ICN_AHEAD)?;
    let from = place(offset)?;
    let opened = Opened::of(number)?;
    if flags & ICN_AHEAD != 0 {
        return opened.read_ahead(buffer, from);
    }
    let pending = signals_blocked(|| opened.stream.read_range_async(from, buffer.len()));
    let content = pending?.wait(timeout(&opened.consumer))?;
    buffer[..content.len()].copy_from_slice(&content);
    Ok(content.len())
}

/// `icn_calm`.
pub(crate) fn calm(number: c_int) -> Result<(), Failure> {
    let opened = Opened::of(number)?;
    drop(opened.ahead().take());
    Ok(())
}

/// `icn_readv_at`: the octets of each range.
pub(crate) fn read_ranges(number: c_int, ranges: &[(i64, usize)]) -> Result<Vec<Vec<u8>>, Failure> {
    let octets = ranges.iter().try_fold(0_usize, |octets, (_, len)| octets.checked_add(*len));
    if ranges.len() > ICN_RANGES_MAX || octets.is_none_or(|octets| octets > ICN_RANGES_OCTETS_MAX) {
        return Err(Errno(libc::EINVAL).into());
    }
    let ranges: Vec<_> =
        ranges.iter().map(|(offset, len)| Ok((place(*offset)?, *len))).collect::<Result<_, Failure>>()?;
    let opened = Opened::of(number)?;
    let pending = signals_blocked(|| opened.stream.read_ranges_async(&ranges));
    Ok(pending?.wait(timeout(&opened.consumer))?)
}

/// `icn_listdir`. Returns the listing of a directory, of which every entry is valid.
pub(crate) fn list(socket: c_int, name: &Name) -> Result<Vec<u8>, Failure> {
    let consumer = find(socket)?.consumer()?;
    let listing = rdr::listing_name(name.as_name());
    let octets = signals_blocked(|| consumer.fetch_async(&listing))?.wait(timeout(&consumer))?;
    // The entries are checked in place: copies of them would take many times the listing's size.
    let wrong = rdr::listing(&octets).find_map(Result::err);
    match wrong {
        Some(error) => Err(Failure::new(libc::EBADMSG, format!("the listing of {name}: {error}"))),
        None => Ok(octets),
    }
}

impl Opened {
    /// Reads, and requests the following octets in advance. After an error the next read starts
    /// with a new stream.
    fn read_ahead(&self, buffer: &mut [u8], from: u64) -> Result<usize, Failure> {
        let mut held = self.ahead();
        if held.is_none() {
            // A second stream, because ranges of `stream` are read without a lock. Opening it needs
            // no request, because its version is known.
            let stream = self.stream.again().map_err(Failure::from)?;
            *held = Some(Ahead { stream, position: 0 });
        }
        let Some(ahead) = &mut *held else { return Err(Errno(libc::EIO).into()) };
        let read = ahead.read(buffer, from);
        if read.is_err() {
            *held = None;
        }
        read
    }
}

impl Ahead {
    fn read(&mut self, buffer: &mut [u8], from: u64) -> Result<usize, Failure> {
        if from != self.position {
            self.stream.seek(SeekFrom::Start(from)).map_err(|error| of_stream(&error))?;
            self.position = from;
        }
        let mut octets = 0;
        while octets < buffer.len() {
            let read = signals_blocked_once(&mut self.stream, &mut buffer[octets..]);
            match read.map_err(|error| of_stream(&error))? {
                0 => break,
                now => octets += now,
            }
        }
        self.position += octets as u64;
        Ok(octets)
    }
}

/// Reads. Signals are blocked only while threads start: the threads then take no signal that the
/// program waits for, and a signal can end the wait.
fn signals_blocked_once(stream: &mut ObjectStream, buffer: &mut [u8]) -> std::io::Result<usize> {
    if stream.begins_anew() {
        signals_blocked(|| stream.begin())?;
    }
    stream.read(buffer)
}

fn place(offset: i64) -> Result<u64, Failure> {
    let before = |_| Failure::new(libc::EINVAL, "no place in an object is before its beginning");
    u64::try_from(offset).map_err(before)
}
