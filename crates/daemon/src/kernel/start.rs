//! How a router and the kernel's forwarder come together, and what of a configuration the kernel
//! has no place for.

use std::sync::Arc;

use namely_forwarder::DEFAULT_STRATEGY;
use namely_mgmt::Tables;
use namely_nnet::{Control, ControlError, OpenError, Socket};
use namely_wire::Name;
use namely_wire::mgmt::Scope;
use parking_lot::Mutex;

use super::Kernel;
use super::fib::Fib;
use crate::config::Config;
use crate::exit::{Exit, Failure};
use namely_dataplane::{Core, DataPlane};

/// The kernel's forwarder, which is there and may be told things, before anything else of the
/// router has begun.
pub(crate) struct Opened {
    control: Control,
    /// By which the kernel's applications reach management.
    socket: Arc<Socket>,
    own: u64,
}

/// What `config` says that the kernel's forwarder cannot do.
///
/// # Errors
/// The key, in words.
pub(crate) fn check(config: &Config) -> Result<(), String> {
    if !config.kernel.enabled {
        return Ok(());
    }
    let wrong = [
        (config.cs.disk.folder.is_some(), "cs.disk: its content store has no disk"),
        (!config.faces.dispatcher.links.is_empty(), "faces.dispatcher: its module's parameters dispatch"),
        (!config.readvertise.origins.is_empty(), "readvertise: nobody is told of its routes"),
        (!config.network.regions.is_empty(), "network.regions: it knows of no regions"),
        (config.vip.is_some(), "vip: its forwarder knows of no objects"),
    ];
    match wrong.into_iter().find(|(is_wrong, _)| *is_wrong) {
        Some((_, why)) => Err(format!("not with the kernel's forwarder (kernel.enabled): {why}")),
        None => Ok(()),
    }
}

impl Opened {
    /// Finds the kernel's forwarder of this network namespace, if `config` wants it, and has its
    /// applications reach this router.
    ///
    /// # Errors
    /// [`Failure`] says what to do: the module is not loaded, a right is missing, or another router
    /// is there already.
    pub(crate) fn of(config: &Config) -> Result<Option<Self>, Failure> {
        if !config.kernel.enabled {
            return Ok(None);
        }
        check(config).map_err(|why| Failure::new(Exit::Configuration, why))?;
        let mut control = Control::open().map_err(|error| refused(&error))?;
        let prefix = Scope::Localhost.prefix();
        let routes = control.routes().map_err(|error| refused(&error))?;
        if let Some(route) = routes.iter().find(|route| route.prefix == prefix) {
            let why = format!(
                "another router manages the kernel's forwarder here: face {} has {prefix}",
                route.face
            );
            return Err(Failure::new(Exit::Failed, why)
                .hint("stop that one, or start this one in another network namespace"));
        }
        let socket = Socket::open().map_err(|error| match error {
            OpenError::NotLoaded => refused(&ControlError::NotLoaded),
            error => Failure::new(Exit::Failed, error.to_string()),
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
        Ok(Some(Opened { control, socket: Arc::new(socket), own }))
    }

    /// The same for a router that has begun, with what `config` says of strategies and the content
    /// store.
    ///
    /// # Errors
    /// [`Failure`]: the kernel does not take them.
    pub(crate) fn join(
        self,
        config: &Config,
        plane: &Arc<DataPlane>,
        core: &Arc<Core>,
    ) -> Result<Kernel, Failure> {
        let Opened { control, socket, own } = self;
        let made = plane.manage(socket);
        made.map_err(|error| Failure::new(Exit::Failed, format!("management in the kernel: {error}")))?;
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
            kernel.choose(prefix, strategy).map_err(|why| Failure::new(Exit::Configuration, why))?;
        }
        let packets = config.tables.cs_packets_max;
        if packets != Config::default().tables.cs_packets_max {
            kernel.cs_capacity(packets).map_err(|why| Failure::new(Exit::Configuration, why))?;
        }
        Ok(kernel)
    }
}

impl Kernel {
    fn choose(&self, prefix: &Name, strategy: &str) -> Result<(), String> {
        let wrong = |why: String| format!("strategy: \"{prefix}\" = \"{strategy}\": {why}");
        let name: Name = strategy.parse().map_err(|_| wrong("it is no name".into()))?;
        let chosen = self.strategy_set(prefix.as_name(), name.as_name());
        chosen.map(drop).map_err(|error| wrong(error.to_string()))
    }

    fn cs_capacity(&self, packets: usize) -> Result<(), String> {
        let set = self.control().cs_set(packets as u64);
        set.map_err(|error| match error {
            ControlError::Full => format!(
                "tables.cs_packets_max = {packets}: the module was loaded for fewer (its parameter cs_packets_max)"
            ),
            error => format!("tables.cs_packets_max = {packets}: {error}"),
        })
    }

    /// Goes from the strategies and the content store of `old` to those of `new`.
    pub(crate) fn apply(&self, old: &Config, new: &Config) {
        for prefix in old.strategy.keys().filter(|prefix| !new.strategy.contains_key(*prefix)) {
            if prefix.is_empty() {
                // That of / cannot be unset; it goes back to the default.
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
            tracing::warn!("it stays as it was: {why}");
        }
    }
}

/// Why the kernel's forwarder cannot be had, and what to do.
fn refused(error: &ControlError) -> Failure {
    let failure = Failure::new(Exit::Failed, error.to_string());
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
    fn what_the_kernel_cannot_do_is_refused_by_its_key() {
        for (text, key) in [
            ("[cs.disk]\nfolder = \"/x\"\n", "cs.disk"),
            ("[faces.dispatcher]\nlinks = [\"dev://eth0\"]\n", "faces.dispatcher"),
            ("[readvertise]\norigins = [\"app\"]\n", "readvertise"),
            ("[network]\nregions = [\"/isp\"]\n", "network.regions"),
        ] {
            let with = format!("{text}[kernel]\nenabled = true\n");
            assert!(check(&config(&with)).unwrap_err().contains(key), "{text}");
            assert_eq!(check(&config(text)), Ok(()), "{text}");
        }
        assert_eq!(check(&config("[kernel]\nenabled = true\n[network]\nlocal = [\"/lab\"]\n")), Ok(()));
    }

    #[test]
    fn who_has_no_module_or_no_right_is_told_what_to_type() {
        let said = |error| refused(&error).to_string();
        assert!(said(ControlError::NotLoaded).contains("namely kernel load"));
        assert!(said(ControlError::NotPermitted).contains("AmbientCapabilities=CAP_NET_ADMIN"));
    }
}
