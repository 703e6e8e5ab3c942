//! Restricts access to files: those in the configuration, those for the system's name resolution,
//! and the folder of the content store's disk. Uses Landlock, if the kernel supports it.

use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, BitFlags, Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetError, RulesetStatus,
    path_beneath_rules,
};
use namely_wire::FaceUri;

use crate::config::Config;
use crate::confinement::{self, RESOLVER};

/// Readable folders. System files are replaced at run time (such as resolv.conf, with each
/// network), so rules must name their folders.
const READ: [&str; 10] = [
    "/etc",
    "/usr",
    "/lib",
    "/lib64",
    "/proc",
    "/sys",
    "/dev",
    "/run/systemd/resolve",
    "/run/nscd",
    "/run/resolvconf",
];

/// Links that are followed, as many as the kernel follows (path_resolution(7)).
const LINKS_MAX: usize = 40;

/// Returns `folder`, or the nearest folder above it if it does not exist yet, so that it can be
/// used once it exists. A rule for `/` would permit everything, so there is none.
fn nearest(folder: &Path) -> Option<PathBuf> {
    let present = folder.ancestors().find(|above| above.exists() || above.as_os_str().is_empty())?;
    let present = if present.as_os_str().is_empty() { Path::new(".") } else { present };
    (present == folder || present.parent().is_some()).then(|| present.to_owned())
}

/// Returns the folders to which a chain of symbolic links leads, or the [`nearest`] ones.
fn folders_behind(link: &Path) -> Vec<PathBuf> {
    let mut folders = Vec::new();
    let mut path = link.to_owned();
    for _ in 0..LINKS_MAX {
        let Ok(target) = std::fs::read_link(&path) else { break };
        path = folder_of(&path).join(target);
        folders.extend(nearest(&folder_of(&path)));
    }
    folders
}

/// Restricts this process to these files from now on. A missing feature of the kernel is logged.
pub(super) fn confine(config: &Config, config_file: Option<&Path>) {
    let mut read = folders_read(config, config_file);
    read.extend(folders_behind(Path::new(RESOLVER)));
    let written: Vec<&Path> = config.cs.disk.folder.iter().map(PathBuf::as_path).collect();
    let restricted = restrict(&read, &folders_of_sockets(config), &written);
    if !matches!(restricted, Err(_) | Ok(RulesetStatus::NotEnforced)) {
        confinement::begin();
    }
    match restricted {
        Ok(RulesetStatus::FullyEnforced) => tracing::info!("files are confined to the configured ones"),
        Ok(RulesetStatus::PartiallyEnforced) => {
            tracing::info!("files are confined to the configured ones, as far as this kernel supports it");
        }
        Ok(RulesetStatus::NotEnforced) => {
            tracing::warn!("this kernel has no Landlock: files are not confined");
        }
        Err(error) => tracing::warn!(%error, "files are not confined"),
    }
}

fn restrict(read: &[PathBuf], sockets: &[PathBuf], written: &[&Path]) -> Result<RulesetStatus, RulesetError> {
    let reading = AccessFs::ReadFile | AccessFs::ReadDir;
    let making: BitFlags<AccessFs> = reading | AccessFs::MakeSock | AccessFs::RemoveFile;
    let writing =
        reading | AccessFs::WriteFile | AccessFs::MakeReg | AccessFs::RemoveFile | AccessFs::Truncate;
    let created = Ruleset::default().handle_access(AccessFs::from_all(ABI::V5))?.create()?;
    // Missing folders are skipped.
    let status = created
        .add_rules(path_beneath_rules(READ, reading))?
        .add_rules(path_beneath_rules(read, reading))?
        .add_rules(path_beneath_rules(["/dev/null"], reading | AccessFs::WriteFile))?
        .add_rules(path_beneath_rules(sockets, making))?
        .add_rules(path_beneath_rules(written, writing))?
        .restrict_self()?;
    Ok(status.ruleset)
}

/// The folders of the configuration and of certificates, because a reload reads replaced files.
fn folders_read(config: &Config, config_file: Option<&Path>) -> Vec<PathBuf> {
    let keys = config.authorization.key.iter().map(|rule| rule.certificate.as_path());
    let anchors = config.authorization.announcement_anchors.iter().map(PathBuf::as_path);
    let discovery = config.discovery.certificates();
    let vip = config.vip.iter().flat_map(|vip| vip.files());
    keys.chain(anchors).chain(discovery).chain(vip).chain(config_file).map(folder_of).collect()
}

/// The folders in which sockets are made and removed.
fn folders_of_sockets(config: &Config) -> Vec<PathBuf> {
    let listeners = config.faces.listeners();
    let paths = listeners.iter().filter_map(|uri| match uri {
        FaceUri::Unix(path) | FaceUri::Memif { path, .. } => Some(Path::new(path)),
        _ => None,
    });
    paths.filter_map(|path| nearest(&folder_of(path))).collect()
}

fn folder_of(path: &Path) -> PathBuf {
    match path.parent() {
        Some(folder) if folder.as_os_str().is_empty() => PathBuf::from("."),
        Some(folder) => folder.to_owned(),
        None => path.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_folder_never_permits_all() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(nearest(dir.path()), Some(dir.path().to_owned()));
        assert_eq!(nearest(&dir.path().join("a/b")), Some(dir.path().to_owned()));
        assert_eq!(nearest(Path::new("/no-such-folder/below")), None);
        assert_eq!(nearest(Path::new("/")), Some(PathBuf::from("/")), "the configuration names it");
        assert_eq!(nearest(Path::new("no-such-folder")), Some(PathBuf::from(".")));
    }

    #[test]
    fn the_resolvers_link_is_followed() {
        use std::os::unix::fs::symlink;

        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        for folder in ["etc", "run", "run/stub"] {
            std::fs::create_dir(path(folder)).unwrap();
        }
        symlink("../run/stub/resolv.conf", path("etc/resolv.conf")).unwrap();
        symlink(path("mnt/wsl/resolv.conf"), path("run/stub/resolv.conf")).unwrap();
        let found = folders_behind(&path("etc/resolv.conf"));
        assert_eq!(found, [path("etc/../run/stub"), dir.path().to_owned()], "the last folder comes later");
        assert_eq!(folders_behind(&path("run")), Vec::<PathBuf>::new(), "no link");
        symlink("circle", path("circle")).unwrap();
        assert_eq!(folders_behind(&path("circle")).len(), LINKS_MAX);
        assert_eq!(confinement::lookup_refusal(), None, "this process is not confined");
    }

    #[test]
    fn a_resolver_that_moved_away_is_reported() {
        use std::os::unix::fs::symlink;

        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        for folder in ["etc", "run", "run/stub", "run/stub/new", "later"] {
            std::fs::create_dir(path(folder)).unwrap();
        }
        for file in ["run/stub/resolv.conf", "run/stub/new/resolv.conf", "later/resolv.conf"] {
            std::fs::write(path(file), "nameserver 192.0.2.1\n").unwrap();
        }
        let resolver = path("etc/resolv.conf");
        let lead = |target: &str| {
            let _ = std::fs::remove_file(&resolver);
            symlink(path(target), &resolver).unwrap();
        };
        lead("run/stub/resolv.conf");
        // The restriction concerns this thread and its children only.
        let (asks, asked) = std::sync::mpsc::channel();
        let (answers, answered) = std::sync::mpsc::channel();
        let of = resolver.clone();
        let confined = std::thread::spawn(move || {
            let mut read = folders_behind(&of);
            read.push(folder_of(&of));
            let status = restrict(&read, &[], &[]);
            if !matches!(status, Ok(RulesetStatus::FullyEnforced | RulesetStatus::PartiallyEnforced)) {
                return;
            }
            while let Ok(()) = asked.recv() {
                let _ = answers.send(confinement::refusal(&of));
            }
        });
        let report = |target: &str| {
            lead(target);
            asks.send(()).ok().and_then(|()| answered.recv().ok())
        };
        let Some(first) = report("run/stub/resolv.conf") else {
            return namely_testkit::skip(namely_testkit::Need::Kernel, "this kernel has no Landlock");
        };
        assert_eq!(first, None, "a link of the start");
        assert_eq!(report("run/stub/new/resolv.conf"), Some(None), "below its folder");
        let refused = report("later/resolv.conf").flatten().unwrap();
        assert!(refused.contains("etc/resolv.conf") && refused.ends_with("restart the router"), "{refused}");
        assert_eq!(report("run/stub/resolv.conf"), Some(None), "it leads back");
        drop(asks);
        confined.join().unwrap();
    }

    #[test]
    fn only_configured_folders_are_opened() {
        let (dir, later) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (dir, later) = (dir.path(), later.path());
        let text = format!(
            "[authorization]\nannouncement_anchors = [\"/h/i.cert\"]\n[faces]\n\
             listen = [\"unix://{}/b.sock\", \"memif://{}/c/d.memif\", \"udp://127.0.0.1:1\"]\n\
             [[authorization.key]]\ncertificate = \"/e/f.cert\"\n",
            dir.display(),
            later.display()
        );
        let config = Config::parse(&text, "x".as_ref()).unwrap();
        assert_eq!(folders_of_sockets(&config), [dir, later]);
        assert_eq!(
            folders_read(&config, Some("/g/namely.toml".as_ref())),
            [Path::new("/e"), Path::new("/h"), Path::new("/g")]
        );
        assert_eq!(folders_read(&config, Some("namely.toml".as_ref()))[2], Path::new("."));
    }
}
