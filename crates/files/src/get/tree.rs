//! Fetching a directory and all that is in it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use namely_security::Verified;
use namely_socket::{Consumer, FetchError, Flow, Sink};
use namely_transport::object::{Object, ObjectError, Part, Progress};
use namely_wire::rdr::{listing, listing_name};
use namely_wire::{Component, DecodeError, Name};

use super::{GetError, GetOptions, get_object};
use crate::root::LISTING_OCTETS_MAX;

/// Directories that wait to be fetched: a listing that would make them more is not followed.
pub(super) const PENDING_MAX: usize = 65_536;

/// Directories within directories that are followed.
pub const DEPTH_MAX: usize = 64;

/// How far the fetch of a tree is.
#[derive(Clone, Copy, Debug)]
pub struct TreeProgress<'a> {
    /// The file that is being fetched.
    pub name: &'a Name,
    /// Files fetched before it.
    pub files: u64,
    /// Octets of them.
    pub octets: u64,
    /// How far this one is.
    pub current: &'a Progress,
}

/// A tree that was fetched.
#[derive(Debug, Default)]
pub struct TreeGot {
    /// Files that were fetched.
    pub files: u64,
    /// Files that were there already.
    pub unchanged: u64,
    /// Directories.
    pub directories: u64,
    /// Entries of listings that were there already: the first one counts.
    pub duplicates: u64,
    /// Octets that were fetched.
    pub octets: u64,
    /// Files and directories that could not be fetched, and why.
    pub failed: Vec<(Name, GetError)>,
}

/// Fetches the directory `name` into the directory `target`, which is made if there is none. One
/// file that cannot be fetched does not keep the others: see [`TreeGot::failed`]. With
/// [`GetOptions::resume`] files that are there with the producer's size and time are not fetched
/// again.
///
/// # Errors
/// [`GetError::NotDirectory`], or what would end every further fetch too.
pub fn get_tree(
    consumer: &Consumer,
    name: &Name,
    target: &Path,
    options: GetOptions,
    watch: &mut dyn FnMut(&TreeProgress<'_>) -> Flow,
) -> Result<TreeGot, GetError> {
    let object = consumer.find(name)?;
    if !object.metadata.as_ref().is_some_and(|metadata| metadata.is_directory()) {
        return Err(GetError::NotDirectory { name: name.clone() });
    }
    let mut got = TreeGot::default();
    let mut pending = vec![Directory { name: name.clone(), path: target.to_owned(), depth: 0 }];
    while let Some(directory) = pending.pop() {
        let entries = match enter(consumer, &directory) {
            Ok(entries) => entries,
            Err(error) if error.concerns_all() || directory.depth == 0 => return Err(error),
            Err(error) => {
                got.failed.push((directory.name, error));
                continue;
            }
        };
        got.directories += 1;
        got.duplicates += entries.duplicates;
        if let Err(error) = check_room(&directory.name, pending.len(), entries.directories) {
            got.failed.push((directory.name, error));
            continue;
        }
        for (file, is_directory) in entries.iter() {
            let name = directory.name.join(Component::generic(file.as_bytes()));
            let path = directory.path.join(file);
            if is_directory {
                pending.push(Directory { name, path, depth: directory.depth + 1 });
                continue;
            }
            match get_one(consumer, &name, &path, options, &mut got, watch) {
                Ok(()) => {}
                Err(error) if error.concerns_all() => return Err(error),
                Err(error) => got.failed.push((name, error)),
            }
        }
    }
    Ok(got)
}

/// An error if `more` directories beside those that wait are too many.
fn check_room(name: &Name, waiting: usize, more: usize) -> Result<(), GetError> {
    match waiting + more {
        0..=PENDING_MAX => Ok(()),
        directories => Err(GetError::TooMany { name: name.clone(), directories }),
    }
}

struct Directory {
    name: Name,
    path: PathBuf,
    depth: usize,
}

/// Makes the directory; its entries, as the producer lists them. A name that is more than one path
/// component is refused by the listing's decoder.
fn enter(consumer: &Consumer, directory: &Directory) -> Result<Entries, GetError> {
    if directory.depth > DEPTH_MAX {
        return Err(GetError::TooDeep { name: directory.name.clone() });
    }
    let name = listing_name(directory.name.as_name());
    let octets = small_object(consumer, &name, LISTING_OCTETS_MAX)?;
    let entries = Entries::new(name, octets)?;
    fs::create_dir_all(&directory.path)
        .map_err(|error| GetError::Target { path: directory.path.clone(), error })?;
    Ok(entries)
}

/// The entries of a listing: its octets, and where each entry begins, so that a long listing takes
/// little more memory than itself.
struct Entries {
    octets: Vec<u8>,
    /// Where names begin and end, and whether they are directories'; in the order of names.
    places: Vec<(u32, u32, bool)>,
    directories: usize,
    duplicates: u64,
}

impl Entries {
    fn new(name: Name, octets: Vec<u8>) -> Result<Self, GetError> {
        let refused = |error| GetError::Listing { name: name.clone(), error };
        let mut places = Vec::new();
        let mut at = 0;
        for entry in listing(&octets) {
            let entry = entry.map_err(refused)?;
            std::str::from_utf8(entry.name).map_err(|_| refused(DecodeError::BadText))?;
            let end = at + entry.name.len();
            // A listing has at most `LISTING_OCTETS_MAX`.
            places.push((at as u32, end as u32, entry.is_directory));
            at = end + if entry.is_directory { 2 } else { 1 };
        }
        let name_at = |place: &(u32, u32, bool)| &octets[place.0 as usize..place.1 as usize];
        places.sort_by(|a, b| name_at(a).cmp(name_at(b)));
        let listed = places.len();
        places.dedup_by(|a, b| name_at(a) == name_at(b));
        let duplicates = (listed - places.len()) as u64;
        let directories = places.iter().filter(|(_, _, is_directory)| *is_directory).count();
        Ok(Entries { octets, places, directories, duplicates })
    }

    /// Names, and whether they are directories'.
    fn iter(&self) -> impl Iterator<Item = (&str, bool)> {
        self.places.iter().filter_map(|(start, end, is_directory)| {
            let name = self.octets.get(*start as usize..*end as usize)?;
            Some((std::str::from_utf8(name).ok()?, *is_directory))
        })
    }
}

/// The content of an object of at most `octets_max`.
fn small_object(consumer: &Consumer, name: &Name, octets_max: usize) -> Result<Vec<u8>, FetchError> {
    struct Small(Vec<u8>, usize);

    impl Sink for Small {
        fn write(&mut self, _: u64, data: &Verified<Vec<u8>>) -> io::Result<()> {
            if self.0.len() + data.content().len() > self.1 {
                return Err(io::Error::from(io::ErrorKind::FileTooLarge));
            }
            self.0.extend_from_slice(data.content());
            Ok(())
        }
    }

    let object = consumer.find(name)?;
    let mut small = Small(Vec::new(), octets_max);
    match consumer.fetch_into(&object, Part::from(0), &mut small, &mut |_| Flow::Continue) {
        Ok(_) => Ok(small.0),
        Err(FetchError::Object(ObjectError::Sink(_))) => {
            Err(ObjectError::TooLarge { object: object.name, octets_max: octets_max as u64 }.into())
        }
        Err(error) => Err(error),
    }
}

fn get_one(
    consumer: &Consumer,
    name: &Name,
    path: &Path,
    options: GetOptions,
    got: &mut TreeGot,
    watch: &mut dyn FnMut(&TreeProgress<'_>) -> Flow,
) -> Result<(), GetError> {
    let object = super::find_file(consumer, name)?;
    if options.resume && is_there(path, &object) {
        got.unchanged += 1;
        return Ok(());
    }
    let (files, octets) = (got.files, got.octets);
    let mut watch_one = |current: &Progress| watch(&TreeProgress { name, files, octets, current });
    let options = GetOptions { keep_execute: true, ..options };
    let fetched = get_object(consumer, &object, path, options, &mut watch_one)?;
    got.files += 1;
    got.octets += fetched.progress.octets;
    Ok(())
}

/// Returns true if the file at `path` has the size and time that the producer tells.
fn is_there(path: &Path, object: &Object) -> bool {
    let (Ok(file), Some(metadata)) = (fs::symlink_metadata(path), &object.metadata) else { return false };
    let time = |ns| SystemTime::UNIX_EPOCH + Duration::from_nanos(ns);
    file.is_file()
        && Some(file.len()) == metadata.size_octets
        && metadata.mtime_ns.is_some_and(|ns| file.modified().is_ok_and(|modified| modified == time(ns)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listing_that_leads_to_too_many_directories_is_not_followed() {
        let name: Name = "/p".parse().unwrap();
        check_room(&name, PENDING_MAX - 1, 1).unwrap();
        let error = check_room(&name, PENDING_MAX, 1).unwrap_err();
        assert!(error.to_string().contains("65537"), "{error}");
    }

    #[test]
    fn a_listing_takes_little_more_than_its_octets_and_duplicates_are_counted() {
        let octets = b"b\0a/\0b\0c\0a\0".to_vec();
        let entries = Entries::new(Name::new(), octets).unwrap();
        let first = |name| entries.iter().find(|(entry, _)| *entry == name).unwrap().1;
        assert_eq!(entries.iter().map(|(name, _)| name).collect::<Vec<_>>(), ["a", "b", "c"]);
        assert!(first("a"), "the first of two entries counts");
        assert_eq!((entries.duplicates, entries.directories), (2, 1));

        // The longest listing of the shortest names.
        let octets: Vec<u8> = [b'x', 0].repeat(LISTING_OCTETS_MAX / 2);
        let entries = Entries::new(Name::new(), octets).unwrap();
        assert_eq!(entries.duplicates, LISTING_OCTETS_MAX as u64 / 2 - 1);
        assert!(size_of::<(u32, u32, bool)>() <= 12);
        assert!(Entries::new(Name::new(), b"../x\0".to_vec()).is_err());
    }
}
