//! The virtual plane of VIP (docs/vip.md).

use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use namely_catalogue::BLOCKS_MAX;
use namely_discovery::Key;
use namely_security::read_certificate;
use namely_transport::publish::SEGMENT_OCTETS_DEFAULT;
use namely_vip::limits::{NEIGHBOURS_MAX, OBJECTS_MAX, ROUTER_OCTETS_MAX};
use namely_vip::{Decay, PlacementSource, PlaneConfig, Tier};
use namely_wire::{FaceUri, Name, PACKET_OCTETS_MAX};
use serde::de::Error;
use serde::{Deserialize, Deserializer};

use super::cs::CsDisk;
use super::discovery::key;
use super::error::ConfigError;
use super::values;

/// The virtual plane of VIP. A router without this table does not run it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Vip {
    /// The name of this router in the exchange.
    #[serde(deserialize_with = "router")]
    pub router: String,
    /// The file with the registered blocks and their files.
    pub catalogue: PathBuf,
    /// Prefix of the names of the catalogue's files in the network.
    #[serde(default, deserialize_with = "values::name")]
    pub prefix: Name,
    /// The registered blocks of the catalogue, with `top:N`.
    ///
    /// # Limit
    /// A catalogue with more blocks, or a configuration with a larger N, is refused.
    /// - Value: N of 1 to 4096 in a catalogue of 65,536 blocks
    /// - Setting: `vip.register`
    /// - Tests: `vip_errors_prevent_the_start`,
    ///   `a_catalogue_ends_at_its_limits`
    #[serde(default, deserialize_with = "values::text")]
    pub register: Register,
    /// Interval between two selections of these blocks, s.
    #[serde(default = "register_interval_s_default", deserialize_with = "register_interval_s")]
    pub register_interval_s: u64,
    /// Length of a slot, ms.
    #[serde(default = "period_ms_default", deserialize_with = "period_ms")]
    pub period_ms: u32,
    /// VIPs that enter the virtual plane for each object requested here.
    #[serde(default = "amplification_default", deserialize_with = "amplification")]
    pub amplification: u8,
    /// Half-life of scores, s.
    #[serde(default = "score_half_life_s_default")]
    pub score_half_life_s: u64,
    /// The placement of the virtual cache.
    #[serde(default, deserialize_with = "follow")]
    pub follow: PlacementSource,
    /// Octets in memory for registered objects.
    #[serde(default, deserialize_with = "values::octets")]
    pub memory: u64,
    /// Read rate of that memory, octets per second.
    #[serde(default = "memory_octets_per_s_default", deserialize_with = "values::octets")]
    pub memory_octets_per_s: u64,
    /// Octets on the content store's disk for registered objects.
    ///
    /// `None`: what fits on the disk.
    ///
    /// # Limit
    /// A larger value is refused with the configuration, and an object that does not fit is not
    /// planned for the disk.
    /// - Value: at most the size of `[cs.disk]`; 7/8 of it by default, less the overhead of packets
    ///   around segments
    /// - Setting: `vip.disk_octets_max`
    /// - Tests: `vip_errors_prevent_the_start`,
    ///   `an_object_may_fill_the_disk_exactly`
    #[serde(default, deserialize_with = "octets_opt")]
    pub disk_octets_max: Option<u64>,
    /// Read rate of that disk, octets per second, until the router has measured it.
    #[serde(default = "disk_octets_per_s_default", deserialize_with = "values::octets")]
    pub disk_octets_per_s: u64,
    /// Cost of admitting an object to memory or disk, and of evicting one. The unit is the value of
    /// reading one VIP there.
    #[serde(default)]
    pub move_cost: u32,
    /// Octets of an object in one Data.
    #[serde(default = "segment_octets_default", deserialize_with = "segment_octets")]
    pub segment_octets: u64,
    /// The treatment of Data that belongs to no registered object.
    #[serde(default, deserialize_with = "unregistered")]
    pub unregistered: Unregistered,
    /// The packets of the exchange that are trusted.
    #[serde(default, deserialize_with = "trust")]
    pub trust: Trust,
    /// The neighbors.
    #[serde(default, deserialize_with = "neighbours")]
    pub neighbour: Vec<VipNeighbour>,
}

/// The registered blocks of a catalogue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Register {
    /// All blocks.
    #[default]
    All,
    /// This number of the blocks that are requested most here.
    Top(usize),
}

impl FromStr for Register {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let most = text.strip_prefix("top:").and_then(|most| most.parse().ok());
        match most {
            _ if text == "all" => Ok(Register::All),
            Some(most @ 1..=OBJECTS_MAX) => Ok(Register::Top(most)),
            _ => Err(format!("write \"all\", or \"top:N\" with 1 to {OBJECTS_MAX}")),
        }
    }
}

/// The packets of the exchange that are trusted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Trust {
    /// Packets signed by the neighbor's key.
    #[default]
    Signed,
    /// All packets from a neighbor's face: for a lab.
    Open,
}

/// The treatment of Data that belongs to no registered object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unregistered {
    /// It is cached by the content store's policy, beside registered objects.
    #[default]
    Admit,
    /// It is not cached, as in N-DISE.
    Refuse,
}

/// A next hop for VIPs.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VipNeighbour {
    /// The remote URI of its face.
    #[serde(deserialize_with = "values::remote_uri")]
    pub face: FaceUri,
    /// The interface that leads to an `ether://` neighbor.
    #[serde(default, deserialize_with = "values::device_uri")]
    pub local: Option<FaceUri>,
    /// Its name in the exchange. A neighbor without a name does not run VIP and accepts VIPs up to
    /// the capacity of its link.
    #[serde(default)]
    pub router: Option<String>,
    /// Its key, as `namely vip status` prints it on that router: 64 hexadecimal digits.
    #[serde(default, deserialize_with = "key")]
    pub key: Option<Key>,
    /// Alternatively, a file with a certificate of that key.
    #[serde(default)]
    pub certificate: Option<PathBuf>,
    /// Capacity of its link for Data to this router, octets per second.
    #[serde(deserialize_with = "values::octets")]
    pub octets_per_s: u64,
    /// The capacity in the other direction; by default the same.
    #[serde(default, deserialize_with = "octets_opt")]
    pub octets_per_s_out: Option<u64>,
}

/// Maximum number of registered objects of a router with this configuration.
pub(super) fn objects_max(vip: Option<&Vip>) -> usize {
    vip.map_or(OBJECTS_MAX, Vip::blocks_max)
}

impl Vip {
    /// The parameters of the plane, with this disk as the tier below memory.
    pub(crate) fn plane(&self, disk: Option<Tier>) -> PlaneConfig {
        let half_life_ms = self.score_half_life_s.saturating_mul(1000);
        let memory = Tier::new(self.memory, self.octets_per_slot(self.memory_octets_per_s));
        PlaneConfig {
            amplification: self.amplification,
            decay: Decay::from_half_life(half_life_ms, self.period_ms),
            follow: self.follow,
            tiers: (self.memory > 0 || disk.is_some()).then_some(memory).into_iter().chain(disk).collect(),
            weight: u64::from(self.move_cost),
        }
    }

    /// Octets that a rate yields in one slot.
    pub(crate) fn octets_per_slot(&self, octets_per_s: u64) -> u64 {
        let octets = u128::from(octets_per_s) * u128::from(self.period_ms) / 1000;
        u64::try_from(octets).unwrap_or(u64::MAX)
    }

    /// Checks that `[cs.disk]` is large enough for `disk_octets_max`.
    ///
    /// # Errors
    /// [`ConfigError`]: there is no disk, or its limit is lower.
    pub(crate) fn check_disk(&self, disk: &CsDisk) -> Result<(), ConfigError> {
        match self.disk_octets_max.filter(|octets| *octets > 0) {
            Some(_) if disk.folder.is_none() => {
                Err("vip.disk_octets_max: there is no disk: name its `folder` under [cs.disk]".to_owned().into())
            }
            Some(octets) if octets > disk.budget() => Err(format!(
                "vip.disk_octets_max: {octets} octets, and [cs.disk] may take {}: more `octets_max` there, or \
                 less here",
                disk.budget()
            )
            .into()),
            _ => Ok(()),
        }
    }

    /// Maximum number of blocks of a catalogue.
    pub(crate) fn blocks_max(&self) -> usize {
        match self.register {
            Register::All => OBJECTS_MAX,
            Register::Top(_) => BLOCKS_MAX,
        }
    }

    /// The key of each neighbor, in their order; `None` for a neighbor that needs no key.
    ///
    /// # Errors
    /// [`ConfigError`]: the key of a neighbor cannot be found.
    pub(crate) fn keys(&self) -> Result<Vec<Option<Key>>, ConfigError> {
        self.neighbour.iter().map(|neighbour| neighbour.resolve(self.trust)).collect()
    }

    /// The files that the router reads at run time.
    pub(crate) fn files(&self) -> impl Iterator<Item = &Path> {
        let certificates = self.neighbour.iter().filter_map(|neighbour| neighbour.certificate.as_deref());
        certificates.chain([self.catalogue.as_path()])
    }
}

impl VipNeighbour {
    fn resolve(&self, trust: Trust) -> Result<Option<Key>, ConfigError> {
        let why = |why: &dyn Display| ConfigError::from(format!("vip.neighbour of {}: {why}", self.face));
        match (self.key, &self.certificate) {
            (Some(_), Some(_)) => Err(why(&"name it by `key` or by `certificate`, not by both")),
            (Some(key), None) => Ok(Some(key)),
            (None, Some(path)) => {
                let certificate = read_certificate(path).map_err(|error| why(&error))?;
                let key = certificate.public_key().ed25519_octets();
                key.map(Some)
                    .ok_or_else(|| why(&"routers have Ed25519 keys, and the certificate's is another"))
            }
            (None, None) if self.router.is_none() || trust == Trust::Open => Ok(None),
            (None, None) => Err(why(
                &"nobody could tell it from others: give its `key`, which `namely vip status` shows there, or \
                 its `certificate` (or `trust = \"open\"` under [vip], in a lab)",
            )),
        }
    }
}

fn router<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    check_router(String::deserialize(deserializer)?).map_err(D::Error::custom)
}

fn check_router(router: String) -> Result<String, String> {
    let fits = (1..=ROUTER_OCTETS_MAX).contains(&router.len());
    if fits { Ok(router) } else { Err(format!("a router's name has 1 to {ROUTER_OCTETS_MAX} octets")) }
}

/// Parses neighbors with different faces and names, up to the limit.
fn neighbours<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<VipNeighbour>, D::Error> {
    values::list(deserializer, admit_neighbour)
}

fn admit_neighbour(before: &[VipNeighbour], neighbour: &VipNeighbour) -> Result<(), String> {
    let face = &neighbour.face;
    if before.len() >= NEIGHBOURS_MAX {
        return Err(format!("more than {NEIGHBOURS_MAX} neighbors"));
    }
    if let Some(router) = &neighbour.router {
        check_router(router.clone())?;
    }
    if matches!(face, FaceUri::Tcp(_) | FaceUri::Udp(_)) && face.address().is_none() {
        return Err(format!("`{face}` is not an address: use numbers, not a host name"));
    }
    if matches!(face, FaceUri::Ether(_)) != neighbour.local.is_some() {
        return Err(format!("`local` names the interface of an ether face, which needs it: see `{face}`"));
    }
    let is_same = |other: &VipNeighbour| {
        (&other.face, &other.local) == (face, &neighbour.local)
            || other.router.is_some() && other.router == neighbour.router
    };
    if before.iter().any(is_same) {
        return Err(format!("two [[vip.neighbour]] have `{face}` or its router's name"));
    }
    Ok(())
}

fn period_ms<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    match u32::deserialize(deserializer)? {
        ms @ 100..=3_600_000 => Ok(ms),
        ms => Err(D::Error::custom(format!("{ms} ms: use 100 to 3600000"))),
    }
}

fn register_interval_s<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    match u64::deserialize(deserializer)? {
        s @ 1..=86_400 => Ok(s),
        s => Err(D::Error::custom(format!("{s} s: use 1 to 86400"))),
    }
}

fn amplification<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u8, D::Error> {
    match u8::deserialize(deserializer)? {
        vips @ 1..=2 => Ok(vips),
        vips => Err(D::Error::custom(format!("{vips}: use 1 or 2"))),
    }
}

fn segment_octets<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    match values::octets(deserializer)? {
        octets if (1..=PACKET_OCTETS_MAX as u64).contains(&octets) => Ok(octets),
        octets => Err(D::Error::custom(format!("{octets} octets: use 1 to {PACKET_OCTETS_MAX}"))),
    }
}

fn follow<'de, D: Deserializer<'de>>(deserializer: D) -> Result<PlacementSource, D::Error> {
    values::choice(deserializer, &[("scores", PlacementSource::Scores), ("counts", PlacementSource::Counts)])
}

fn trust<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Trust, D::Error> {
    values::choice(deserializer, &[("signed", Trust::Signed), ("open", Trust::Open)])
}

fn unregistered<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Unregistered, D::Error> {
    values::choice(deserializer, &[("admit", Unregistered::Admit), ("refuse", Unregistered::Refuse)])
}

fn octets_opt<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    values::octets(deserializer).map(Some)
}

fn period_ms_default() -> u32 {
    5000
}

fn register_interval_s_default() -> u64 {
    60
}

fn amplification_default() -> u8 {
    1
}

/// The half-life for the paper's beta of 0.000015 per second.
fn score_half_life_s_default() -> u64 {
    46_210
}

fn memory_octets_per_s_default() -> u64 {
    1 << 30
}

fn disk_octets_per_s_default() -> u64 {
    100 << 20
}

fn segment_octets_default() -> u64 {
    SEGMENT_OCTETS_DEFAULT as u64
}
