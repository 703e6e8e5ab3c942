//! The user of a router that root starts, and its capabilities.

use namely_host::users;
use namely_io::Xdp;
use namely_wire::FaceUri;
use rustix::io::Errno;
use rustix::process::{Gid, Uid};
use rustix::thread::{self, CapabilitySet, CapabilitySets};

use crate::config::Config;
use crate::exit::{Exit, Failure};

/// The default user of the router.
const DEFAULT: &str = "namely";

/// Ports below this number require CAP_NET_BIND_SERVICE.
const PORTS_OF_ALL: u16 = 1024;

/// The user to change to.
#[derive(Debug)]
pub(super) struct User {
    pub(super) name: String,
    pub(super) uid: u32,
    gid: u32,
}

/// Selects the user; `None` keeps the current user with all its rights. If the default user does
/// not exist, a router of root keeps its uid, but gives up root's other capabilities.
///
/// # Errors
/// Configuration: there is no user of this name.
pub(super) fn choose(wanted: Option<&str>) -> Result<Option<User>, Failure> {
    if !rustix::process::geteuid().is_root() || wanted == Some("root") {
        return Ok(None);
    }
    let name = wanted.unwrap_or(DEFAULT);
    match users::ids_of(name) {
        Some((uid, gid)) => Ok(Some(User { name: name.to_owned(), uid, gid })),
        None if wanted.is_none() => {
            tracing::info!(
                "there is no user `{DEFAULT}`: the router stays root, and keeps of root's capabilities only those \
                 that its faces need"
            );
            Ok(Some(User { name: "root".to_owned(), uid: 0, gid: 0 }))
        }
        None => Err(Failure::new(Exit::Configuration, format!("process.user: there is no user `{name}`"))
            .hint("`useradd --system --no-create-home NAME` creates one; `user = \"root\"` stays root")),
    }
}

/// The capabilities that the faces and listeners of `config` need.
pub(super) fn capabilities(config: &Config) -> CapabilitySet {
    let mut needed = CapabilitySet::empty();
    let listeners = config.faces.listeners();
    let listen = listeners.iter().chain(config.faces.multicast.iter().map(|group| &group.group));
    let mut uris = listen.chain(config.face.iter().map(|face| &face.remote));
    if uris.any(|uri| matches!(uri, FaceUri::Device(_) | FaceUri::Ether(_))) {
        needed |= CapabilitySet::NET_RAW;
        if config.faces.ethernet.xdp != Xdp::Off {
            needed |= CapabilitySet::NET_ADMIN | CapabilitySet::BPF | CapabilitySet::IPC_LOCK;
        }
    }
    if config.kernel.enabled {
        needed |= CapabilitySet::NET_ADMIN;
    }
    let ports = listeners.iter().filter_map(FaceUri::address).map(|address| address.port());
    if ports.into_iter().any(|port| (1..PORTS_OF_ALL).contains(&port)) {
        needed |= CapabilitySet::NET_BIND_SERVICE;
    }
    needed
}

impl User {
    /// Changes to this user permanently, with the capabilities `keep`.
    ///
    /// # Errors
    /// The system's error. The process must end then.
    pub(super) fn become_it(&self, keep: CapabilitySet) -> Result<(), Errno> {
        // Root in a container may lack some capabilities. The faces that need them report errors.
        let keep = if self.uid == 0 { keep & thread::capabilities(None)?.permitted } else { keep };
        let (uid, gid) = (Uid::from_raw(self.uid), Gid::from_raw(self.gid));
        // The kernel refuses unknown capabilities. Those not in `keep` are dropped below in any
        // case.
        for capability in CapabilitySet::all().difference(keep).iter() {
            thread::remove_capability_from_bounding_set(capability).ok();
        }
        thread::set_keep_capabilities(true)?;
        // Root has these ids already, and may not be able to set them in a user namespace.
        if self.uid != 0 {
            thread::set_thread_groups(&[gid])?;
            thread::set_thread_res_gid(gid, gid, gid)?;
            thread::set_thread_res_uid(uid, uid, uid)?;
        }
        let inheritable = CapabilitySet::empty();
        thread::set_capabilities(None, CapabilitySets { effective: keep, permitted: keep, inheritable })?;
        thread::set_keep_capabilities(false)?;
        // Verifies that the change cannot be reversed, unless the user stayed the same.
        let is_permanent = self.uid == 0 || thread::set_thread_uid(Uid::ROOT).is_err();
        if is_permanent { Ok(()) } else { Err(Errno::PERM) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_needed_capabilities_are_kept() {
        let kept = |text: &str| capabilities(&Config::parse(text, "x".as_ref()).unwrap());
        assert_eq!(kept(""), CapabilitySet::empty(), "the default needs nothing");
        assert_eq!(kept("[faces]\nlisten = [\"tcp://127.0.0.1:0\"]"), CapabilitySet::empty());
        assert_eq!(kept("[faces]\nlisten = [\"udp://0.0.0.0:63\"]"), CapabilitySet::NET_BIND_SERVICE);
        assert_eq!(kept("[faces]\nlisten = [\"dev://eth0\"]"), CapabilitySet::NET_RAW);
        assert_eq!(kept("[kernel]\nenabled = true"), CapabilitySet::NET_ADMIN);
        let xdp = kept("[faces]\nlisten = [\"dev://eth0\"]\n[faces.ethernet]\nxdp = \"auto\"");
        assert!(xdp.contains(CapabilitySet::NET_RAW | CapabilitySet::NET_ADMIN | CapabilitySet::BPF));
        let group = "[[faces.multicast]]\ninterface = \"eth0\"\ngroup = \"ether://[01:00:5e:00:17:aa]\"";
        assert_eq!(kept(group), CapabilitySet::NET_RAW);
        let face = "[[face]]\nremote = \"ether://[02:00:00:00:00:01]\"\nlocal = \"dev://eth0\"";
        assert_eq!(kept(face), CapabilitySet::NET_RAW);
    }
}
