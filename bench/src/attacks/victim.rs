//! The victim of an attack on files: a user that fetches a tree repeatedly into a folder that
//! another user may write, too. The results are the number of files that were written outside the
//! folder, and the number of files whose content differs from the served one.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use namely_testbed::Interrupt;

use super::kind::Attack;
use super::tree::{DIRECTORIES, FILES, TREE};
use super::world::{Link, Namely, World};
use crate::error::Error;

/// Maximum time of a fetch.
const FETCH_LIMIT: Duration = Duration::from_secs(60);

/// The user that fetches the tree.
pub(super) struct Victim {
    is_over: Arc<AtomicBool>,
    fetches: JoinHandle<u64>,
    get: Get,
}

/// The command of a fetch.
#[derive(Clone)]
struct Get {
    namely: Namely,
    served: PathBuf,
    shared: PathBuf,
    outside: PathBuf,
    name: String,
    interrupt: Interrupt,
}

impl Victim {
    /// Starts to fetch if `attack` includes [`Attack::Target`] and the router is namely's.
    pub(super) fn start(world: &World, attack: Attack, interrupt: &Interrupt) -> Option<Self> {
        if !attack.parts().contains(&Attack::Target) || world.addresses.memif.is_none() {
            return None;
        }
        let get = Get {
            namely: world.namely(Link::Unix),
            served: world.object.dir.join(TREE),
            shared: world.addresses.shared.clone(),
            outside: world.addresses.outside.clone(),
            name: world.tree(),
            interrupt: interrupt.clone(),
        };
        let is_over = Arc::new(AtomicBool::new(false));
        let fetches = {
            let (get, is_over) = (get.clone(), is_over.clone());
            std::thread::spawn(move || {
                let mut fetches = 0;
                while !is_over.load(Ordering::Relaxed) {
                    // The attack may make a fetch fail. Only its side effects matter.
                    let _ = get.once();
                    fetches += 1;
                }
                fetches
            })
        };
        Some(Victim { is_over, fetches, get })
    }

    /// Ends the repeated fetches, fetches once more without the attacker, and adds the counts to
    /// `sent`.
    pub(super) fn finish(self, sent: &mut BTreeMap<String, u64>) -> Result<(), Error> {
        self.is_over.store(true, Ordering::Relaxed);
        let fetches = self.fetches.join().unwrap_or(0);
        let escaped = fs::read_dir(&self.get.outside).map_or(0, |entries| entries.count() as u64);
        self.get.once()?;
        let mut others = 0;
        for number in 0..DIRECTORIES {
            for (file, _) in FILES {
                let below = Path::new(&number.to_string()).join(file);
                let [fetched, served] =
                    [&self.get.shared, &self.get.served].map(|top| fs::read(top.join(&below)).ok());
                others += u64::from(fetched != served);
            }
        }
        for (what, count) in [("fetches", fetches), ("escaped", escaped), ("others", others)] {
            sent.insert(format!("{}.{what}", Attack::Target.name()), count);
        }
        Ok(())
    }
}

impl Get {
    fn once(&self) -> Result<(), Error> {
        let target = self.shared.to_string_lossy();
        // The attacker puts many entries there, so most of the copy is deleted.
        let arguments = ["get", "--recursive", "--delete", "--max-delete=1000000", &self.name, &target];
        let output = self.namely.dir().join("tree");
        self.namely.run(&arguments, Some(&output), FETCH_LIMIT, &self.interrupt)
    }
}
