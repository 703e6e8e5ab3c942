//! Long-running publication. Signatures name the key, so one of the key's certificates has to be
//! valid as long as data is served. A certificate that is imported meanwhile is served, too. If no
//! certificate is valid any more, the command ends with an error.

use std::time::{Duration, Instant};

use namely_files::IssuedCertificate;
use namely_host::clock::unix_ns;
use namely_security::validity::UtcTime;
use namely_security::{Certificate, KeyEntry, Signer};
use namely_transport::connection::Connection;
use namely_transport::serve::{Producer, serve};
use namely_wire::{Name, key_name_of_locator};

use crate::context::Context;
use crate::failure::Failure;
use crate::keys::{certificates_for, key_chain, key_failure};
use crate::router::connection_failure;

/// Minimum and maximum interval between two checks of the key chain.
const LOOK: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

/// A producer that serves certificates.
pub trait Certified: Producer {
    /// Replaces the certificates that the producer serves.
    fn set_certificates(&mut self, certificates: Vec<IssuedCertificate>);
}

impl Certified for namely_files::FileServer {
    fn set_certificates(&mut self, certificates: Vec<IssuedCertificate>) {
        self.set_certificates(certificates);
    }
}

impl Certified for namely_files::Put {
    fn set_certificates(&mut self, certificates: Vec<IssuedCertificate>) {
        self.set_certificates(certificates);
    }
}

/// Returns the preferred certificate of the key `entry` ([`KeyEntry::certificates_at`]); `None` if
/// the key has no certificate. Fails if this certificate has expired.
pub fn valid_certificate(entry: KeyEntry) -> Result<Option<Certificate>, Failure> {
    let now_s = unix_ns() / 1_000_000_000;
    match entry.certificates_at(now_s).into_iter().next() {
        Some(ended) if ended.validity().not_after_s < now_s => Err(Failure::failed(format!(
            "signing has ended: certificate {} expired on {}",
            ended.name(),
            UtcTime(ended.validity().not_after_s)
        ))
        .hint("have a newer one issued (`namely cert issue`) and import it with `namely cert import FILE`")),
        certificate => Ok(certificate),
    }
}

/// Serves data of `signer` below `prefix` until `go_on` returns false. Fails when the certificates
/// of the signer's key have expired.
pub fn serve_signed<P: Certified>(
    ctx: &Context<'_>,
    connection: &mut Connection,
    producer: &mut P,
    signer: &Signer,
    prefix: &Name,
    go_on: &mut dyn FnMut() -> bool,
) -> Result<(), Failure> {
    let mut is_warned = false;
    let mut is_connected = true;
    loop {
        let pause = renew_certificates(ctx, producer, signer, prefix, &mut is_warned)?;
        let next = Instant::now() + pause;
        while Instant::now() < next {
            let turn = next.min(Instant::now() + LOOK.0);
            serve(connection, producer, &mut || Instant::now() < turn && go_on())
                .map_err(connection_failure)?;
            if !go_on() {
                return Ok(());
            }
            if connection.is_connected() != is_connected {
                is_connected = !is_connected;
                let what = if is_connected { "is back" } else { "is gone; waiting for it" };
                ctx.out.remark(format!("the router at {} {what}", connection.uri()));
            }
        }
    }
}

/// Reads the current certificates and passes them to the producer. Returns the time until the next
/// check.
fn renew_certificates<P: Certified>(
    ctx: &Context<'_>,
    producer: &mut P,
    signer: &Signer,
    prefix: &Name,
    is_warned: &mut bool,
) -> Result<Duration, Failure> {
    let Some(key_name) = signer.key_name().and_then(|name| key_name_of_locator(name.as_name()).ok()) else {
        return Ok(LOOK.1);
    };
    let entry = key_chain()?.key(Some(key_name)).map_err(key_failure)?;
    let Some(certificate) = valid_certificate(entry)? else { return Ok(LOOK.1) };
    let validity = certificate.validity();
    let rest_s = validity.not_after_s.saturating_sub(unix_ns() / 1_000_000_000);
    let third_s = validity.not_after_s.saturating_sub(validity.not_before_s) / 3;
    let is_late = rest_s <= third_s;
    if is_late && !*is_warned {
        ctx.out.remark(format!(
            "certificate {} expires on {}: import a newer one with `namely cert import FILE`",
            certificate.name(),
            UtcTime(validity.not_after_s)
        ));
    }
    *is_warned = is_late;
    producer.set_certificates(certificates_for(prefix)?);
    let pause_s = if is_late { rest_s / 3 } else { rest_s - third_s };
    Ok(Duration::from_secs(pause_s).clamp(LOOK.0, LOOK.1))
}
