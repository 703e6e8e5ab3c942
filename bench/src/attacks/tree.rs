//! The tree that is fetched into a world-writable folder.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::error::Error;

/// Directories of the tree.
pub(crate) const DIRECTORIES: u64 = 4;

/// Files of each directory, with their sizes in octets. A small file shares an object with others.
/// A large one is an object of its own.
pub(crate) const FILES: [(&str, usize); 2] = [("small", 2_000), ("large", 200_000)];

/// The tree's name below the served folder.
pub(crate) const TREE: &str = "tree";

/// Name of a folder below the served one. Its files have escape sequences in their names.
pub(super) const STRANGE: &str = "strange";

/// Creates the folder `STRANGE` in `served`.
pub(super) fn prepare_strange(served: &Path) -> Result<(), Error> {
    let folder = served.join(STRANGE);
    let make = || {
        fs::create_dir(&folder)?;
        namely_testkit::hostile::NAMES.iter().try_for_each(|name| fs::write(folder.join(name), name))
    };
    make().map_err(|e| Error::environment(format!("cannot make {}", folder.display()), e))
}

/// Creates the tree in `served`, the world-writable folder `shared`, and `outside`, which only this
/// user may write.
pub(super) fn prepare(served: &Path, shared: &Path, outside: &Path) -> Result<(), Error> {
    let make = || {
        for number in 0..DIRECTORIES {
            let directory = served.join(TREE).join(number.to_string());
            fs::create_dir_all(&directory)?;
            for (file, octets) in FILES {
                fs::write(directory.join(file), vec![b'a' + number as u8; octets])?;
            }
        }
        fs::create_dir(shared)?;
        fs::create_dir(outside)?;
        fs::set_permissions(shared, fs::Permissions::from_mode(0o777))
    };
    make().map_err(|e| Error::environment(format!("cannot make {}", shared.display()), e))
}
