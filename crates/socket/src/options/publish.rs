//! Options of one publication.

use std::time::Duration;

use namely_transport::publish::{self, Signing};
use namely_wire::PACKET_OCTETS_MAX;

use super::error::OptionError;
use super::fields::ProducerOptions;
use super::table::{For, find, parsed};
use super::values::{ManifestUse, Suite};

/// FreshnessPeriod of metadata, ms. For this time a cache may answer with metadata of an older
/// version.
const METADATA_FRESHNESS_MS: u64 = 1_000;

/// The options of [`PublishOptions::set`].
const OF_A_PUBLICATION: [&str; 6] =
    ["version", "expires_ms", "manifest", "suite", "packet_octets_max", "freshness_ms"];

/// Options of one publication (HT-23). For an option that the socket has, too, `None` means the
/// value of the socket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PublishOptions {
    /// The version. By default it is the time in microseconds since the Unix epoch, increased if
    /// necessary, so that it is larger than each earlier default of this socket.
    pub version: Option<u64>,
    /// The signature suite.
    pub suite: Option<Suite>,
    /// Whether manifests authenticate the segments.
    pub manifest: Option<ManifestUse>,
    /// Maximum size of a packet of the publication, octets.
    pub packet_octets_max: Option<usize>,
    /// FreshnessPeriod of segments, ms.
    pub freshness_ms: Option<u64>,
    /// Time after which the metadata expires, so that a request for the newest version reaches the
    /// application again. Segments do not expire. By default the metadata does not expire, either.
    pub expires: Option<Duration>,
}

impl PublishOptions {
    /// Sets option `name` to `value`. `name` is `version`, `expires_ms`, or a producer option that
    /// has a field of this struct.
    ///
    /// # Errors
    /// There is no such option of a publication, or `value` is not valid for it.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), OptionError> {
        let number = |option| value.parse().map_err(|_| OptionError::Bad { option, value: value.into() });
        match name {
            "version" => {
                self.version = Some(number("version")?);
                return Ok(());
            }
            "expires_ms" => {
                self.expires = Some(Duration::from_millis(number("expires_ms")?));
                return Ok(());
            }
            _ => {}
        }
        let unknown = || OptionError::Unknown { option: name.into(), known: OF_A_PUBLICATION.into() };
        let spec = find(name, For::Producer).map_err(|_| unknown())?;
        match spec.name {
            "manifest" => self.manifest = Some(parsed(spec, value)?),
            "suite" => self.suite = Some(parsed(spec, value)?),
            "packet_octets_max" => self.packet_octets_max = Some(parsed(spec, value)?),
            "freshness_ms" => self.freshness_ms = Some(parsed(spec, value)?),
            _ => return Err(unknown()),
        }
        Ok(())
    }

    pub(crate) fn over(&self, socket: &ProducerOptions) -> publish::Options {
        publish::Options {
            packet_octets_max: self.packet_octets_max.unwrap_or(socket.packet_octets_max),
            segment_octets_max: socket.segment_octets,
            manifest_octets_max: PACKET_OCTETS_MAX,
            signing: match self.manifest.unwrap_or(socket.manifest) {
                ManifestUse::Off => Signing::PerPacket,
                ManifestUse::By(hash) => Signing::Manifest(hash),
            },
            freshness_ms: self.freshness_ms.unwrap_or(socket.freshness_ms),
            metadata_freshness_ms: self.expires.map_or(METADATA_FRESHNESS_MS, |expires| {
                (expires.as_millis() as u64).min(METADATA_FRESHNESS_MS)
            }),
        }
    }
}
