//! `namely dashboard`: a web page that shows running routers (docs/dashboard.md).

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use clap::Args;
use namely_dashboard::{
    CertificateError, CertificateFiles, CertificateSummary, Counters, Options, PrometheusUrl, StartError,
};
use namely_host::disk::{OpenError, UntrustedFile};
use serde_json::{Value, json};

use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::keys::Trust;

/// The name of the command.
const COMMAND: &str = "dashboard";

/// Maximum time from a signal to the end of the command.
const LOOK: Duration = Duration::from_millis(100);

/// Interval at which the files of the certificate are read again.
const RENEWAL: Duration = Duration::from_secs(2);

/// Show running routers on a web page: faces, routes, content store, drops, names.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  namely dashboard
  namely dashboard --router unix:///run/namely.sock --router unix:///run/other.sock
  namely dashboard --listen 0.0.0.0:9465 --tls-cert cert.pem --tls-key key.pem

Open the printed address. The token after the # is required to change routers and to fetch data.")]
pub struct Dashboard {
    /// A router to show; may repeat. By default the router of the other commands.
    #[arg(long, env = "NAMELY_ROUTER", value_name = "URI", action = clap::ArgAction::Append)]
    router: Vec<String>,
    /// The address to listen on for browsers. One that is not a loopback address needs TLS, and all
    /// data of the page then needs the token.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:9465", value_parser = crate::options::address)]
    listen: SocketAddr,
    /// The certificate for HTTPS, with those of its issuers, in PEM. The files are read again when
    /// they change.
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// The certificate's private key in PEM, of mode 0600.
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// A host name that browsers may use for the page, besides addresses, localhost and the names
    /// of the certificate; may repeat.
    #[arg(long, value_name = "NAME")]
    host: Vec<String>,
    /// Interval in seconds at which a router is polled, 0.1 or more.
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = super::status::seconds)]
    interval: Duration,
    /// The Prometheus server that scrapes the routers, such as http://localhost:9090. The charts
    /// then also show hours and days.
    #[arg(long, value_name = "URL")]
    prometheus: Option<PrometheusUrl>,
    #[command(flatten)]
    trust: Trust,
}

impl Dashboard {
    /// Serves the page until the command is stopped.
    pub fn run(&self, ctx: &Context<'_>) -> Result<(), Failure> {
        let stop = crate::stop::flag()?;
        let words = std::env::args_os().map(|word| word.to_string_lossy().into_owned());
        let routers = routers(&words.collect::<Vec<_>>(), &self.router);
        let options = Options {
            listen: self.listen,
            routers,
            trust_router_of: ctx.global.trusted(),
            trust: self.trust.of_socket(),
            certificate: self.certificate(),
            hosts: self.host.clone(),
            interval: self.interval,
            prometheus: self.prometheus.clone(),
        };
        let page = namely_dashboard::Dashboard::start(options).map_err(failed)?;
        announce(&page, ctx);
        let mut checked = Instant::now();
        while !stop.load(Ordering::Relaxed) {
            std::thread::sleep(LOOK);
            if checked.elapsed() >= RENEWAL {
                renew(&page, ctx);
                checked = Instant::now();
            }
        }
        ctx.out.answer(|| summary_text(page.counters()), || summary_json(page.counters()));
        Ok(())
    }

    fn certificate(&self) -> Option<CertificateFiles> {
        let (certificate, key) = (self.tls_cert.clone()?, self.tls_key.clone()?);
        Some(CertificateFiles { certificate, key })
    }
}

/// Prints the page's address, and what its users have to know.
fn announce(page: &namely_dashboard::Dashboard, ctx: &Context<'_>) {
    let certificate = page.certificate();
    if page.is_reachable_remotely() {
        let address = page.address();
        ctx.out.remark(format!(
            "other machines can reach {address}; a holder of the token may change the routers"
        ));
    }
    let sha256 = certificate.as_ref().map(|certificate| certificate.sha256.as_str());
    ctx.out.answer(
        || page.url(),
        || {
            json!({
                "kind": "listening", "address": page.address().to_string(), "url": page.url(),
                "certificate_sha256": sha256,
            })
        },
    );
    if let Some(certificate) = &certificate {
        ctx.out.remark(["SHA-256 of the certificate:".to_owned(), certificate.sha256.clone()]);
    }
    ctx.out.remark("open it in a browser; Ctrl-C stops");
}

/// Uses the certificate of the files if it is another one.
fn renew(page: &namely_dashboard::Dashboard, ctx: &Context<'_>) {
    match page.renew_certificate() {
        Ok(None) => {}
        Ok(Some(CertificateSummary { sha256, .. })) => {
            ctx.out.remark(["the certificate was renewed; its SHA-256:".to_owned(), sha256]);
        }
        Err(error) => {
            let hint = certificate_hint(&error);
            ctx.out.remark(format!("WARNING: {error}; the previous certificate stays in use: {hint}"));
        }
    }
}

/// Returns the routers to show. The command line also allows `--router` before the command, as for
/// every command. Clap keeps only those after it.
fn routers(words: &[String], after: &[String]) -> Vec<Option<String>> {
    let before: Vec<&String> = words.iter().take_while(|word| *word != COMMAND).collect();
    let of = |(at, word): (usize, &&String)| match word.strip_prefix("--router")? {
        "" => before.get(at + 1).map(|uri| uri.to_string()),
        uri => uri.strip_prefix('=').map(str::to_owned),
    };
    let before: Vec<String> = before.iter().enumerate().filter_map(of).collect();
    let missing = before.into_iter().filter(|uri| !after.contains(uri));
    let all: Vec<Option<String>> = missing.chain(after.iter().cloned()).map(Some).collect();
    if all.is_empty() { vec![None] } else { all }
}

fn failed(error: StartError) -> Failure {
    let message = error.to_string();
    match error {
        StartError::Listen(..) => Failure::new(Exit::CannotListen, message)
            .hint("choose another address with --listen, such as 127.0.0.1:0 for any free port"),
        StartError::Unencrypted(_) => Failure::new(Exit::Usage, message).hint(
            "give --tls-cert and --tls-key; or listen on 127.0.0.1, and use \
             `ssh -L 9465:127.0.0.1:9465 HOST` from the other machine",
        ),
        // The number of the system's error is of no use to a user.
        StartError::Certificate(error) => {
            let message = message.split_once(" (os error ").map_or(&*message, |(reason, _)| reason);
            Failure::failed(message).hint(certificate_hint(&error))
        }
        _ => Failure::failed(message),
    }
}

/// The next step after a certificate was not used.
fn certificate_hint(error: &CertificateError) -> String {
    match error {
        CertificateError::Read(path, OpenError::UntrustedFile(untrusted)) => untrusted_hint(path, *untrusted),
        CertificateError::Read(..) => "check the path and its permissions".into(),
        CertificateError::NoCertificate(_) => "give the certificate in PEM, then those of its issuers".into(),
        CertificateError::NoKey(_) => {
            "give the private key; `openssl pkey -in KEY -out FILE` removes its passphrase".into()
        }
        CertificateError::OtherKey { .. } => "give the two files of one certificate".into(),
        CertificateError::Unusable(..) => {
            "give a certificate of X.509 version 3 with a key of RSA, ECDSA or Ed25519".into()
        }
    }
}

fn untrusted_hint(path: &Path, untrusted: UntrustedFile) -> String {
    match untrusted {
        UntrustedFile::Exposed { .. } => format!("chmod 600 {}", path.display()),
        UntrustedFile::OtherUser { .. } => "run the command as this user, or give a file of your own".into(),
        _ => "give the path of the file itself".into(),
    }
}

fn counted(counters: &Counters) -> [(&'static str, u64); 10] {
    [
        ("requests", &counters.requests),
        ("looks", &counters.looks),
        ("actions", &counters.actions),
        ("refused", &counters.refused),
        ("refused_full", &counters.refused_full),
        ("refused_handshake", &counters.refused_handshake),
        ("refused_host", &counters.refused_host),
        ("refused_token", &counters.refused_token),
        ("refused_busy", &counters.refused_busy),
        ("slow", &counters.slow),
    ]
    .map(|(name, counter)| (name, counter.load(Ordering::Relaxed)))
}

fn summary_text(counters: &Counters) -> String {
    let [requests, looks, actions, refused, full, handshake, host, token, busy, slow] =
        counted(counters).map(|(_, n)| n);
    format!(
        "{requests} requests, {looks} polls of routers, {actions} commands; refused: {refused} malformed, {full} without a \
         free slot, {handshake} without a TLS handshake, {host} for another host, {token} without the token, {busy} over the limit of pending requests; \
         closed: {slow} slow clients"
    )
}

fn summary_json(counters: &Counters) -> Value {
    let mut all: serde_json::Map<String, Value> =
        counted(counters).iter().map(|(name, count)| ((*name).to_owned(), (*count).into())).collect();
    all.insert("kind".into(), "summary".into());
    Value::Object(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routers_before_the_command_are_shown() {
        let shown = |line: &str, after: &[&str]| {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            let after: Vec<String> = after.iter().map(|uri| (*uri).to_owned()).collect();
            routers(&words, &after).into_iter().map(|uri| uri.unwrap_or_default()).collect::<Vec<_>>()
        };
        assert_eq!(
            shown("namely --router unix:///a dashboard --router unix:///b", &["unix:///b"]),
            ["unix:///a", "unix:///b"]
        );
        assert_eq!(shown("namely --router=unix:///a dashboard", &[]), ["unix:///a"]);
        // Clap passes the first one on if there is none after the command.
        assert_eq!(shown("namely --router unix:///a dashboard", &["unix:///a"]), ["unix:///a"]);
        assert_eq!(shown("namely dashboard", &[]), [""]);
        assert_eq!(shown("namely dashboard --router unix:///b", &["unix:///b"]), ["unix:///b"]);
    }
}
