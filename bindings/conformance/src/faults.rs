//! Producers with deliberate faults, behind a router as any other. A consumer must survive the
//! fault and report it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use namely_security::{Certificate, KeyChain, KeyType, Manifest, ManifestHash, PrivateKey, Signer};
use namely_transport::connection::{Connection, Options, Outbox};
use namely_transport::publish::{self, Publication, Signing};
use namely_transport::serve::{Producer, register, serve};
use namely_wire::ValidityPeriod;
use namely_wire::{CACHE_POLICY_NO_CACHE, DataView, InterestView, LpHeaders, Name};

/// The fault of a producer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Nothing.
    None,
    /// An octet of this segment's content is changed in every answer.
    Corrupt(u64),
    /// The same, but only in the answer to the first Interest for the segment.
    CorruptOnce(u64),
    /// Interests for segments from this one on are not answered.
    SilentFrom(u64),
    /// Interests for this segment are not answered.
    Missing(u64),
    /// The certificate of the signing key has expired.
    Expired,
    /// The signing key belongs to another namespace.
    Elsewhere,
    /// The manifest states one segment, for an object of any size.
    ShortManifest,
}

impl Fault {
    /// `none`, `expired`, `elsewhere`, `short-manifest`, `corrupt:3`, `corrupt-once:3`,
    /// `silent-from:3`, `missing:3`.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "none" => return Some(Fault::None),
            "expired" => return Some(Fault::Expired),
            "elsewhere" => return Some(Fault::Elsewhere),
            "short-manifest" => return Some(Fault::ShortManifest),
            _ => {}
        }
        let (kind, segment) = text.split_once(':')?;
        let segment = segment.parse().ok()?;
        match kind {
            "corrupt" => Some(Fault::Corrupt(segment)),
            "corrupt-once" => Some(Fault::CorruptOnce(segment)),
            "silent-from" => Some(Fault::SilentFrom(segment)),
            "missing" => Some(Fault::Missing(segment)),
            _ => None,
        }
    }
}

/// A running producer; stopped when dropped.
#[derive(Debug)]
pub struct FaultyProducer {
    /// The versioned name of its object.
    pub object: Name,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl FaultyProducer {
    /// Serves `content` as `name` with a fault, signed with a key of the key chain in `home`
    /// (`NAMELY_HOME`), and `per_packet` or under a manifest.
    pub fn start(
        router: &str,
        home: &std::path::Path,
        name: &Name,
        content: &[u8],
        fault: Fault,
        per_packet: bool,
    ) -> Result<Self, String> {
        let chain = KeyChain::open(home.join("keys")).map_err(|e| e.to_string())?;
        let entry =
            chain.key_above(name.as_name()).map_err(|e| e.to_string())?.ok_or("no key above the name")?;
        let signer = chain.signer(Some(entry.name.as_name()), None).map_err(|e| e.to_string())?;
        let connected = Options { signer: signer.clone(), ..Options::default() };
        let mut connection = Connection::find(Some(router), connected).map_err(|e| e.to_string())?;
        let mut producer = Faulty::new(name, content, fault, per_packet, &signer)?;
        register(&mut connection, &mut producer).map_err(|e| e.to_string())?;
        let object = producer.publication.object().to_name();
        let stop = Arc::new(AtomicBool::new(false));
        let seen = stop.clone();
        let thread = std::thread::spawn(move || {
            // An error ends the producer. The case then reports the missing answer.
            let _ = serve(&mut connection, &mut producer, &mut || !seen.load(Ordering::Relaxed));
        });
        Ok(FaultyProducer { object, stop, thread: Some(thread) })
    }
}

impl Drop for FaultyProducer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

enum FaultOutcome {
    Sent,
    Corrupted,
    Kept,
}

struct Faulty {
    publication: Publication,
    fault: Fault,
    done_once: bool,
    /// Packets that answer before the publication does.
    instead: Vec<Vec<u8>>,
}

/// A key below `name` and its certificate, which `issuer` signed and which expired long ago.
fn expired(name: &Name, issuer: &Signer) -> Result<(Signer, Certificate), String> {
    let key = Arc::new(PrivateKey::generate(KeyType::Ed25519).map_err(|e| e.to_string())?);
    let key_name = name.clone().join_generic(b"KEY").join_generic(b"old");
    let past = ValidityPeriod { not_before_s: 1_000_000_000, not_after_s: 1_100_000_000 };
    let issued = Certificate::issue(key_name.as_name(), key.public(), issuer, "harness", past, 1);
    let issued = issued.map_err(|e| e.to_string())?;
    Ok((Signer::new(issued.name().to_name(), key), issued))
}

fn elsewhere() -> Result<Signer, String> {
    let key = PrivateKey::generate(KeyType::Ed25519).map_err(|e| e.to_string())?;
    Ok(Signer::new("/elsewhere/KEY/k".parse().map_err(|_| "no name")?, Arc::new(key)))
}

impl Faulty {
    fn new(
        name: &Name,
        content: &[u8],
        fault: Fault,
        per_packet: bool,
        signer: &Signer,
    ) -> Result<Self, String> {
        let mut instead = Vec::new();
        let signer = match fault {
            Fault::Expired => {
                let (signer, certificate) = expired(name, signer)?;
                instead.push(certificate.wire().to_vec());
                signer
            }
            Fault::Elsewhere => elsewhere()?,
            _ => signer.clone(),
        };
        let mut options = publish::Options::default();
        if per_packet {
            options.signing = Signing::PerPacket;
        }
        let publication =
            Publication::new(name.as_name(), 1, content, &options, &signer).map_err(|e| e.to_string())?;
        if fault == Fault::ShortManifest {
            let mut short = Manifest::new(0, ManifestHash::Sha256);
            short.push([0; 32]);
            let signed = short.sign(publication.object(), Some(0), 0, &signer);
            instead.push(signed.map_err(|e| e.to_string())?);
        }
        Ok(Faulty { publication, fault, done_once: false, instead })
    }

    /// The treatment of a segment.
    fn fate(&mut self, segment: u64) -> FaultOutcome {
        match self.fault {
            Fault::Corrupt(wrong) if segment == wrong => FaultOutcome::Corrupted,
            Fault::CorruptOnce(wrong) if segment == wrong && !self.done_once => {
                self.done_once = true;
                FaultOutcome::Corrupted
            }
            Fault::Missing(missing) if segment == missing => FaultOutcome::Kept,
            Fault::SilentFrom(first) if segment >= first => FaultOutcome::Kept,
            _ => FaultOutcome::Sent,
        }
    }
}

impl Producer for Faulty {
    fn prefixes(&self) -> Vec<Name> {
        vec![self.publication.object().without_last(1).to_name()]
    }

    fn answer(&mut self, interest: &InterestView<'_>, headers: &LpHeaders, outbox: &mut Outbox) {
        let answers = |wire: &&Vec<u8>| {
            DataView::parse(wire).is_ok_and(|data| namely_transport::answers(interest, &data))
        };
        if let Some(wire) = self.instead.iter().find(answers) {
            outbox.send(headers, wire);
            return;
        }
        let Some(mut wire) = self.publication.answer(interest).map(<[u8]>::to_vec) else { return };
        let Ok(data) = DataView::parse(&wire) else { return };
        // A segment of the object: its name and one more component. Metadata and manifests stay as
        // they are.
        let object = self.publication.object();
        let segment = data.name.last().and_then(|last| last.segment());
        let is_segment = object.is_prefix_of(data.name) && data.name.len() == object.len() + 1;
        let mut headers = *headers;
        if let (Some(segment), true, false) = (segment, is_segment, data.content.is_empty()) {
            let start = data.content.as_ptr().addr() - wire.as_ptr().addr();
            match self.fate(segment) {
                FaultOutcome::Kept => return,
                FaultOutcome::Corrupted => {
                    wire[start] ^= 1;
                    // A router that cached it would return it for the next Interest.
                    headers.cache_policy = Some(CACHE_POLICY_NO_CACHE);
                }
                FaultOutcome::Sent => {}
            }
        }
        outbox.send(&headers, &wire);
    }
}
