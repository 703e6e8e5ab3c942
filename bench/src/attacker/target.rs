//! Another user of the machine in a folder that all may write, into which somebody fetches a tree.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Duration;

use super::pace::{Done, End};
use crate::attacks::{DIRECTORIES, FILES, Place};

/// For how long a directory is a link.
const LINKED: Duration = Duration::from_millis(2);

/// How often it is looked whether a directory is there again at the end.
const TRIES_MAX: u64 = 100;

/// Directories become links that lead out, and files others of the same size and time.
pub(super) fn target(place: &Place, end: &End) -> io::Result<Done> {
    let (mut links, mut forged) = (0, 0);
    for round in 0u64.. {
        for number in 0..DIRECTORIES {
            let directory = place.shared.join(number.to_string());
            if round.is_multiple_of(8) {
                forged += forge(&directory, &place.shared.join(format!("old{round}-{number}")));
                continue;
            }
            // What is not there is fetched; the link comes while it is.
            let _ = fs::rename(&directory, place.shared.join(format!("old{round}-{number}")));
            let aside = place.shared.join("aside");
            while end.is_ahead() && fs::rename(&directory, &aside).is_err() {
                std::thread::yield_now();
            }
            links += u64::from(symlink(&place.outside, &directory).is_ok());
            end.sleep(LINKED);
            let _ = fs::remove_file(&directory);
            let _ = fs::rename(&aside, &directory);
        }
        if !end.is_ahead() {
            break;
        }
    }
    // What is forged last is what a last fetch finds.
    for number in 0..DIRECTORIES {
        let directory = place.shared.join(number.to_string());
        let is_forged = |try_number: &u64| {
            std::thread::sleep(LINKED * 10);
            forge(&directory, &place.shared.join(format!("last{number}-{try_number}"))) > 0
        };
        forged += u64::from((0..TRIES_MAX).any(|try_number| is_forged(&try_number)));
    }
    Ok(Done::from([("links", links), ("forged", forged)]))
}

/// Puts a directory of this user's in the place of one whose own goes `aside`, with files of the
/// same size and time; how many.
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
