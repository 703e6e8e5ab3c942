//! `namely cert`: certificates, and whom the user trusts.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{Args, Subcommand, ValueEnum};
use namely_host::clock::unix_ns;
use namely_security::validity::{self, UtcTime};
use namely_security::{Certificate, KeyChain, Passphrase, Signer, read_certificate};
use namely_wire::Name;
use serde_json::json;

use super::Context;
use crate::failure::{Exit, Failure, io_failure};
use crate::keys::{VALIDITY_DAYS, key_chain, key_failure, passphrase, passphrase_for};

/// Largest file that `import` reads.
const IMPORT_OCTETS_MAX: u64 = 64 << 10;

/// Manage certificates and whom you trust.
#[derive(Debug, Subcommand)]
pub enum Cert {
    /// Show a certificate: a file, or one of yours
    Show(Show),
    /// Write a certificate, or with --private a key with its certificate (SafeBag)
    Export(Export),
    /// Take in a certificate for a key of yours, or a SafeBag
    Import(Import),
    /// Sign another's certificate with your key
    Issue(Issue),
    /// Trust a certificate for the names below its identity
    Trust(Trust),
    /// Take trust back
    Distrust(Distrust),
    /// List whom you trust
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
            format!(
                "certificate  {}\nidentity     {}\nsigned by    {}{}\nsignature    {:?}\nvalid        {} to {} ({state})",
                certificate.name(),
                certificate.identity(),
                signer,
                if certificate.is_self_signed() { " (itself)" } else { "" },
                certificate.signature_type(),
                UtcTime(period.not_before_s),
                UtcTime(period.not_after_s),
            )
        },
        || {
            json!({
                "certificate": certificate.name().to_string(), "key": certificate.key_name().to_string(),
                "identity": certificate.identity().to_string(), "signed_by": signer,
                "self_signed": certificate.is_self_signed(),
                "not_before_s": period.not_before_s, "not_after_s": period.not_after_s, "state": state,
            })
        },
    );
}

/// Write a certificate or a key.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  namely cert export /lab/alice > alice.cert\n  namely cert export /lab/alice --private -o alice.safebag"
)]
pub struct Export {
    /// An identity, key or certificate of yours; by default the default identity.
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
            None => std::io::stdout()
                .lock()
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

/// Take in a certificate or a SafeBag.
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
    #[arg(long, value_name = "NAME")]
    key: Option<Name>,
    /// How many days the certificate is valid.
    #[arg(long, value_name = "DAYS", default_value_t = VALIDITY_DAYS / 10)]
    days: u32,
    /// The IssuerId component of the certificate's name.
    #[arg(long, value_name = "TEXT", default_value = "namely")]
    issuer_id: String,
}

impl Issue {
    fn run(&self, _: &Context<'_>) -> Result<(), Failure> {
        let request = parse_certificate(&self.request, &read_file(&self.request)?)?;
        let chain = key_chain()?;
        let which = self.key.as_ref().map(Name::as_name);
        let entry = chain.key(which).map_err(key_failure)?;
        let own = if entry.encrypted { Some(passphrase_for(&entry.name)?) } else { None };
        let signer = if request.key_name() == entry.name.as_name() {
            // A newer certificate by the key itself, which does not end with the one before.
            let key = chain.private_key(entry.name.as_name(), own.as_ref()).map_err(key_failure)?;
            Signer::new(entry.name.clone(), Arc::new(key))
        } else {
            chain.signer(which, own.as_ref()).map_err(key_failure)?
        };
        let period = validity::days_from(unix_ns(), self.days);
        let certificate = Certificate::issue(
            request.key_name(),
            request.public_key(),
            &signer,
            &self.issuer_id,
            period,
            unix_ns() / 1_000_000,
        )
        .map_err(|e| Failure::failed(format!("cannot issue a certificate: {e}")))?;
        std::io::stdout()
            .lock()
            .write_all(certificate.to_base64().as_bytes())
            .map_err(|e| Failure::failed(format!("cannot write to standard output: {e}")))
    }
}

/// Trust a certificate.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  namely cert trust lab.cert")]
pub struct Trust {
    /// The certificate's file; `-` is standard input.
    file: PathBuf,
}

impl Trust {
    fn run(&self, ctx: &Context<'_>) -> Result<(), Failure> {
        let certificate = parse_certificate(&self.file, &read_file(&self.file)?)?;
        key_chain()?.trust(&certificate).map_err(key_failure)?;
        ctx.out.answer(
            || format!("{} is trusted for names below {}", certificate.name(), certificate.identity()),
            || json!({"certificate": certificate.name().to_string(), "identity": certificate.identity().to_string()}),
        );
        Ok(())
    }
}

/// Take trust back.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  namely cert distrust /lab/KEY/%01%02/self/v=1700000000000")]
pub struct Distrust {
    /// The certificate's name, as `namely cert trusted` shows it.
    name: Name,
}

impl Distrust {
    fn run(&self, ctx: &Context<'_>) -> Result<(), Failure> {
        key_chain()?.distrust(self.name.as_name()).map_err(key_failure)?;
        ctx.out.answer(
            || format!("{} is not trusted any more", self.name),
            || json!({"certificate": self.name.to_string()}),
        );
        Ok(())
    }
}

/// List whom you trust.
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
