//! Restricts access to files: those in the configuration, those for the system's name resolution,
//! and the folder of the content store's disk. Uses Landlock, if the kernel supports it.

use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, BitFlags, Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetError, RulesetStatus,
    path_beneath_rules,
};
use namely_wire::FaceUri;

use crate::config::Config;

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

/// Restricts this process to these files from now on. A missing feature of the kernel is logged.
pub(super) fn confine(config: &Config, config_file: Option<&Path>) {
    let written: Vec<&Path> = config.cs.disk.folder.iter().map(PathBuf::as_path).collect();
    match restrict(&folders_read(config, config_file), &folders_of_sockets(config), &written) {
        Ok(RulesetStatus::FullyEnforced) => tracing::info!("files are confined to the configured ones"),
        Ok(RulesetStatus::PartiallyEnforced) => {
            tracing::info!("files are confined to the configured ones, as far as this kernel supports it");
        }
        Ok(RulesetStatus::NotEnforced) => {
            tracing::warn!("this kernel has no Landlock: files are not confined");
        }
        Err(error) => tracing::warn!("files are not confined: {error}"),
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
    let paths = config.faces.listen.iter().filter_map(|uri| match uri {
        FaceUri::Unix(path) | FaceUri::Memif { path, .. } => Some(Path::new(path)),
        _ => None,
    });
    paths.map(folder_of).collect()
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
    fn only_configured_folders_are_opened() {
        let text = "[authorization]\nannouncement_anchors = [\"/h/i.cert\"]\n[faces]\nlisten = [\"unix:///a/b.sock\", \"memif:///c/d.memif\", \"udp://127.0.0.1:1\"]\n\
                    [[authorization.key]]\ncertificate = \"/e/f.cert\"\n";
        let config = Config::parse(text, "x".as_ref()).unwrap();
        assert_eq!(folders_of_sockets(&config), [Path::new("/a"), Path::new("/c")]);
        assert_eq!(
            folders_read(&config, Some("/g/namely.toml".as_ref())),
            [Path::new("/e"), Path::new("/h"), Path::new("/g")]
        );
        assert_eq!(folders_read(&config, Some("namely.toml".as_ref()))[2], Path::new("."));
    }
}
