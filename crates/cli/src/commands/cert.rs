//! `namely cert`: certificates, and the trust anchors of the user.

use std::io::{IsTerminal, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{Args, Subcommand, ValueEnum};
use namely_host::clock::unix_ns;
use namely_security::validity::{self, UtcTime};
use namely_security::{Certificate, KeyChain, KeyChainError, Passphrase, Signer, read_certificate, sha256};
use namely_transport::connection::{Answer, Connection, Options};
use namely_wire::{Component, DataView, InterestBuilder, Name, key_name_of_locator, types};
use serde_json::json;

use crate::context::Context;
use crate::failure::{Exit, Failure, io_failure};
use crate::keys::{VALIDITY_DAYS, key_chain, key_failure, passphrase, passphrase_for, signing_time};
use crate::options::name;
use crate::output::say;
use crate::router::{connection_failure, nack_failure, open};

/// Maximum octets of a file that `import` reads.
const IMPORT_OCTETS_MAX: u64 = 64 << 10;

/// Difference between the clocks of two hosts at which a new certificate is trusted already, s.
const CLOCK_TOLERANCE_S: u64 = 60;

/// Manage certificates and trust anchors.
#[derive(Debug, Subcommand)]
pub enum Cert {
    /// Show a certificate: a file, or one of yours
    Show(Show),
    /// Write a certificate, or with --private a key with its certificate (SafeBag)
    Export(Export),
    /// Import a certificate for a key of yours, or a SafeBag
    Import(Import),
    /// Sign another's certificate with your key
    Issue(Issue),
    /// Trust a certificate for the names below its identity
    Trust(Trust),
    /// Remove trust
    Distrust(Distrust),
    /// List the trusted certificates
    Trusted(Trusted),
}

impl Cert {
    /// Runs the subcommand.
    pub fn run(&self, ctx: &Context<'_>) -> Result<(), Failure> {
        match self {
            Cert::Show(c) => c.run(ctx),
            Cert::Export(c) => c.run(ctx),
            Cert::Import(c) => c.run(ctx),
            Cert::Issue(c) => c.run(ctx),
            Cert::Trust(c) => c.run(ctx),
            Cert::Distrust(c) => c.run(ctx),
            Cert::Trusted(c) => c.run(ctx),
        }
    }
}

/// The forms of a certificate file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Form {
    /// Base64, as ndnsec writes it.
    Base64,
    /// PEM.
    Pem,
    /// The Data's octets.
    Raw,
}

/// Show a certificate.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  namely cert show alice.cert\n  namely cert show /lab/alice")]
pub struct Show {
    /// A file, or the name of an identity, key or certificate of yours.
    which: String,
}

impl Show {
    fn run(&self, ctx: &Context<'_>) -> Result<(), Failure> {
        let certificate = if self.which.starts_with('/') && !Path::new(&self.which).is_file() {
            let name: Name =
                self.which.parse().map_err(|e| Failure::failed(format!("{}: {e}", self.which)))?;
            own_certificate(&key_chain()?, &name)?
        } else {
            certificate_file(Path::new(&self.which))?
        };
        show(ctx, &certificate);
        Ok(())
    }
}

fn show(ctx: &Context<'_>, certificate: &Certificate) {
    let period = certificate.validity();
    let signer = certificate.signer_name().map_or_else(|| "-".into(), |n| n.to_string());
    let state = match unix_ns() / 1_000_000_000 {
        now if now < period.not_before_s => "not yet valid",
        now if now > period.not_after_s => "expired",
        _ => "valid",
    };
    ctx.out.answer(
        || {
            let itself = if certificate.is_self_signed() { " (itself)" } else { "" };
            let [from, until] = [period.not_before_s, period.not_after_s].map(UtcTime);
            [
                format!("certificate  {}", certificate.name()),
                format!("identity     {}", certificate.identity()),
                format!("signed by    {signer}{itself}"),
                format!("signature    {:?}", certificate.signature_type()),
                format!("valid        {from} to {until} ({state})"),
                format!("fingerprint  {}", fingerprint(certificate)),
            ]
        },
        || {
            json!({
                "fingerprint": fingerprint(certificate),
                "certificate": certificate.name().to_string(), "key": certificate.key_name().to_string(),
                "identity": certificate.identity().to_string(), "signed_by": signer,
                "self_signed": certificate.is_self_signed(),
                "not_before_s": period.not_before_s, "not_after_s": period.not_after_s, "state": state,
            })
        },
    );
}

/// Returns the fingerprint that two people compare, for example by phone: the SHA-256 of the key's
/// name and the public key, in groups of digits. All certificates of a key have the same
/// fingerprint. The key's name is included, because the key is trusted for names below its
/// identity.
fn fingerprint(certificate: &Certificate) -> String {
    let octets = [certificate.key_name().as_bytes(), certificate.public_key().spki()].concat();
    let hex: Vec<String> = sha256(&octets).iter().map(|octet| format!("{octet:02x}")).collect();
    let groups: Vec<String> = hex.chunks(2).map(|pair| pair.concat()).collect();
    format!("SHA256 {}", groups.join(" "))
}

/// Write a certificate or a key.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  namely cert export /lab/alice > alice.cert\n  namely cert export /lab/alice --private -o alice.safebag"
)]
pub struct Export {
    /// An identity, key or certificate of yours; by default the default identity.
    #[arg(value_parser = name)]
    name: Option<Name>,
    /// Export the private key too, encrypted with a passphrase (asked for, or NAMELY_PASSPHRASE).
    #[arg(long)]
    private: bool,
    /// The form of the file.
    #[arg(long, value_enum, default_value = "base64")]
    form: Form,
    /// The file to write; by default standard output.
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

impl Export {
    fn run(&self, ctx: &Context<'_>) -> Result<(), Failure> {
        let chain = key_chain()?;
        let octets = if self.private { self.safe_bag(&chain)? } else { self.certificate(&chain)? };
        match &self.output {
            None => ctx
                .out
                .content()
                .write_all(&octets)
                .map_err(|e| Failure::failed(format!("cannot write to standard output: {e}")))?,
            Some(path) => {
                std::fs::write(path, &octets).map_err(|e| io_failure("write", path, e))?;
                ctx.out.remark(format!("written to {}", path.display()));
            }
        }
        Ok(())
    }

    fn certificate(&self, chain: &KeyChain) -> Result<Vec<u8>, Failure> {
        let entry = chain.key(self.name.as_ref().map(Name::as_name)).map_err(key_failure)?;
        let named = |c: &&Certificate| Some(c.name()) == self.name.as_ref().map(Name::as_name);
        let certificate = entry.certificates.iter().find(named).or(entry.certificates.first());
        let certificate = certificate.ok_or_else(|| no_certificate(&entry.name))?;
        Ok(match self.form {
            Form::Base64 => certificate.to_base64().into_bytes(),
            Form::Pem => certificate.to_pem().into_bytes(),
            Form::Raw => certificate.wire().to_vec(),
        })
    }

    fn safe_bag(&self, chain: &KeyChain) -> Result<Vec<u8>, Failure> {
        let which = self.name.as_ref().map(Name::as_name);
        let entry = chain.key(which).map_err(key_failure)?;
        let own = if entry.encrypted { Some(passphrase_for(&entry.name)?) } else { None };
        let bag: Passphrase = passphrase("Passphrase of the exported key: ")?;
        let bag = chain.export_safe_bag(which, own.as_ref(), &bag).map_err(key_failure)?;
        match self.form {
            Form::Base64 => Ok(bag.to_base64().into_bytes()),
            Form::Raw => Ok(bag.as_bytes().to_vec()),
            Form::Pem => Err(Failure::failed("a SafeBag has no PEM form").hint("use --form base64 or raw")),
        }
    }
}

/// Import a certificate or a SafeBag.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  namely cert import alice-signed.cert\n  namely cert import alice.safebag --private"
)]
pub struct Import {
    /// The file; `-` is standard input.
    file: PathBuf,
    /// The file is a SafeBag: a private key with its certificate.
    #[arg(long)]
    private: bool,
    /// Encrypt the private key in the key chain with the same passphrase.
    #[arg(long, requires = "private")]
    encrypt: bool,
}

impl Import {
    fn run(&self, ctx: &Context<'_>) -> Result<(), Failure> {
        let octets = read_file(&self.file)?;
        let chain = key_chain()?;
        let certificate = if self.private {
            let bag = passphrase("Passphrase of the SafeBag: ")?;
            chain.import_safe_bag(&octets, &bag, self.encrypt.then_some(&bag)).map_err(key_failure)?
        } else {
            let certificate = parse_certificate(&self.file, &octets)?;
            chain.add_certificate(&certificate).map_err(key_failure)?;
            certificate
        };
        show(ctx, &certificate);
        Ok(())
    }
}

/// Sign another's certificate.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  namely cert issue bob.cert --key /lab > bob-signed.cert\n  \
                  namely cert export /lab > lab.cert; namely cert issue lab.cert --key /lab > newer.cert")]
pub struct Issue {
    /// The other's self-signed certificate; `-` is standard input.
    request: PathBuf,
    /// Your key or identity that signs; by default the default identity.
    #[arg(long, value_name = "NAME", value_parser = name)]
    key: Option<Name>,
    /// Validity of the certificate in days.
    #[arg(long, value_name = "DAYS", default_value_t = VALIDITY_DAYS / 10)]
    days: u32,
    /// The IssuerId component of the certificate's name.
    #[arg(long, value_name = "TEXT", default_value = "namely")]
    issuer_id: String,
}

impl Issue {
    fn run(&self, ctx: &Context<'_>) -> Result<(), Failure> {
        let request = parse_certificate(&self.request, &read_file(&self.request)?)?;
        let chain = key_chain()?;
        let which = self.key.as_ref().map(Name::as_name);
        let entry = chain.key(which).map_err(key_failure)?;
        let own = if entry.encrypted { Some(passphrase_for(&entry.name)?) } else { None };
        let signer = if request.key_name() == entry.name.as_name() {
            // The key signs a newer certificate of its own. The KeyLocator names the key, so that
            // the new certificate does not expire with the old one.
            let key = chain.private_key(entry.name.as_name(), own.as_ref()).map_err(key_failure)?;
            Signer::new(entry.name.clone(), Arc::new(key))
        } else {
            chain.signer(which, own.as_ref()).map_err(key_failure)?
        };
        let period = validity::days_from(signing_time()?, self.days);
        let certificate = Certificate::issue(
            request.key_name(),
            request.public_key(),
            &signer,
            &self.issuer_id,
            period,
            unix_ns() / 1_000_000,
        )
        .map_err(|e| Failure::failed(format!("cannot issue a certificate: {e}")))?;
        ctx.out
            .content()
            .write_all(certificate.to_base64().as_bytes())
            .map_err(|e| Failure::failed(format!("cannot write to standard output: {e}")))
    }
}

/// Trust a certificate.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  namely cert trust lab.cert\n  namely cert trust --from /lab/data\n  namely cert trust --from /lab/data --fingerprint '0f3c 91d2 ...'"
)]
pub struct Trust {
    /// The certificate's file; `-` is standard input.
    #[arg(required_unless_present = "from", conflicts_with = "from")]
    file: Option<PathBuf>,
    /// Fetch the certificate of the signer of NAME, and show its fingerprint. Compare it with the
    /// output of `namely cert show` at the producer.
    #[arg(long, value_name = "NAME", value_parser = name)]
    from: Option<Name>,
    /// The expected fingerprint. Without it, the command asks at the terminal.
    #[arg(long, value_name = "HEX", requires = "from")]
    fingerprint: Option<String>,
    /// Trust the certificate even if nothing verifies by it now: expired, not yet valid, or not
    /// signed by its own key.
    #[arg(long)]
    force: bool,
}

impl Trust {
    fn run(&self, ctx: &Context<'_>) -> Result<(), Failure> {
        let certificate = match (&self.file, &self.from) {
            (_, Some(name)) => self.fetched(ctx, name)?,
            (Some(file), None) => parse_certificate(file, &read_file(file)?)?,
            (None, None) => return Err(Failure::failed("there is no certificate to trust")),
        };
        self.check(ctx, &certificate)?;
        key_chain()?.trust(&certificate).map_err(key_failure)?;
        ctx.out.answer(
            || format!("{} is trusted for names below {}", certificate.name(), certificate.identity()),
            || json!({
                "certificate": certificate.name().to_string(), "identity": certificate.identity().to_string(),
                "fingerprint": fingerprint(&certificate),
            }),
        );
        Ok(())
    }

    /// Refuses a certificate by which nothing verifies; with `--force` only warns of it.
    fn check(&self, ctx: &Context<'_>, certificate: &Certificate) -> Result<(), Failure> {
        let Some(why) = fault(certificate, unix_ns() / 1_000_000_000) else { return Ok(()) };
        if self.force {
            ctx.out.remark(format!("warning: {why}: nothing verifies by {}", certificate.name()));
            return Ok(());
        }
        let message = format!("{} is not trusted: {why}", certificate.name());
        Err(Failure::new(Exit::NotVerified, message)
            .hint("ask its owner for another; --force trusts it, but nothing verifies by it"))
    }

    /// Fetches the certificate of the signer of `name`, and returns it once the user has confirmed
    /// the fingerprint. Confirmation is required, because a network cannot vouch for itself.
    fn fetched(&self, ctx: &Context<'_>, name: &Name) -> Result<Certificate, Failure> {
        let certificate = signer_certificate(ctx, name)?;
        let own = fingerprint(&certificate);
        if let Some(wanted) = &self.fingerprint {
            let digits = |text: &str| {
                let text = text.trim();
                let hex = text.strip_prefix("SHA256").unwrap_or(text);
                hex.chars().filter(char::is_ascii_hexdigit).collect::<String>().to_ascii_lowercase()
            };
            if digits(wanted) == digits(&own) {
                return Ok(certificate);
            }
            return Err(Failure::new(
                Exit::NotVerified,
                format!("the certificate {} has another fingerprint: {own}", certificate.name()),
            )
            .hint("ask its owner for `namely cert show`; if it differs, another producer answers here"));
        }
        say([
            format!("certificate  {}", certificate.name()),
            format!("for names    below {}", certificate.identity()),
            format!("fingerprint  {own}"),
        ]);
        if !std::io::stdin().is_terminal() {
            return Err(Failure::new(Exit::NotVerified, "the fingerprint was not compared")
                .hint("compare it with the owner's `namely cert show`, and pass it with --fingerprint"));
        }
        let answer = ctx.out.prompt("Does the owner's `namely cert show` print this fingerprint? Type yes: ");
        let answer = answer.map_err(|e| Failure::failed(format!("no answer: {e}")))?;
        match answer.trim() {
            "yes" => Ok(certificate),
            _ => Err(Failure::new(Exit::NotVerified, "not trusted")),
        }
    }
}

/// Returns the reason for which a verifier would reject all signatures below a trusted certificate.
fn fault(certificate: &Certificate, now_s: u64) -> Option<String> {
    let period = certificate.validity();
    let [from, until] = [period.not_before_s, period.not_after_s].map(UtcTime);
    if period.not_before_s > period.not_after_s {
        return Some(format!("its validity ends ({until}) before it begins ({from})"));
    }
    if now_s > period.not_after_s {
        return Some(format!("it expired on {until}"));
    }
    if now_s + CLOCK_TOLERANCE_S < period.not_before_s {
        return Some(format!(
            "it is valid from {from} on, and this machine's clock shows {}",
            UtcTime(now_s)
        ));
    }
    // The signature of another issuer could be checked only with that issuer's certificate.
    let is_signed =
        |data: DataView<'_>| certificate.public_key().verify(&[data.signed_portion], data.signature_value);
    let is_wrong = certificate.is_self_signed() && !DataView::parse(certificate.wire()).is_ok_and(is_signed);
    is_wrong.then(|| "its signature is not by its own key, which it names as its signer".to_owned())
}

/// Returns the certificate of the key that signs `name`. The newest metadata of `name` names the
/// key, and the producer serves the certificate.
fn signer_certificate(ctx: &Context<'_>, name: &Name) -> Result<Certificate, Failure> {
    let options = Options { reconnect: std::time::Duration::ZERO, ..Options::default() };
    let mut connection = open(ctx, options)?;
    let metadata = name.join(Component { typ: types::KEYWORD_COMPONENT, value: b"metadata" });
    let wire = query(&mut connection, InterestBuilder::new(metadata).can_be_prefix().must_be_fresh(), name)?;
    let key = DataView::parse(&wire)
        .ok()
        .and_then(|data| data.signature_info().ok())
        .and_then(|info| key_name_of_locator(info.key_name()?).ok().map(|key| key.to_name()))
        .ok_or_else(|| Failure::failed(format!("{name} is not signed by a key that has a name")))?;
    let wire = query(&mut connection, InterestBuilder::new(key.clone()).can_be_prefix(), &key)?;
    let certificate =
        Certificate::parse(&wire).map_err(|e| Failure::failed(format!("the certificate of {key}: {e}")))?;
    if certificate.key_name() == key.as_name() {
        Ok(certificate)
    } else {
        Err(Failure::failed(format!("the answer for {key} is the certificate of another key")))
    }
}

fn query(connection: &mut Connection, interest: InterestBuilder, name: &Name) -> Result<Vec<u8>, Failure> {
    match connection.express(&interest.lifetime_ms(4000)).map_err(connection_failure)? {
        Answer::Data(reply) => Ok(reply.wire),
        Answer::Nack(reason) => Err(nack_failure(name, reason)),
        Answer::Timeout => Err(Failure::new(Exit::Timeout, format!("no answer for {name}"))),
    }
}

/// Remove trust.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  namely cert distrust /lab/data\n  namely cert distrust /lab/KEY/%01%02/self/v=1700000000000"
)]
pub struct Distrust {
    /// The certificate's name, or an identity: then all of its certificates. `namely cert trusted`
    /// lists both.
    #[arg(value_parser = name)]
    name: Name,
}

impl Distrust {
    fn run(&self, ctx: &Context<'_>) -> Result<(), Failure> {
        let chain = key_chain()?;
        let (anchors, _) = chain.anchors().map_err(key_failure)?;
        let of_identity = anchors.iter().filter(|anchor| anchor.identity() == self.name.as_name());
        let mut gone: Vec<Name> = of_identity.map(|anchor| anchor.name().to_name()).collect();
        if gone.is_empty() {
            gone.push(self.name.clone());
        }
        for name in &gone {
            chain.distrust(name.as_name()).map_err(|error| match error {
                KeyChainError::NotFound(name) => {
                    Failure::new(Exit::NotFound, format!("{name} is not a trusted certificate or identity"))
                        .hint("`namely cert trusted` lists the trusted certificates and identities")
                }
                other => key_failure(other),
            })?;
            ctx.out.answer(
                || format!("{name} is no longer trusted"),
                || json!({"certificate": name.to_string()}),
            );
        }
        Ok(())
    }
}

/// List the trusted certificates.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  namely cert trusted")]
pub struct Trusted {}

impl Trusted {
    fn run(&self, ctx: &Context<'_>) -> Result<(), Failure> {
        let (anchors, problems) = key_chain()?.anchors().map_err(key_failure)?;
        for problem in &problems {
            ctx.out.remark(format!("warning: {problem}"));
        }
        let rows: Vec<_> = anchors
            .iter()
            .map(|c| {
                vec![
                    c.identity().to_string().into(),
                    c.name().to_string().into(),
                    UtcTime(c.validity().not_after_s).to_string().into(),
                ]
            })
            .collect();
        ctx.out.table(&["names below", "certificate", "valid until"], &rows);
        Ok(())
    }
}

fn own_certificate(chain: &KeyChain, name: &Name) -> Result<Certificate, Failure> {
    let entry = chain.key(Some(name.as_name())).map_err(key_failure)?;
    let named = entry.certificates.iter().find(|c| c.name() == name.as_name());
    named.or(entry.certificates.first()).cloned().ok_or_else(|| no_certificate(name))
}

fn no_certificate(name: &Name) -> Failure {
    Failure::new(Exit::NotFound, format!("{name} has no certificate"))
}

fn certificate_file(path: &Path) -> Result<Certificate, Failure> {
    read_certificate(path).map_err(|e| Failure::failed(e.to_string()))
}

fn read_file(path: &Path) -> Result<Vec<u8>, Failure> {
    let mut octets = Vec::new();
    let source: Box<dyn Read> = if path == Path::new("-") {
        Box::new(std::io::stdin())
    } else {
        Box::new(std::fs::File::open(path).map_err(|e| io_failure("open", path, e))?)
    };
    source.take(IMPORT_OCTETS_MAX).read_to_end(&mut octets).map_err(|e| io_failure("read", path, e))?;
    Ok(octets)
}

fn parse_certificate(path: &Path, octets: &[u8]) -> Result<Certificate, Failure> {
    Certificate::from_file_octets(octets).map_err(|e| Failure::failed(format!("{}: {e}", path.display())))
}
