//! Files that change while programs read them, the page cache, and files with holes.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::process::{Command, Stdio};

use namely_testkit::{Need, eventually, skip};

use crate::mounted::{LONG, Site, content};

/// Maps a file, prints its length, and prints the mapped octets after a line of input.
const MAP: &str = "import mmap, sys
with open(sys.argv[1], 'rb') as file:
    mapped = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
print(len(mapped), flush=True)
sys.stdin.readline()
sys.stdout.buffer.write(mapped)
";

/// Replaces the served `f` by a rename, and waits until a new open has the new content. A server
/// may reuse metadata while it is fresh.
fn replace(site: &Site, content: &[u8]) {
    fs::write(site.served("new"), content).unwrap();
    fs::rename(site.served("new"), site.served("f")).unwrap();
    eventually("the new version is opened", || fs::read(site.path("f")).unwrap() == content);
}

#[test]
fn a_reopened_unchanged_file_uses_the_page_cache() {
    let Some(site) = Site::with_file(content(LONG, 1)) else { return };
    let before = site.interests();
    assert!(fs::read(site.path("f")).unwrap() == content(LONG, 1));
    let (read, again) = (site.interests() - before, site.interests());
    assert!(read > LONG / 8000, "the content is requested: {read}");
    assert!(fs::read(site.path("f")).unwrap() == content(LONG, 1));
    // Metadata decides whether the version is the newest.
    let asked = site.interests() - again;
    assert!(asked < 10, "{asked} Interests for the second read");
}

#[test]
fn files_of_another_size_are_read_whole() {
    let Some(site) = Site::with_file(content(LONG, 0)) else { return };
    let sizes = [LONG, 1000, 0, LONG + 1, 4096];
    for (i, pair) in sizes.windows(2).enumerate() {
        let mut old = File::open(site.path("f")).unwrap();
        let mut read = Vec::new();
        old.read_to_end(&mut read).unwrap();
        replace(&site, &content(pair[1], i + 1));
        assert_eq!(fs::metadata(site.path("f")).unwrap().len(), pair[1] as u64);
        assert_eq!(old.metadata().unwrap().len(), pair[0] as u64, "the open file keeps its size");
        old.seek(SeekFrom::Start(0)).unwrap();
        read.clear();
        old.read_to_end(&mut read).unwrap();
        assert!(read == content(pair[0], i), "the open file keeps its content");
    }
}

#[test]
fn a_mapped_file_keeps_its_version() {
    let Some(site) = Site::with_file(content(LONG, 1)) else { return };
    let mut python = Command::new("python3");
    python.args(["-c", MAP]).arg(site.path("f")).stdin(Stdio::piped()).stdout(Stdio::piped());
    let Ok(mut mapping) = python.spawn() else {
        return skip(Need::Python, "mmap(2) is called by python3, which is not installed");
    };
    let mut output = BufReader::new(mapping.stdout.take().unwrap());
    let mut length = String::new();
    output.read_line(&mut length).unwrap();
    assert_eq!(length.trim(), LONG.to_string());
    // No page of the mapping has been read: each one comes after the change.
    replace(&site, &content(1000, 2));
    mapping.stdin.take().unwrap().write_all(b"\n").unwrap();
    let mut mapped = Vec::new();
    output.read_to_end(&mut mapped).unwrap();
    assert!(mapped == content(LONG, 1), "{} of {LONG} octets, or of another version", mapped.len());
    assert!(mapping.wait().unwrap().success());
}

#[test]
fn a_file_changed_in_place_mixes_no_versions() {
    let Some(site) = Site::with_file(content(LONG, 1)) else { return };
    let old = File::open(site.path("f")).unwrap();
    let mut piece = vec![0; 100_000];
    old.read_exact_at(&mut piece, 0).unwrap();
    fs::write(site.served("f"), content(LONG, 2)).unwrap();
    eventually("the new version is opened", || fs::read(site.path("f")).unwrap() == content(LONG, 2));
    let all = content(LONG, 1);
    for at in (0..LONG).step_by(piece.len()) {
        let octets = piece.len().min(LONG - at);
        // The producer has no longer the octets that were not read before.
        if old.read_exact_at(&mut piece[..octets], at as u64).is_ok() {
            assert!(piece[..octets] == all[at..at + octets], "octets of another version at {at}");
        }
    }
}

#[test]
fn sparse_files_beyond_4_gib_are_read() {
    const SIZE: u64 = 5 << 30;
    let mut site = Site::new();
    let served = File::create(site.served("f")).unwrap();
    served.set_len(SIZE).unwrap();
    let places = [0, (1 << 32) - 1000, SIZE - 3000];
    for (i, at) in places.into_iter().enumerate() {
        served.write_all_at(&content(3000, i), at).unwrap();
    }
    drop(served);
    if !site.mount() {
        return;
    }
    let file = File::open(site.path("f")).unwrap();
    assert_eq!((file.metadata().unwrap().len(), file.metadata().unwrap().blocks()), (SIZE, SIZE / 512));
    for (i, at) in places.into_iter().enumerate() {
        let mut read = vec![0; 3000];
        file.read_exact_at(&mut read, at).unwrap();
        assert!(read == content(3000, i), "{at}");
    }
    // One call over many requests of the kernel, in a hole.
    let mut hole = vec![1; LONG];
    file.read_exact_at(&mut hole, 3 << 30).unwrap();
    assert!(hole.iter().all(|octet| *octet == 0));
    assert_eq!(file.read_at(&mut hole, SIZE).unwrap(), 0);
}
