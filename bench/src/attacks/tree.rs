//! The tree that is fetched into a folder that all may write.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::error::Error;

/// Directories of the tree.
pub(crate) const DIRECTORIES: u64 = 4;

/// What each of them has, with its octets: one comes with others as one object, one by itself.
pub(crate) const FILES: [(&str, usize); 2] = [("small", 2_000), ("large", 200_000)];

/// The tree's name below what is served.
pub(crate) const TREE: &str = "tree";

/// The name, in the served folder, of a folder of files with strange names.
pub(super) const STRANGE: &str = "strange";

/// Makes, in `served`, the folder of files with escape sequences in their names.
pub(super) fn prepare_strange(served: &Path) -> Result<(), Error> {
    let folder = served.join(STRANGE);
    let make = || {
        fs::create_dir(&folder)?;
        namely_hostile::NAMES.iter().try_for_each(|name| fs::write(folder.join(name), name))
    };
    make().map_err(|e| Error::environment(format!("cannot make {}", folder.display()), e))
}

/// Makes the tree in `served`, the folder `shared` that all may write, and `outside` that only this
/// user may.
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
