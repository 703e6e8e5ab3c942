//! `namely key`: the user's keys.

use clap::{Args, Subcommand, ValueEnum};
use namely_security::{KeyChainError, KeyEntry, KeyType, NewKey, validity};
use namely_wire::Name;
use serde_json::json;

use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::keys::{VALIDITY_DAYS, key_chain, key_failure, passphrase, signing_time};
use crate::options::name;
use crate::output::Cell;

/// Manage your keys.
#[derive(Debug, Subcommand)]
pub enum Key {
    /// List your keys
    List(List),
    /// Make a key and its self-signed certificate
    #[command(visible_alias = "generate")]
    New(New),
    /// Choose the default identity, key or certificate
    Default(Default),
    /// Delete an identity, a key or a certificate
    Delete(Delete),
}

impl Key {
    /// Runs the subcommand.
    pub fn run(&self, ctx: &Context<'_>) -> Result<(), Failure> {
        match self {
            Key::List(c) => c.run(ctx),
            Key::New(c) => c.run(ctx),
            Key::Default(c) => c.run(ctx),
            Key::Delete(c) => c.run(ctx),
        }
    }
}

/// The kinds of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// Small and fastest.
    Ed25519,
    /// P-256, which every NDN implementation verifies.
    Ecdsa,
    /// 2048 bits.
    Rsa,
}

impl From<Kind> for KeyType {
    fn from(kind: Kind) -> KeyType {
        match kind {
            Kind::Ed25519 => KeyType::Ed25519,
            Kind::Ecdsa => KeyType::EcdsaP256,
            Kind::Rsa => KeyType::Rsa,
        }
    }
}

fn kind_text(kind: Option<KeyType>) -> &'static str {
    match kind {
        Some(KeyType::Ed25519) => "ed25519",
        Some(KeyType::EcdsaP256) => "ecdsa",
        Some(KeyType::Rsa) => "rsa",
        None => "-",
    }
}

/// List your keys.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  namely key list")]
pub struct List {}

impl List {
    fn run(&self, ctx: &Context<'_>) -> Result<(), Failure> {
        let listing = key_chain()?.list().map_err(key_failure)?;
        for problem in &listing.problems {
            ctx.out.remark(format!("warning: {problem}"));
        }
        if listing.keys.is_empty() {
            ctx.out.remark("no keys yet; `namely key new /your/name` makes one");
        }
        let rows: Vec<Vec<Cell>> = listing.keys.iter().map(row).collect();
        ctx.out.table(&["key", "type", "encrypted", "default", "certificates"], &rows);
        Ok(())
    }
}

fn row(key: &KeyEntry) -> Vec<Cell> {
    let default = match (key.of_default_identity && key.default_of_identity, key.default_of_identity) {
        (true, _) => "yes",
        (false, true) => "of its identity",
        (false, false) => "",
    };
    vec![
        key.name.to_string().into(),
        kind_text(key.key_type()).into(),
        if key.encrypted { "yes" } else { "no" }.into(),
        default.into(),
        (key.certificates.len() as u64).into(),
    ]
}

/// Make a key.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  namely key new /lab/alice --type ecdsa --encrypt")]
pub struct New {
    /// The identity of the key, which may sign names below it.
    #[arg(value_parser = name)]
    identity: Name,
    /// The kind of key.
    #[arg(long = "type", value_enum, default_value = "ed25519")]
    kind: Kind,
    /// Validity of its self-signed certificate in days.
    #[arg(long, value_name = "DAYS", default_value_t = VALIDITY_DAYS)]
    days: u32,
    /// Encrypt the private key with a passphrase (asked for, or NAMELY_PASSPHRASE).
    #[arg(long)]
    encrypt: bool,
}

impl New {
    fn run(&self, ctx: &Context<'_>) -> Result<(), Failure> {
        if self.identity.is_empty() {
            return Err(Failure::failed("an identity has at least one component, as /lab/alice"));
        }
        let passphrase = if self.encrypt { Some(passphrase("New passphrase: ")?) } else { None };
        if passphrase.as_ref().is_some_and(|p| p.is_empty()) {
            return Err(Failure::failed("an empty passphrase protects nothing"));
        }
        let now_ns = signing_time()?;
        let entry = key_chain()?
            .generate(&NewKey {
                identity: self.identity.as_name(),
                key_type: self.kind.into(),
                validity: validity::days_from(now_ns, self.days),
                version: now_ns / 1_000_000,
                passphrase: passphrase.as_ref(),
            })
            .map_err(key_failure)?;
        ctx.out.answer(
            || entry.name.to_string(),
            || json!({"key": entry.name.to_string(), "type": kind_text(entry.key_type()), "encrypted": entry.encrypted}),
        );
        Ok(())
    }
}

/// Choose the default.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  namely key default /lab/alice")]
pub struct Default {
    /// An identity, a key or a certificate of yours; without it, shows the default identity.
    #[arg(value_parser = name)]
    name: Option<Name>,
}

impl Default {
    fn run(&self, ctx: &Context<'_>) -> Result<(), Failure> {
        let chain = key_chain()?;
        if let Some(name) = &self.name {
            chain.set_default(name.as_name()).map_err(key_failure)?;
        }
        let default = chain.default_identity().map_err(key_failure)?.ok_or_else(|| {
            Failure::new(Exit::NotFound, "there is no default identity")
                .hint("`namely key new /your/name` makes one")
        })?;
        ctx.out.answer(|| default.to_string(), || json!({"default_identity": default.to_string()}));
        Ok(())
    }
}

/// Delete a key.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  namely key delete /lab/alice/KEY/%01%02%03%04 --yes")]
pub struct Delete {
    /// An identity (with all its keys), a key (with its certificates) or a certificate.
    #[arg(value_parser = name)]
    name: Name,
    /// Confirm the deletion, which cannot be undone.
    #[arg(long)]
    yes: bool,
}

impl Delete {
    fn run(&self, ctx: &Context<'_>) -> Result<(), Failure> {
        let chain = key_chain()?;
        if !self.yes {
            let name = self.name.as_name();
            let keys = chain.list().map_err(key_failure)?.keys;
            let is_there = keys.iter().any(|key| {
                key.identity() == name
                    || key.name.as_name() == name
                    || key.certificates.iter().any(|certificate| certificate.name() == name)
            });
            if !is_there {
                return Err(key_failure(KeyChainError::NotFound(self.name.clone())));
            }
            return Err(Failure::failed(format!("{} would be deleted for good", self.name))
                .hint("export it first with `namely cert export --private`, then add --yes"));
        }
        chain.delete(self.name.as_name()).map_err(key_failure)?;
        ctx.out.answer(|| format!("{} deleted", self.name), || json!({"deleted": self.name.to_string()}));
        Ok(())
    }
}
