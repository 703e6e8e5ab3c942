//! Options of one publication.

use std::time::Duration;

use namely_transport::publish::{self, Signing};
use namely_wire::PACKET_OCTETS_MAX;

use super::error::OptionError;
use super::fields::ProducerOptions;
use super::table::{For, find, parsed};
use super::values::{ManifestUse, Suite};

/// FreshnessPeriod of metadata, ms: for so long caches may not notice a newer version.
const METADATA_FRESHNESS_MS: u64 = 1_000;

/// How one object is published: what is none is as the socket's options say (HT-23).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PublishOptions {
    /// The version; none: the time, in microseconds since the Unix epoch, and never the same twice.
    pub version: Option<u64>,
    /// How it is signed.
    pub suite: Option<Suite>,
    /// Whether manifests vouch for the segments.
    pub manifest: Option<ManifestUse>,
    /// Largest packet made, octets.
    pub packet_octets_max: Option<usize>,
    /// FreshnessPeriod of segments, ms.
    pub freshness_ms: Option<u64>,
    /// After this time who asks for the newest version reaches the application again; segments stay
    /// as they are.
    pub expires: Option<Duration>,
}

impl PublishOptions {
    /// Sets option `name`, one of those of a producer that it has a field for, `version` or
    /// `expires_ms`, to `value`.
    ///
    /// # Errors
    /// There is no such option here, or it does not take `value`.
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
        let spec = find(name, For::Producer)?;
        match spec.name {
            "manifest" => self.manifest = Some(parsed(spec, value)?),
            "suite" => self.suite = Some(parsed(spec, value)?),
            "packet_octets_max" => self.packet_octets_max = Some(parsed(spec, value)?),
            "freshness_ms" => self.freshness_ms = Some(parsed(spec, value)?),
            _ => return Err(OptionError::Unknown(name.into())),
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
