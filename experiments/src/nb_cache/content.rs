//! The content of the routers: 500 files, of which R1 to R3 have a share each and R4 has all, as in
//! the paper. The files are stored in the format of the store itself.

use std::fs;
use std::path::Path;

use namely_bench::error::Error;
use namely_tier::{EngineKind, Options, Tier, WriteOutcome};
use namely_wire::{DataBuilder, Name, SignatureInfo};

/// Files of the catalogue.
const FILES: usize = 500;

/// Number of files at R1, R2 and R3; R4 has all.
const HELD: [usize; 3] = [200, 75, 50];

/// Octets of a Data's content.
const CONTENT_OCTETS: usize = 4096;

/// Maximum size of a router's disk.
const DISK_OCTETS: u64 = 64 << 20;

/// Names that only R4 has, one for each way to it. A response to both shows that all links are up.
pub(super) const PROBES: [&str; 2] = ["/a/probe", "/b/probe"];

/// A file: its packets, and the router that has it beside R4.
#[derive(Debug)]
struct File {
    names: Vec<Name>,
    holder: Option<usize>,
}

/// The content of all routers.
#[derive(Debug)]
pub(super) struct Content {
    files: Vec<File>,
}

impl Content {
    /// Creates files of about `packets` packets together. The lengths of files differ by a factor
    /// of up to 64. Each range from one power of 2 to the next is equally frequent.
    pub(super) fn new(packets: usize) -> Self {
        let mut random = Random(1);
        let lengths: Vec<usize> = (0..FILES)
            .map(|_| {
                let least = 1 << random.below(6);
                least + random.below(least)
            })
            .collect();
        let of_all = lengths.iter().sum::<usize>() as f64;
        let file = |(file, length): (usize, &usize)| {
            let holder = holder(file);
            // The first route of a file of R2 leads through R2, and that of a file of R3 through
            // R3. The other files alternate.
            let way = if holder == Some(2) || holder != Some(1) && file % 2 == 1 { "b" } else { "a" };
            let prefix = Name::new().join_generic(way).join_generic(format!("file-{file}"));
            let packets = ((*length as f64 * packets as f64 / of_all).round() as usize).max(1);
            File { names: (0..packets).map(|n| prefix.join_generic(format!("{n}"))).collect(), holder }
        };
        Content { files: lengths.iter().enumerate().map(file).collect() }
    }

    /// Every name once, in an order drawn at random.
    pub(super) fn names(&self, seed: u64) -> Vec<Name> {
        let mut names: Vec<Name> = self.files.iter().flat_map(|file| file.names.iter().cloned()).collect();
        let mut random = Random(seed);
        for i in (1..names.len()).rev() {
            names.swap(i, random.below(i + 1));
        }
        names
    }

    /// Fills the disks of R1 to R4: folders r1 to r4 below `folder`.
    pub(super) fn store(&self, folder: &Path) -> Result<(), Error> {
        for router in 0..4 {
            let held = self.files.iter().filter(|file| router == 3 || file.holder == Some(router));
            let names = held.flat_map(|file| file.names.iter().cloned());
            let probes = PROBES.iter().filter(|_| router == 3).filter_map(|probe| probe.parse().ok());
            fill(&folder.join(format!("r{}", router + 1)), names.chain(probes))?;
        }
        Ok(())
    }
}

fn fill(folder: &Path, names: impl Iterator<Item = Name>) -> Result<(), Error> {
    let refused =
        |e: namely_tier::TierError| Error::environment("cannot fill a disk", std::io::Error::other(e));
    make_folder(folder)?;
    let options = Options { engine: EngineKind::Inline, ..Options::new(DISK_OCTETS) };
    let tier = Tier::open(folder, &options).map_err(refused)?;
    for name in names {
        let data =
            DataBuilder::new(name.as_name()).build(&[7; CONTENT_OCTETS], &SignatureInfo::null()).finish(&[]);
        while tier.write(name.as_name(), &data, 0) != WriteOutcome::Accepted {
            tier.sync().map_err(refused)?;
        }
    }
    tier.close().map_err(refused)
}

/// Copies a disk that is not in use.
pub(super) fn copy(from: &Path, to: &Path) -> Result<(), Error> {
    let unable = |e| Error::environment(format!("cannot copy {}", from.display()), e);
    make_folder(to)?;
    for entry in fs::read_dir(from).map_err(unable)? {
        let entry = entry.map_err(unable)?;
        fs::copy(entry.path(), to.join(entry.file_name())).map_err(unable)?;
    }
    Ok(())
}

fn make_folder(folder: &Path) -> Result<(), Error> {
    use std::os::unix::fs::DirBuilderExt;
    let made = fs::DirBuilder::new().mode(0o700).recursive(true).create(folder);
    made.map_err(|e| Error::environment(format!("cannot make {}", folder.display()), e))
}

/// The router among R1, R2 and R3 that has a file.
fn holder(file: usize) -> Option<usize> {
    let mut end = 0;
    HELD.iter().position(|held| {
        end += held;
        file < end
    })
}

/// A generator that yields the same numbers each time.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((u128::from(z ^ (z >> 31)) * bound as u128) >> 64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn router_content_matches_the_papers_shares() {
        let content = Content::new(3_900);
        assert_eq!(content.files.len(), FILES);
        for (router, held) in HELD.iter().enumerate() {
            assert_eq!(content.files.iter().filter(|file| file.holder == Some(router)).count(), *held);
        }
        let names = content.names(1);
        assert!((3_700..4_200).contains(&names.len()), "{}", names.len());
        assert_ne!(names, content.names(2));
        let distinct: std::collections::BTreeSet<String> = names.iter().map(ToString::to_string).collect();
        assert_eq!(distinct.len(), names.len());
    }
}
