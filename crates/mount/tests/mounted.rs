//! A served directory, mounted and read by this process.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use namely_files::{FileServer, ServeOptions};
use namely_mount::{MountError, MountOptions, Mounted, STREAMS_MAX, mount};
use namely_security::validity::ALWAYS;
use namely_security::{Certificate, KeyType, PrivateKey, Signer, TrustPolicy};
use namely_socket::{Consumer, ConsumerOptions, FetchError, Trust};
use namely_testkit::{Need, eventually, name, or_skip};
use namely_transport::connection::{Connection, Incoming, Outbox, Packet};
use namely_transport::serve::Producer;
use namely_wire::Name;
use rustix::mount::{UnmountFlags, unmount};

/// Octets of a file that has several requests of the kernel.
pub(crate) const LONG: usize = 3 << 20;

/// A directory that is served, and the mount of it. The mount is dropped first.
pub(crate) struct Site {
    mounted: Option<Mounted>,
    directory: tempfile::TempDir,
    anchor: Certificate,
    signer: Signer,
    /// Interests that have reached the server.
    interests: Arc<AtomicUsize>,
}

impl Site {
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        for folder in ["served", "mounted"] {
            fs::create_dir(directory.path().join(folder)).unwrap();
        }
        let (signer, anchor) = key_of("/p");
        Site { mounted: None, directory, anchor, signer, interests: Arc::default() }
    }

    pub(crate) fn served(&self, file: &str) -> PathBuf {
        self.directory.path().join("served").join(file)
    }

    pub(crate) fn path(&self, file: &str) -> PathBuf {
        self.directory.path().join("mounted").join(file)
    }

    /// Interests that have reached the server.
    pub(crate) fn interests(&self) -> usize {
        self.interests.load(Ordering::Relaxed)
    }

    fn consumer(&self, anchor: Certificate) -> Consumer {
        let served = self.directory.path().join("served");
        let mut options = ServeOptions::new(name("/p"));
        options.segment_octets = 8000;
        let server = FileServer::new(&served, options, self.signer.clone()).unwrap();
        connect(server, anchor, self.interests.clone())
    }

    fn mount_with(&self, anchor: Certificate, options: &MountOptions) -> Result<Mounted, MountError> {
        mount(self.consumer(anchor), &name("/p"), &self.directory.path().join("mounted"), options)
    }

    /// A mounted site that serves `content` as `f`; `None`: the test is skipped.
    pub(crate) fn with_file(content: impl AsRef<[u8]>) -> Option<Self> {
        let mut site = Site::new();
        fs::write(site.served("f"), content).unwrap();
        site.mount().then_some(site)
    }

    /// Mounts, or skips the test: a container may not mount, and an ordinary user needs
    /// fusermount3.
    pub(crate) fn mount(&mut self) -> bool {
        self.mounted = match self.mount_with(self.anchor.clone(), &MountOptions::default()) {
            Err(error @ MountError::System { .. }) => or_skip(Need::Mount, Err(error)),
            mounted => Some(mounted.unwrap()),
        };
        self.mounted.is_some()
    }
}

fn key_of(identity: &str) -> (Signer, Certificate) {
    let key = Arc::new(PrivateKey::generate(KeyType::Ed25519).unwrap());
    let key_name = name(identity).join_generic("KEY").join_generic("k");
    let certificate = Certificate::self_signed(key_name.as_name(), &key, ALWAYS, 1).unwrap();
    (Signer::new(key_name, key), certificate)
}

/// A consumer of the answers of `producer`, which runs in a thread of its own and counts Interests.
fn connect(
    mut producer: impl Producer + Send + 'static,
    anchor: Certificate,
    interests: Arc<AtomicUsize>,
) -> Consumer {
    let mut policy = TrustPolicy::hierarchical();
    policy.add_anchor(anchor);
    let mut options = ConsumerOptions { trust: Trust::Policy(policy.into()), ..ConsumerOptions::default() };
    options.read.lifetime_ms = 20_000;
    options.read.attempts = 2;
    let (near, far) = UnixStream::pair().unwrap();
    std::thread::spawn(move || answer_all(far, &mut producer, &interests));
    Consumer::over(Connection::from_stream(near).unwrap(), Name::new(), options).unwrap()
}

fn answer_all(stream: UnixStream, producer: &mut dyn Producer, interests: &AtomicUsize) {
    let Ok(mut connection) = Connection::from_stream(stream) else { return };
    let mut answer = |incoming: Incoming<'_>, outbox: &mut Outbox| {
        if let Packet::Interest(interest) = incoming.packet {
            interests.fetch_add(1, Ordering::Relaxed);
            producer.answer(&interest, &incoming.answer_headers(), outbox);
        }
    };
    while connection.turn(u64::MAX, &mut answer).is_ok() {}
}

/// Octets that differ by position and by `seed`.
pub(crate) fn content(octets: usize, seed: usize) -> Vec<u8> {
    (0..octets).map(|i| (i * 31 + i / 257 + seed * 7) as u8).collect()
}

#[test]
fn files_of_every_size_are_read() {
    let mut site = Site::new();
    let sizes = [0, 1, 4095, 4096, 7999, 8000, 8001, 131_072, 131_073, LONG];
    for size in sizes {
        fs::write(site.served(&size.to_string()), content(size, size)).unwrap();
    }
    fs::set_permissions(site.served("4096"), fs::Permissions::from_mode(0o755)).unwrap();
    if !site.mount() {
        return;
    }
    for size in sizes {
        let path = site.path(&size.to_string());
        assert!(fs::read(&path).unwrap() == content(size, size), "{size}");
        let metadata = fs::metadata(&path).unwrap();
        assert_eq!(metadata.len(), size as u64);
        let mode = if size == 4096 { 0o555 } else { 0o444 };
        assert_eq!(metadata.permissions().mode() & 0o777, mode, "{size}");
        let served = fs::metadata(site.served(&size.to_string())).unwrap();
        assert_eq!(metadata.mtime(), served.mtime());
    }
}

#[test]
fn reads_in_any_order_return_their_range() {
    let Some(site) = Site::with_file(content(LONG, 1)) else { return };
    let (file, all) = (File::open(site.path("f")).unwrap(), content(LONG, 1));
    let mut at = 0;
    for i in 0..200 {
        // Forward, backward, across pages and past the end.
        at = (at + [300_000, LONG - 70_000, 4096, 13][i % 4]) % LONG;
        let mut read = vec![0; 1 + i * 401];
        let octets = file.read_at(&mut read, at as u64).unwrap();
        assert!(octets > 0 && read[..octets] == all[at..at + octets], "{at}");
    }
    assert_eq!(file.read_at(&mut [0; 9], LONG as u64).unwrap(), 0);
}

#[test]
fn directories_list_odd_names() {
    let mut site = Site::new();
    let odd: [&[u8]; 6] = [b"a b", b"%41", b"v=1", b"32=x", b"a\nb", "\u{65e5}".as_bytes()];
    fs::create_dir(site.served("sub")).unwrap();
    for file in odd {
        fs::write(site.served("sub").join(OsString::from_vec(file.to_vec())), file).unwrap();
    }
    if !site.mount() {
        return;
    }
    let listed: BTreeSet<_> =
        fs::read_dir(site.path("sub")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(listed, odd.iter().map(|file| OsString::from_vec(file.to_vec())).collect());
    for file in listed {
        assert_eq!(fs::read(site.path("sub").join(&file)).unwrap(), file.as_bytes());
    }
    assert!(fs::metadata(site.path("sub")).unwrap().is_dir());
    let missing = fs::metadata(site.path("sub/missing")).unwrap_err();
    assert_eq!(missing.kind(), std::io::ErrorKind::NotFound);
}

#[test]
fn long_directories_list_every_entry() {
    let mut site = Site::new();
    let files: BTreeSet<_> = (0..700).map(|i| OsString::from(format!("file-{i}"))).collect();
    for file in &files {
        fs::write(site.served(file.to_str().unwrap()), "x").unwrap();
    }
    if !site.mount() {
        return;
    }
    for _ in 0..2 {
        let entries = fs::read_dir(site.path("")).unwrap().map(Result::unwrap);
        let listed: BTreeSet<_> = entries
            .map(|entry| {
                // The second time, the kernel has attributes of some.
                assert_eq!(entry.metadata().unwrap().len(), 1);
                entry.file_name()
            })
            .collect();
        assert_eq!(listed, files);
    }
}

#[test]
fn an_open_file_keeps_its_version() {
    let Some(site) = Site::with_file(content(LONG, 1)) else { return };
    let mut old = File::open(site.path("f")).unwrap();
    let mut read = Vec::new();
    old.read_to_end(&mut read).unwrap();
    fs::write(site.served("new"), content(LONG, 2)).unwrap();
    fs::rename(site.served("new"), site.served("f")).unwrap();
    // A server may reuse metadata while it is fresh.
    eventually("the new version is opened", || fs::read(site.path("f")).unwrap() == content(LONG, 2));
    old.seek(SeekFrom::Start(0)).unwrap();
    read.clear();
    old.read_to_end(&mut read).unwrap();
    assert!(read == content(LONG, 1), "the pages of the old version remain");
    assert_ne!(old.metadata().unwrap().ino(), fs::metadata(site.path("f")).unwrap().ino());
}

#[test]
fn files_over_the_read_ahead_limit_are_read() {
    let mut site = Site::new();
    let count = STREAMS_MAX + 3;
    for i in 0..count {
        fs::write(site.served(&i.to_string()), content(LONG / 2, i)).unwrap();
    }
    if !site.mount() {
        return;
    }
    let mut files: Vec<_> = (0..count).map(|i| File::open(site.path(&i.to_string())).unwrap()).collect();
    let mut read = vec![vec![0; LONG / 2]; count];
    let piece = 200_000;
    for at in (0..LONG / 2).step_by(piece) {
        for (file, read) in files.iter_mut().zip(&mut read) {
            let end = (at + piece).min(LONG / 2);
            file.read_exact(&mut read[at..end]).unwrap();
        }
    }
    for (i, read) in read.iter().enumerate() {
        assert!(*read == content(LONG / 2, i), "{i}");
    }
}

#[test]
fn writes_are_refused() {
    let Some(site) = Site::with_file("x") else { return };
    let errors = [
        fs::write(site.path("g"), "y").unwrap_err(),
        fs::OpenOptions::new().write(true).open(site.path("f")).unwrap_err(),
        fs::remove_file(site.path("f")).unwrap_err(),
        fs::create_dir(site.path("d")).unwrap_err(),
    ];
    for error in errors {
        assert_eq!(error.kind(), std::io::ErrorKind::ReadOnlyFilesystem, "{error}");
    }
}

#[test]
fn an_untrusted_directory_is_not_mounted() {
    let site = Site::new();
    let (_, other) = key_of("/p");
    let error = site.mount_with(other, &MountOptions::default()).unwrap_err();
    assert!(matches!(error, MountError::Fetch(FetchError::Object(_))), "{error:?}");
}

#[test]
fn only_directories_are_mounted() {
    let site = Site::new();
    fs::write(site.served("f"), "x").unwrap();
    let consumer = site.consumer(site.anchor.clone());
    let error = mount(consumer, &name("/p/f"), &site.path(""), &MountOptions::default()).unwrap_err();
    assert!(matches!(error, MountError::NotDirectory { .. }), "{error:?}");
    let consumer = site.consumer(site.anchor.clone());
    let error = mount(consumer, &name("/p"), &site.path("missing"), &MountOptions::default()).unwrap_err();
    assert!(matches!(error, MountError::NoMountPoint { .. }), "{error:?}");
}

#[test]
fn unmounting_detaches_open_files() {
    let Some(mut site) = Site::with_file("x") else { return };
    let open = File::open(site.path("f")).unwrap();
    site.mounted.take().unwrap().unmount().unwrap();
    assert_eq!(fs::read_dir(site.path("")).unwrap().count(), 0);
    drop(open);
}

#[test]
fn an_unmount_by_another_program_is_no_error() {
    let mut site = Site::new();
    if !site.mount() {
        return;
    }
    let path = site.path("");
    // Only root may call the system itself.
    if unmount(&path, UnmountFlags::empty()).is_err() {
        let unmounted = Command::new("fusermount3").arg("-u").arg(&path).status().unwrap();
        assert!(unmounted.success());
    }
    let mounted = site.mounted.take().unwrap();
    eventually("the session has ended", || mounted.is_unmounted());
    mounted.unmount().unwrap();
}
