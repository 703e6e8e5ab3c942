//! The table of inodes.
//!
//! A directory has one inode for its name. A file has one for each version, so that the kernel's
//! page cache never mixes two versions. A number is never used again. The kernel counts its
//! references; an entry without one is removed.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use fuser::INodeNo;
use namely_socket::ObjectInfo;
use namely_wire::Name;

/// Inodes to which the kernel refers.
///
/// # Limit
/// The lookup of a further file fails with `ENOMEM`. The kernel forgets inodes when it needs their
/// memory.
/// - Value: 1,048,576
/// - Tests: `inodes_are_limited`
pub const INODES_MAX: usize = 1 << 20;

/// A file's version, or a directory.
#[derive(Clone, Debug)]
pub(crate) struct Inode {
    pub(crate) number: INodeNo,
    /// The name without a version.
    pub(crate) name: Arc<Name>,
    pub(crate) info: Arc<ObjectInfo>,
    /// The time of the request that returned `info`.
    pub(crate) looked_up: Instant,
}

/// An entry: its inode, and the number of the kernel's references.
struct Entry {
    inode: Inode,
    references: u64,
}

/// The identity of an inode: the name of a directory, or the versioned name of a file. The name
/// belongs to a file's key, because two names may lead to the same object.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Key {
    name: Arc<Name>,
    version: Option<Name>,
}

impl Key {
    fn of(name: &Arc<Name>, info: &ObjectInfo) -> Self {
        Key { name: name.clone(), version: (!info.is_directory).then(|| info.name.clone()) }
    }
}

pub(crate) struct Inodes {
    entries: HashMap<u64, Entry>,
    numbers: HashMap<Key, u64>,
    next: u64,
    max: usize,
}

/// The table has its maximum number of inodes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TableFull;

impl Inodes {
    pub(crate) fn new(max: usize) -> Self {
        Inodes { entries: HashMap::new(), numbers: HashMap::new(), next: INodeNo::ROOT.0, max }
    }

    /// Returns the inode of `name` with these properties, and counts one reference of the kernel.
    /// The first inode is the root.
    pub(crate) fn refer(
        &mut self,
        name: &Arc<Name>,
        info: ObjectInfo,
        now: Instant,
    ) -> Result<Inode, TableFull> {
        let key = Key::of(name, &info);
        if let Some(entry) = self.numbers.get(&key).and_then(|number| self.entries.get_mut(number)) {
            entry.references += 1;
            entry.inode.info = Arc::new(info);
            entry.inode.looked_up = now;
            return Ok(entry.inode.clone());
        }
        if self.entries.len() >= self.max {
            return Err(TableFull);
        }
        let number = self.next;
        self.next += 1;
        let inode =
            Inode { number: INodeNo(number), name: name.clone(), info: Arc::new(info), looked_up: now };
        self.entries.insert(number, Entry { inode: inode.clone(), references: 1 });
        self.numbers.insert(key, number);
        Ok(inode)
    }

    /// Stores newer properties of a directory.
    pub(crate) fn refresh(&mut self, number: INodeNo, info: ObjectInfo, now: Instant) {
        if let Some(entry) = self.entries.get_mut(&number.0) {
            entry.inode.info = Arc::new(info);
            entry.inode.looked_up = now;
        }
    }

    pub(crate) fn get(&self, number: INodeNo) -> Option<Inode> {
        self.entries.get(&number.0).map(|entry| entry.inode.clone())
    }

    /// Removes `references` references of the kernel. The root always remains.
    pub(crate) fn forget(&mut self, number: INodeNo, references: u64) {
        let Some(entry) = self.entries.get_mut(&number.0) else { return };
        entry.references = entry.references.saturating_sub(references);
        if entry.references == 0 && number != INodeNo::ROOT {
            let key = Key::of(&entry.inode.name, &entry.inode.info);
            self.entries.remove(&number.0);
            self.numbers.remove(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    use namely_testkit::name;
    use namely_transport::object::SignatureMode;
    use proptest::prelude::*;

    use super::*;

    fn info(uri: &str, is_directory: bool) -> ObjectInfo {
        ObjectInfo {
            name: name(uri),
            octets: Some(1),
            segments: Some(1),
            signature_mode: SignatureMode::Segments,
            signer: None,
            is_directory,
            mtime_ns: None,
            mode: None,
        }
    }

    fn refer(inodes: &mut Inodes, uri: &str, version: u64) -> Result<INodeNo, TableFull> {
        let versioned = format!("{uri}/v={version}");
        inodes.refer(&Arc::new(name(uri)), info(&versioned, false), Instant::now()).map(|inode| inode.number)
    }

    #[test]
    fn each_version_has_its_inode() {
        let mut inodes = Inodes::new(INODES_MAX);
        let first = refer(&mut inodes, "/a", 1).unwrap();
        assert_eq!(refer(&mut inodes, "/a", 1).unwrap(), first);
        assert_ne!(refer(&mut inodes, "/a", 2).unwrap(), first);
        assert_ne!(refer(&mut inodes, "/b", 1).unwrap(), first);
    }

    #[test]
    fn a_directory_keeps_its_inode() {
        let mut inodes = Inodes::new(INODES_MAX);
        let directory = Arc::new(name("/d"));
        let mut number =
            |version: &str| inodes.refer(&directory, info(version, true), Instant::now()).unwrap().number;
        assert_eq!(number("/d/v=1"), number("/d/v=2"));
    }

    #[test]
    fn inodes_are_limited() {
        let mut inodes = Inodes::new(2);
        let root = refer(&mut inodes, "/root", 1).unwrap();
        let second = refer(&mut inodes, "/a", 1).unwrap();
        assert_eq!(refer(&mut inodes, "/b", 1), Err(TableFull));
        assert_eq!(refer(&mut inodes, "/a", 1), Ok(second));
        inodes.forget(second, 2);
        let third = refer(&mut inodes, "/b", 1).unwrap();
        assert!(third != second && third != root, "a number is never used again");
    }

    #[test]
    fn the_root_is_never_forgotten() {
        let mut inodes = Inodes::new(INODES_MAX);
        let root = refer(&mut inodes, "/root", 1).unwrap();
        assert_eq!(root, INodeNo::ROOT);
        inodes.forget(root, u64::MAX);
        assert!(inodes.get(root).is_some());
    }

    proptest! {
        /// The table beside a list of references.
        #[test]
        fn references_equal_those_of_a_list(steps in prop::collection::vec((0u64..4, 0u64..3, any::<bool>()), 0..60)) {
            let mut inodes = Inodes::new(INODES_MAX);
            refer(&mut inodes, "/root", 0).unwrap();
            let mut list: HashMap<u64, (u64, u64, u64)> = HashMap::new();
            for (file, version, is_added) in steps {
                if is_added {
                    let number = refer(&mut inodes, &format!("/f{file}"), version).unwrap();
                    let entry = list.entry(number.0).or_insert((file, version, 0));
                    prop_assert_eq!((entry.0, entry.1), (file, version));
                    entry.2 += 1;
                } else if let Some(number) = list.keys().min().copied() {
                    inodes.forget(INodeNo(number), 1);
                    let left = list.get_mut(&number).map_or(0, |entry| { entry.2 -= 1; entry.2 });
                    if left == 0 {
                        list.remove(&number);
                    }
                    prop_assert_eq!(inodes.get(INodeNo(number)).is_some(), left > 0);
                }
            }
            prop_assert_eq!(inodes.entries.len(), list.len() + 1);
            prop_assert_eq!(inodes.numbers.len(), list.len() + 1);
        }
    }
}
