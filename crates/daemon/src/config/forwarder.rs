//! Creates the forwarder from the configuration.

use std::collections::BTreeMap;

use namely_forwarder::{
    ConfigError as LimitError, CsChange, DEFAULT_STRATEGY, Forwarder, PacketBuf, Router, StrategyError,
};
use namely_messages::strategy_name;
use namely_security::sha256;
use namely_wire::{FaceUri, Name};

use super::error::{ConfigError, Step};
use super::vip::objects_max;
use super::{Config, suggestion};

/// The default strategy of `/` if the router discovers neighbors on a network device.
const SELF_LEARNING: &str = "/self-learning";

/// The strategy of the names of registered objects.
const VIP: &str = "/vip";

/// Entries of the forwarder's face table beyond `faces_max`.
const FACES_MORE: usize = 1024;

const _: () = assert!(FACES_MORE > 1 + namely_io::FACES_ROOT_EXTRA);

impl Config {
    /// Creates a forwarder with these limits and strategies; `seed` is secret. An error contains
    /// the invalid key.
    pub fn forwarder<B, R>(&self, seed: u128) -> Result<Router<B, R>, ConfigError>
    where
        B: PacketBuf,
        R: lock_api::RawMutex,
    {
        let forwarder = Router::new(self.forwarder_config(), seed).map_err(limit_error)?;
        for (prefix, strategy) in &self.strategies() {
            set_strategy(&forwarder, prefix, strategy).map_err(|error| {
                let why = error.to_string();
                let word = strategy.rsplit('/').find(|word| !word.starts_with("v=")).unwrap_or(strategy);
                let meant = suggestion(word, &why);
                let reason = format!("strategy: \"{prefix}\" = \"{strategy}\": {why}{meant}");
                ConfigError::at(["strategy".into(), Step::Key(prefix.to_string())], &reason)
            })?;
        }
        Ok(forwarder)
    }

    /// Applies the strategies, regions and content store settings to a running forwarder that has
    /// those of `old`.
    pub(crate) fn apply<B, R>(&self, old: &Config, forwarder: &Forwarder<B, R>)
    where
        B: PacketBuf,
        R: lock_api::RawMutex,
    {
        let (old, new) = (old.strategies(), self.strategies());
        for prefix in old.keys().filter(|prefix| !new.contains_key(*prefix)) {
            if prefix.is_empty() {
                // The strategy of / cannot be unset, so it is reset to the default.
                set_strategy(forwarder, prefix, DEFAULT_STRATEGY).ok();
            } else {
                forwarder.strategies().unset(prefix.as_name()).ok();
            }
        }
        for (prefix, strategy) in &new {
            if let Err(error) = set_strategy(forwarder, prefix, strategy) {
                tracing::warn!(%prefix, %error, "the prefix keeps its strategy");
            }
        }
        forwarder.regions_set(self.network.regions.clone());
        let tables = &self.tables;
        forwarder.cs().configure(&CsChange {
            packets_max: Some(tables.cs_packets_max),
            admit: Some(tables.cs_admit),
            serve: Some(tables.cs_serve),
            policy: Some(tables.cs_policy),
        });
        forwarder.cs().limit(tables.cs_entries_max, tables.cs_octets_max);
    }

    /// The configured strategies and two defaults: VIP's strategy for its prefix if VIP is
    /// configured, and self-learning for `/` if neighbors are discovered on a network device.
    fn strategies(&self) -> BTreeMap<Name, String> {
        let mut strategies = self.strategy.clone();
        if let Some(vip) = &self.vip {
            strategies.entry(vip.prefix.clone()).or_insert_with(|| VIP.to_owned());
        }
        if self.discovery.enabled
            && self.faces.listeners().iter().any(|uri| matches!(uri, FaceUri::Device(_)))
        {
            strategies.entry(Name::new()).or_insert_with(|| SELF_LEARNING.to_owned());
        }
        strategies
    }

    fn forwarder_config(&self) -> namely_forwarder::Config {
        let tables = &self.tables;
        namely_forwarder::Config {
            // Additional entries are for the router's own faces, for root's faces beyond the limit,
            // and for faces that are still closing when others have replaced them.
            faces_max: self.faces.faces_max.saturating_add(FACES_MORE),
            pit: namely_forwarder::PitLimits {
                entries_max: tables.pit_entries_max,
                entries_per_face_max: tables.pit_entries_per_face_max,
                entries_per_holder_max: tables.pit_entries_per_holder_max,
                entries_reserve: tables.pit_entries_reserve,
                interest_lifetime_ms_max: tables.interest_lifetime_ms_max,
                interest_lifetime_remote_ms_max: tables.interest_lifetime_remote_ms_max,
                ..namely_forwarder::PitLimits::default()
            },
            cs: namely_forwarder::CsLimits {
                packets_max: tables.cs_packets_max,
                entries_max: tables.cs_entries_max,
                octets_max: tables.cs_octets_max,
            },
            cs_policy: tables.cs_policy,
            cs_admit: tables.cs_admit,
            cs_serve: tables.cs_serve,
            cs_marking: self.cs.disk.marking.to_tier(),
            cs_announce_ns: self.cs.disk.announce_ms.saturating_mul(1_000_000),
            unsolicited: tables.cs_unsolicited,
            fib: namely_forwarder::FibLimits {
                entries_max: tables.fib_entries_max,
                nexthops_max: tables.nexthops_max,
            },
            rib: namely_forwarder::RibLimits {
                routes_max: tables.rib_routes_max,
                routes_per_holder_max: tables.rib_routes_per_holder_max,
                octets_per_holder_max: usize::try_from(tables.rib_octets_per_holder_max)
                    .unwrap_or(usize::MAX),
            },
            strategies: namely_forwarder::StrategyLimits {
                choices_max: tables.strategy_choices_max,
                prefixes_max: tables.strategy_prefixes_max,
                faces_max: tables.strategy_faces_max,
            },
            dead_nonces: namely_forwarder::DeadNonceLimits {
                entries_max: tables.dead_nonces_max,
                lifetime_ns: tables.dead_nonce_lifetime_ms.saturating_mul(1_000_000),
            },
            regions: self.network.regions.clone(),
            nack_no_route: tables.nack_no_route,
            objects: namely_forwarder::ObjectLimits {
                objects_max: objects_max(self.vip.as_ref()),
                ..namely_forwarder::ObjectLimits::default()
            },
            ..namely_forwarder::Config::new(sha256)
        }
    }
}

/// The error of a limit, with its key.
fn limit_error(error: LimitError) -> ConfigError {
    let reason = format!("tables: {error}");
    let limit = match error {
        LimitError::Zero { limit } | LimitError::TooLarge { limit, .. } => limit,
        LimitError::OutOfMemory => return reason.into(),
    };
    let table = if limit == "faces_max" { "faces" } else { "tables" };
    ConfigError::at([table.into(), limit.into()], &reason)
}

/// Sets a strategy, given by its full name or its last component.
fn set_strategy<B: PacketBuf, R: lock_api::RawMutex>(
    forwarder: &Forwarder<B, R>,
    prefix: &Name,
    strategy: &str,
) -> Result<(), StrategyError> {
    let name = strategy_name(strategy).ok_or(StrategyError::Unknown)?;
    forwarder.strategies().set(prefix.as_name(), name.as_name()).map(|_| ())
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use namely_forwarder::{FaceProperties, Received};
    use namely_wire::InterestBuilder;

    use super::*;

    #[test]
    fn ethernet_listeners_default_to_self_learning() {
        let of_root = |text: &str| choices(&config(text).forwarder(1).unwrap())[0].clone();
        let learns = "/ /localhost/nfd/strategy/self-learning/v=1";
        assert_eq!(of_root("[faces]\nlisten = [\"dev://eth0\"]\n"), learns);
        let chosen = "[faces]\nlisten = [\"dev://eth0\"]\n[strategy]\n\"/\" = \"multicast\"\n";
        assert_eq!(of_root(chosen), "/ /localhost/nfd/strategy/multicast/v=4");
        let no_discovery = "[faces]\nlisten = [\"dev://eth0\"]\n[discovery]\nenabled = false\n";
        assert_eq!(of_root(no_discovery), "/ /localhost/nfd/strategy/best-route/v=5");
        assert_eq!(of_root(""), "/ /localhost/nfd/strategy/best-route/v=5");
    }

    type Tables = Router<Arc<[u8]>, parking_lot::RawMutex>;

    fn config(text: &str) -> Config {
        Config::parse(text, Path::new("namely.toml")).unwrap()
    }

    fn choices(forwarder: &Tables) -> Vec<String> {
        let mut choices: Vec<String> = forwarder
            .strategies()
            .snapshot()
            .iter()
            .map(|c| format!("{} {}", c.prefix, c.strategy))
            .collect();
        choices.sort();
        choices
    }

    #[test]
    fn a_reload_resets_removed_strategies() {
        let old =
            config("[strategy]\n\"/\" = \"multicast\"\n\"/a\" = \"/localhost/nfd/strategy/multicast\"\n");
        let forwarder: Tables = old.forwarder(1).unwrap();
        let chosen = choices(&forwarder);
        assert!(chosen.len() == 2 && chosen.iter().all(|choice| choice.contains("multicast")), "{chosen:?}");
        let new = config("[strategy]\n\"/b\" = \"multicast\"\n");
        new.apply(&old, &forwarder);
        let chosen = choices(&forwarder);
        assert!(chosen.len() == 2 && chosen[0].contains("best-route"), "{chosen:?}");
        assert!(chosen[1].starts_with("/b ") && chosen[1].contains("multicast"), "{chosen:?}");
    }

    #[test]
    fn a_reload_changes_the_network_regions() {
        let old = config("");
        let forwarder: Tables = old.forwarder(1).unwrap();
        let face = |spec| forwarder.face_register(spec).unwrap();
        let (app, by_hint, by_name) = (
            face(FaceProperties::application()),
            face(FaceProperties::remote()),
            face(FaceProperties::remote()),
        );
        let name = |uri: &str| uri.parse::<Name>().unwrap();
        forwarder.fib().add_nexthop(name("/isp").as_name(), by_hint, 0).unwrap();
        forwarder.fib().add_nexthop(name("/a").as_name(), by_name, 0).unwrap();
        let leads_to = |uri: &str, nonce: [u8; 4]| {
            let interest = InterestBuilder::new(name(uri)).nonce(nonce).forwarding_hint(name("/isp")).build();
            let mut sent = Vec::new();
            forwarder.receive(app, Received::bare(Arc::from(interest)), 0, &mut sent);
            sent[0].0
        };
        assert_eq!(leads_to("/a/1", [1; 4]), by_hint);
        let inside = config("[network]\nregions = [\"/isp/region\"]\n");
        inside.apply(&old, &forwarder);
        assert_eq!(leads_to("/a/2", [2; 4]), by_name);
        old.apply(&inside, &forwarder);
        assert_eq!(leads_to("/a/3", [3; 4]), by_hint);
    }

    #[test]
    fn invalid_values_name_their_key() {
        for (text, hint) in [
            ("[strategy]\n\"/a\" = \"bogus\"\n", "bogus"),
            ("[strategy]\n\"/a\" = \"/%\"\n", "/%"),
            ("[tables]\npit_entries_max = 0\n", "pit_entries_max"),
        ] {
            let error = config(text).forwarder::<Arc<[u8]>, parking_lot::RawMutex>(1).err().unwrap();
            assert!(error.to_string().contains(hint), "{error}");
        }
    }

    #[test]
    fn the_default_configuration_matches_the_forwarder() {
        let ours = format!("{:?}", Config { ..Config::default() }.forwarder_config());
        let theirs = format!(
            "{:?}",
            namely_forwarder::Config {
                faces_max: 4096 + FACES_MORE,
                ..namely_forwarder::Config::new(sha256)
            }
        );
        assert_eq!(ours, theirs);
    }
}
