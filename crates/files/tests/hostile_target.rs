//! A target that another user of the machine may write, too: nothing outside of it is changed, and
//! no file of that user is accepted as the producer's.

use std::cell::Cell;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use namely_files::GetOptions;
use namely_files::get::PART_SUFFIX;
use namely_files::index::PACKED_OCTETS_MAX;
use namely_host::disk::step::between;
use namely_testkit::{Need, skip};
use proptest::prelude::*;

use crate::common::{content, names_in};
use crate::trees::{SYNC, Site, tree};

/// A user other than this one and root.
const NOBODY: u32 = 65_534;

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// Replaces the content of a file's copy, and keeps its time.
fn forge(path: &Path) {
    let found = fs::metadata(path).unwrap();
    fs::remove_file(path).unwrap();
    fs::write(path, vec![b'F'; found.len() as usize]).unwrap();
    let file = fs::File::options().write(true).open(path).unwrap();
    file.set_modified(found.modified().unwrap()).unwrap();
    set_mode(path, found.mode() & 0o777);
}

#[test]
fn a_swapped_directory_link_leads_nowhere() {
    let large = content(PACKED_OCTETS_MAX as usize + 1, 5);
    let site = Site::disturbed(|served| {
        let top = served.parent().unwrap().to_owned();
        let (sub, away, outside) = (top.join("got/sub"), top.join("got/away"), top.join("outside"));
        Box::new(move |interest| {
            // The directory was created, and its large file is being requested.
            if interest.name.to_string().contains("/sub/large") && fs::rename(&sub, &away).is_ok() {
                symlink(&outside, &sub).unwrap();
            }
        })
    });
    let outside = site.directory.path().join("outside");
    fs::create_dir(&outside).unwrap();
    site.write("sub/large", &large);
    let got = site.fetch(SYNC).unwrap();
    assert_eq!(names_in(&outside), [""; 0], "{got:?}");
}

#[test]
fn files_others_can_write_are_fetched_again() {
    let site = Site::new();
    site.write("small", "small");
    site.write("sub/large", content(PACKED_OCTETS_MAX as usize + 1, 5));
    site.fetch(SYNC).unwrap();
    type Spoil = fn(&Path);
    let mut ways: Vec<(&str, Spoil)> = vec![
        ("all may write it", |path| set_mode(path, 0o666)),
        ("its group may write it", |path| set_mode(path, 0o664)),
        ("another name leads to it", |path| fs::hard_link(path, path.with_extension("2")).unwrap()),
    ];
    if rustix::process::geteuid().is_root() {
        ways.push(("it is another user's", |path| chown(path, Some(NOBODY), None).unwrap()));
    }
    for (way, spoil) in ways {
        for file in ["small", "sub/large"] {
            let path = site.got().join(file);
            forge(&path);
            spoil(&path);
            let got = site.fetch(SYNC).unwrap();
            assert_eq!((got.files, got.unchanged), (1, 1), "{way}: {file}");
            assert!(fs::read(&path).unwrap() == fs::read(site.served().join(file)).unwrap(), "{way}: {file}");
            let found = fs::metadata(&path).unwrap();
            let own = rustix::process::geteuid().as_raw();
            assert_eq!((found.uid(), found.nlink(), found.mode() & 0o022), (own, 1, 0), "{way}: {file}");
        }
    }
}

#[test]
fn another_users_file_is_not_accepted() {
    if !rustix::process::geteuid().is_root() {
        return skip(Need::Root, "only root can give files away");
    }
    let site = Site::new();
    site.write("f", "what is signed");
    site.fetch(SYNC).unwrap();
    set_mode(&site.got(), 0o1777);
    forge(&site.got().join("f"));
    chown(site.got().join("f"), Some(NOBODY), None).unwrap();
    let got = site.fetch(SYNC).unwrap();
    assert_eq!((got.files, got.unchanged), (1, 0));
    assert_eq!(fs::read(site.got().join("f")).unwrap(), b"what is signed");
}

#[test]
fn a_late_link_changes_no_mode_outside() {
    let site = Site::new();
    site.write("f", "x");
    set_mode(&site.served().join("f"), 0o755);
    let dear = site.directory.path().join("dear");
    fs::write(&dear, "dear").unwrap();
    set_mode(&dear, 0o600);
    // The act happens at each system call in turn.
    for at in 0.. {
        let _ = fs::remove_file(site.got().join("f"));
        site.fetch(SYNC).unwrap();
        // Without this the fetch has nothing to change.
        set_mode(&site.got().join("f"), 0o700);
        let (file, link, dear) = (site.got().join("f"), site.got().join("l"), dear.clone());
        let calls = Rc::new(Cell::new(0));
        let put_link = {
            let (calls, dear) = (calls.clone(), dear.clone());
            move |_| {
                if calls.replace(calls.get() + 1) == at {
                    symlink(&dear, &link).unwrap();
                    fs::rename(&link, &file).unwrap();
                }
            }
        };
        between(put_link, || site.fetch(SYNC)).unwrap();
        assert_eq!(fs::metadata(&dear).unwrap().mode() & 0o777, 0o600, "at call {at}");
        if calls.get() <= at {
            break;
        }
    }
}

/// An act of another user in a target that all may write.
#[derive(Clone, Copy, Debug)]
enum Act {
    /// A directory becomes a link that leads out.
    LinkDirectory(usize),
    /// A directory gets another name.
    MoveDirectory(usize),
    /// Files become links to a file outside.
    LinkFile(usize),
    /// A file outside gets another name in the target.
    NameFile(usize),
    /// A file becomes the other user's, with another content, the same size and time.
    Forge(usize),
    /// A file becomes a pipe.
    Pipe(usize),
    /// Replaces a partial file by the other user's file.
    ForgeParts,
    /// Replaces a partial file by a link to a file outside.
    LinkParts,
}

const DIRECTORIES: [&str; 3] = ["a", "b", "c/d"];
const FILES: [&str; 5] = ["t", "a/one", "a/two", "b/large", "c/d/deep"];

/// Path, content, permissions, owner and inode.
type Found = (PathBuf, Option<Vec<u8>>, u32, u32, u64);

/// The target, and the folder outside of it.
#[derive(Clone, Debug)]
struct World {
    got: PathBuf,
    outside: PathBuf,
}

impl World {
    fn act(&self, act: Act) {
        // The act follows no link that leads out, because the other user has no rights there.
        let file = |which: usize| {
            let path = self.got.join(FILES[which % FILES.len()]);
            let is_inside = |above: PathBuf| above.starts_with(&self.got);
            let above = path.parent().unwrap().canonicalize();
            if above.is_ok_and(is_inside) { path } else { self.got.join("nothing/there") }
        };
        let directory = |which: usize| self.got.join(DIRECTORIES[which % DIRECTORIES.len()]);
        let dear = self.outside.join("dear");
        // An act fails if its file is missing.
        let _ = match act {
            Act::LinkDirectory(which) => {
                let _ = fs::rename(directory(which), self.got.join("aside"));
                symlink(self.outside.join("inside"), directory(which))
            }
            Act::MoveDirectory(which) => fs::rename(directory(which), self.got.join("moved")),
            Act::LinkFile(which) => fs::remove_file(file(which)).and_then(|()| symlink(dear, file(which))),
            Act::NameFile(which) => {
                fs::remove_file(file(which)).and_then(|()| fs::hard_link(dear, file(which)))
            }
            Act::Forge(which) if fs::symlink_metadata(file(which)).is_ok_and(|found| found.is_file()) => {
                forge(&file(which));
                give_away(&file(which))
            }
            Act::Forge(_) => Ok(()),
            Act::Pipe(which) => fs::remove_file(file(which)).and_then(|()| {
                let (mode, fifo) = (rustix::fs::Mode::from_raw_mode(0o666), rustix::fs::FileType::Fifo);
                Ok(rustix::fs::mknodat(rustix::fs::CWD, file(which), fifo, mode, 0)?)
            }),
            Act::ForgeParts => self.for_parts(|part| {
                fs::remove_file(part)?;
                fs::write(part, "FALSE CONTENT")?;
                give_away(part)
            }),
            Act::LinkParts => self.for_parts(|part| {
                fs::remove_file(part)?;
                symlink(&dear, part)
            }),
        };
    }

    fn for_parts(&self, with: impl Fn(&Path) -> std::io::Result<()>) -> std::io::Result<()> {
        let everybodys =
            |path: &PathBuf| fs::symlink_metadata(path).is_ok_and(|found| found.mode() & 0o2 != 0);
        let directories = DIRECTORIES.map(|below| self.got.join(below));
        for directory in directories.iter().chain([&self.got]).filter(|path| everybodys(path)) {
            for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
                if entry.file_name().to_string_lossy().ends_with(PART_SUFFIX) {
                    with(&entry.path())?;
                }
            }
        }
        Ok(())
    }

    /// All that is outside: names, content, permissions, owners, links.
    fn outside(&self) -> Vec<Found> {
        let mut found = Vec::new();
        let mut waiting = vec![self.outside.clone()];
        while let Some(path) = waiting.pop() {
            let stat = fs::symlink_metadata(&path).unwrap();
            let content = if stat.is_dir() {
                waiting.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
                None
            } else {
                Some(fs::read(&path).unwrap())
            };
            found.push((path, content, stat.mode(), stat.uid(), stat.ino()));
        }
        found.sort();
        found
    }
}

/// Gives a file to another user. Without root's rights, lets other users write it instead.
fn give_away(path: &Path) -> std::io::Result<()> {
    match rustix::process::geteuid().is_root() {
        true => chown(path, Some(NOBODY), None),
        false => fs::set_permissions(path, fs::Permissions::from_mode(0o666)),
    }
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        (0..3usize).prop_map(Act::LinkDirectory),
        (0..3usize).prop_map(Act::MoveDirectory),
        (0..5usize).prop_map(Act::LinkFile),
        (0..5usize).prop_map(Act::NameFile),
        (0..5usize).prop_map(Act::Forge),
        (0..5usize).prop_map(Act::Pipe),
        Just(Act::ForgeParts),
        Just(Act::LinkParts),
    ]
}

/// Fetches while another user does each of `acts` before the system call of that number.
fn fetch_beside(site: &Site, world: &World, acts: &[(usize, Act)], options: GetOptions) -> bool {
    let (world, acts, mut calls) = (world.clone(), acts.to_vec(), 0);
    let hook = move |_: &'static str| {
        acts.iter().filter(|(at, _)| *at == calls).for_each(|(_, act)| world.act(*act));
        calls += 1;
    };
    let got = between(hook, || site.fetch(options));
    got.is_ok_and(|got| got.failures == 0)
}

/// The files below `path`, each with its content and time. Permissions are left out, because those
/// of an index may be a moment old.
fn files(path: &Path) -> Vec<(PathBuf, Vec<u8>, i64)> {
    tree(path).into_iter().filter_map(|(path, (content, _, time))| Some((path, content?, time))).collect()
}

fn site_and_world() -> (Site, World) {
    let site = Site::new();
    for file in FILES {
        site.write(file, format!("what was signed of {file}"));
    }
    site.write("b/large", content(PACKED_OCTETS_MAX as usize + 1, 5));
    let world = World { got: site.got(), outside: site.directory.path().join("outside") };
    fs::create_dir_all(world.outside.join("inside/below")).unwrap();
    for dear in ["dear", "inside/one", "inside/large", "inside/below/dear"] {
        fs::write(world.outside.join(dear), dear).unwrap();
        set_mode(&world.outside.join(dear), 0o600);
    }
    // All of it is writable for all users.
    for top in [site.served(), site.got()] {
        for below in ["", "a", "b", "c", "c/d"] {
            fs::create_dir_all(top.join(below)).unwrap();
            set_mode(&top.join(below), 0o777);
        }
    }
    (site, world)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn hostile_renames_never_affect_a_fetched_tree(
        first in proptest::collection::vec((0..60usize, act()), 0..5),
        second in proptest::collection::vec((0..60usize, act()), 0..5),
    ) {
        let (site, world) = site_and_world();
        let before = world.outside();
        fetch_beside(&site, &world, &first, SYNC);
        prop_assert!(world.outside() == before);
        for file in FILES {
            let _ = fs::set_permissions(site.served().join(file), fs::Permissions::from_mode(0o755));
        }
        fetch_beside(&site, &world, &second, GetOptions { delete: true, ..SYNC });
        prop_assert!(world.outside() == before);
        // The acts may have ended both fetches before the target was a copy: nothing is deleted.
        let _ = site.fetch(SYNC);
        // Files that were left behind do not count as fetched.
        let alone = site.fetch(GetOptions { delete: true, ..SYNC });
        prop_assert!(alone.as_ref().is_ok_and(|got| got.failures == 0), "{:?}", alone);
        prop_assert!(files(&site.got()) == files(&site.served()));
        prop_assert!(world.outside() == before);
    }
}

#[test]
fn a_swapped_part_is_never_reported_as_fetched() {
    for act in [Act::ForgeParts, Act::LinkParts] {
        for at in 0..80 {
            let (site, world) = site_and_world();
            let before = world.outside();
            let is_well = fetch_beside(&site, &world, &[(at, act)], SYNC);
            assert!(world.outside() == before, "{act:?} at {at}");
            if is_well {
                assert!(files(&site.got()) == files(&site.served()), "{act:?} at {at}");
            }
        }
    }
}
