//! Connects a router to the kernel's forwarder, and refuses settings that the kernel does not
//! support.

use std::fmt::Display;
use std::sync::Arc;

use namely_forwarder::DEFAULT_STRATEGY;
use namely_messages::{Scope, strategy_name};
use namely_mgmt::Tables;
use namely_nnet::{Control, ControlError, OpenError, Socket};
use namely_wire::Name;
use parking_lot::Mutex;

use super::Kernel;
use super::fib::Fib;
use crate::config::{Config, ConfigError};
use crate::exit::Failure;
use namely_dataplane::{Core, DataPlane};

/// The kernel's forwarder, checked before any other part of the router starts.
pub(crate) struct KernelHandle {
    control: Control,
    /// The socket on which the kernel's applications reach management.
    socket: Arc<Socket>,
    own: u64,
}

/// Refuses settings of `config` that the kernel's forwarder does not support.
///
/// # Errors
/// [`ConfigError`] with the key of the setting.
pub(crate) fn check(config: &Config) -> Result<(), ConfigError> {
    if !config.kernel.enabled {
        return Ok(());
    }
    let wrong = [
        (config.cs.disk.folder.is_some(), "cs.disk: its content store has no disk"),
        (!config.faces.dispatcher.links.is_empty(), "faces.dispatcher: its module's parameters dispatch"),
        (!config.readvertise.origins.is_empty(), "readvertise: its routes are not announced"),
        (!config.network.regions.is_empty(), "network.regions: it has no regions"),
        (config.vip.is_some(), "vip: its forwarder has no objects"),
    ];
    match wrong.into_iter().find(|(is_wrong, _)| *is_wrong) {
        Some((_, why)) => Err(format!("not with the kernel's forwarder (kernel.enabled): {why}").into()),
        None => Ok(()),
    }
}

/// Checks that the kernel's forwarder is loaded, if `config` enables it.
///
/// # Errors
/// [`Failure`], with a hint: it is not loaded, or a right is missing.
pub(crate) fn check_loaded(config: &Config) -> Result<(), Failure> {
    if !config.kernel.enabled {
        return Ok(());
    }
    Control::open().map(drop).map_err(|error| refused(&error))
}

impl KernelHandle {
    /// Opens the kernel's forwarder of this network namespace, if `config` enables it, and
    /// registers management's prefixes for the kernel's applications.
    ///
    /// # Errors
    /// [`Failure`], with a hint: the module is not loaded, a right is missing, or another router
    /// manages the forwarder already.
    pub(crate) fn of(config: &Config) -> Result<Option<Self>, Failure> {
        if !config.kernel.enabled {
            return Ok(None);
        }
        check(config)?;
        let mut control = Control::open().map_err(|error| refused(&error))?;
        let prefix = Scope::Localhost.prefix();
        let routes = control.routes().map_err(|error| refused(&error))?;
        if let Some(route) = routes.iter().find(|route| route.prefix == prefix) {
            let why = format!(
                "another router manages the kernel's forwarder here: face {} has {prefix}",
                route.face
            );
            return Err(
                Failure::failed(why).hint("stop that one, or start this one in another network namespace")
            );
        }
        let socket = Socket::open().map_err(|error| match error {
            OpenError::NotLoaded => refused(&ControlError::NotLoaded),
            error => Failure::failed(error),
        })?;
        let own = socket.face().map_err(|errno| refused(&ControlError::System(errno)))?;
        let mut scopes = vec![Scope::Localhost];
        if config.authorization.localhop_rib {
            scopes.push(Scope::Localhop);
        }
        for scope in scopes {
            let routed = control.route_new(scope.prefix().as_name(), own, 0);
            routed.map_err(|error| refused(&error))?;
        }
        Ok(Some(KernelHandle { control, socket: Arc::new(socket), own }))
    }

    /// Connects to the started data plane, and applies the strategies and the content store of
    /// `config`.
    ///
    /// # Errors
    /// [`Failure`]: the kernel refuses them.
    pub(crate) fn join(
        self,
        config: &Config,
        plane: &Arc<DataPlane>,
        core: &Arc<Core>,
    ) -> Result<Kernel, Failure> {
        let KernelHandle { control, socket, own } = self;
        let made = plane.manage(socket);
        made.map_err(Failure::system("management in the kernel"))?;
        let (plane, core) = (plane.clone(), core.clone());
        let kernel = Kernel {
            plane,
            core,
            control: control.into(),
            fib: Fib::default().into(),
            changing: Mutex::new(()),
            devices: Mutex::default(),
            own,
        };
        for (prefix, strategy) in &config.strategy {
            kernel.choose(prefix, strategy)?;
        }
        let packets = config.tables.cs_packets_max;
        if packets != Config::default().tables.cs_packets_max {
            kernel.cs_capacity(packets)?;
        }
        Ok(kernel)
    }
}

impl Kernel {
    fn choose(&self, prefix: &Name, strategy: &str) -> Result<(), ConfigError> {
        let wrong = |why: &dyn Display| format!("strategy: \"{prefix}\" = \"{strategy}\": {why}");
        let name = strategy_name(strategy).ok_or_else(|| wrong(&"it is not a name"))?;
        let chosen = self.strategy_set(prefix.as_name(), name.as_name());
        Ok(chosen.map(drop).map_err(|error| wrong(&error))?)
    }

    fn cs_capacity(&self, packets: usize) -> Result<(), ConfigError> {
        let set = self.control().cs_set(packets as u64);
        set.map_err(|error| {
            let fewer = "the module was loaded for fewer (its parameter cs_packets_max)";
            let why: &dyn Display = if error == ControlError::Full { &fewer } else { &error };
            format!("tables.cs_packets_max = {packets}: {why}").into()
        })
    }

    /// Applies the changes of strategies and the content store from `old` to `new`.
    pub(crate) fn apply(&self, old: &Config, new: &Config) {
        for prefix in old.strategy.keys().filter(|prefix| !new.strategy.contains_key(*prefix)) {
            if prefix.is_empty() {
                // The strategy of / cannot be unset, so it is reset to the default.
                self.choose(prefix, DEFAULT_STRATEGY).ok();
            } else {
                self.strategy_unset(prefix.as_name());
            }
        }
        let changed =
            new.strategy.iter().filter(|(prefix, strategy)| old.strategy.get(*prefix) != Some(strategy));
        let chosen = changed.map(|(prefix, strategy)| self.choose(prefix, strategy));
        let packets = new.tables.cs_packets_max;
        let sized = (packets != old.tables.cs_packets_max).then(|| self.cs_capacity(packets));
        for why in chosen.chain(sized).filter_map(Result::err) {
            tracing::warn!("not changed: {why}");
        }
    }
}

/// The failure and hint for an unavailable forwarder of the kernel.
fn refused(error: &ControlError) -> Failure {
    let failure = Failure::failed(error);
    match error {
        ControlError::NotLoaded => failure.hint(
            "`namely kernel load` loads it, as root (docs/kernel.md); without --kernel the router forwards by itself",
        ),
        ControlError::NotPermitted => failure.hint(
            "start the router as root, or give it the capability: AmbientCapabilities=CAP_NET_ADMIN with systemd, \
             otherwise `setcap cap_net_admin=ep` on the program",
        ),
        _ => failure,
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn config(text: &str) -> Config {
        Config::parse(text, Path::new("namely.toml")).unwrap()
    }

    #[test]
    fn unsupported_kernel_settings_name_their_key() {
        for (text, key) in [
            ("[cs.disk]\nfolder = \"/x\"\n", "cs.disk"),
            ("[faces.dispatcher]\nlinks = [\"dev://eth0\"]\n", "faces.dispatcher"),
            ("[readvertise]\norigins = [\"app\"]\n", "readvertise"),
            ("[network]\nregions = [\"/isp\"]\n", "network.regions"),
        ] {
            let with = format!("{text}[kernel]\nenabled = true\n");
            assert!(check(&config(&with)).unwrap_err().to_string().contains(key), "{text}");
            assert_eq!(check(&config(text)), Ok(()), "{text}");
        }
        assert_eq!(check(&config("[kernel]\nenabled = true\n[network]\nlocal = [\"/lab\"]\n")), Ok(()));
    }

    #[test]
    fn a_missing_kernel_right_prints_a_hint() {
        let said = |error| refused(&error).to_string();
        assert!(said(ControlError::NotLoaded).contains("namely kernel load"));
        assert!(said(ControlError::NotPermitted).contains("AmbientCapabilities=CAP_NET_ADMIN"));
    }
}
