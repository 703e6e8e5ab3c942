//! `namely complete`: values for a shell's completion, such as faces and prefixes. Commands and
//! options are left out, because the shell's own script completes them.

use std::time::Duration;

use clap::Args;
use namely_client::Client;
use namely_socket::{Consumer, ConsumerOptions};
use namely_wire::rdr::{listing, listing_name};
use namely_wire::{Component, Name};

use crate::context::Context;
use crate::failure::Failure;
use crate::keys::{key_chain, key_failure};
use crate::router::connect;

/// Longest wait for the listing of a directory, because a user waits at the terminal.
const LISTING_MAX: Duration = Duration::from_secs(2);

/// Print completions of a command line, for shells.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  namely complete -- face show \"\"")]
pub struct Complete {
    /// The words of the command line after `namely`; the last one may be incomplete.
    #[arg(last = true)]
    words: Vec<String>,
}

/// The type of the value of a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Face,
    Prefix,
    Object,
    Key,
    Certificate,
    Anchor,
    Strategy,
    Nothing,
}

impl Complete {
    /// Prints one value on each line, and nothing if no router or key chain is available.
    pub fn run(&self, ctx: &Context<'_>) -> Result<(), Failure> {
        let (typed, before) = match self.words.split_last() {
            Some((typed, before)) => (typed.as_str(), before),
            None => ("", &[][..]),
        };
        let mut values = values(ctx, kind(before), typed).unwrap_or_default();
        values.retain(|value| value.starts_with(typed));
        values.sort_unstable();
        values.dedup();
        for value in values {
            ctx.out.answer(|| value.clone(), || serde_json::json!(value));
        }
        Ok(())
    }
}

/// Returns the type of the word after `before`.
fn kind(before: &[String]) -> Kind {
    if let Some(last) = before.last() {
        match last.as_str() {
            "--face" | "--nexthop" => return Kind::Face,
            "--prefix" | "-p" => return Kind::Prefix,
            "--key" | "--signer" => return Kind::Key,
            // The shell completes files.
            "-o" | "--output" | "--trust" | "--policy" | "--config" | "-c" | "--checksum" => {
                return Kind::Nothing;
            }
            _ => {}
        }
    }
    let words: Vec<&str> = before.iter().map(String::as_str).filter(|word| !word.starts_with('-')).collect();
    match words[..] {
        ["face", "show" | "update" | "destroy"] | ["route", "add" | "remove", _] => Kind::Face,
        ["get" | "ls" | "stat" | "cat" | "mount", ..] => Kind::Object,
        ["peek" | "ping" | "wait", ..]
        | ["route", "add" | "remove"]
        | ["bind", "remove"]
        | ["cs", "erase"]
        | ["strategy", "set" | "unset"] => Kind::Prefix,
        ["strategy", "set", _] => Kind::Strategy,
        ["key", "default" | "delete"] | ["cert", "issue"] => Kind::Key,
        ["cert", "show" | "export"] => Kind::Certificate,
        ["cert", "distrust"] => Kind::Anchor,
        _ => Kind::Nothing,
    }
}

fn values(ctx: &Context<'_>, kind: Kind, typed: &str) -> Result<Vec<String>, Failure> {
    Ok(match kind {
        Kind::Nothing => Vec::new(),
        Kind::Face => connect(ctx)?.faces()?.iter().map(|face| face.face_id.to_string()).collect(),
        Kind::Prefix => prefixes(&mut connect(ctx)?)?,
        Kind::Object => {
            let mut names = prefixes(&mut connect(ctx)?)?;
            names.extend(entries(ctx, typed, &names));
            names
        }
        Kind::Strategy => {
            let of_name = |strategy: &namely_wire::Name| {
                let last = strategy.components().filter(|c| c.version().is_none()).last();
                last.map(|c| String::from_utf8_lossy(c.value).into_owned())
            };
            let chosen = connect(ctx)?.strategies()?;
            let known =
                super::strategy::STRATEGIES.into_iter().filter(|of| *of != "vip" || cfg!(feature = "vip"));
            let chosen = chosen.iter().filter_map(|choice| of_name(&choice.strategy));
            chosen.chain(known.map(str::to_owned)).collect()
        }
        Kind::Key => {
            let keys = key_chain()?.list().map_err(key_failure)?.keys;
            keys.iter().map(|key| key.name.to_string()).collect()
        }
        Kind::Certificate => {
            let keys = key_chain()?.list().map_err(key_failure)?.keys;
            let certificates = keys.iter().flat_map(|key| &key.certificates);
            certificates.map(|certificate| certificate.name().to_string()).collect()
        }
        Kind::Anchor => {
            let (anchors, _) = key_chain()?.anchors().map_err(key_failure)?;
            let names = anchors.iter().flat_map(|anchor| [anchor.identity(), anchor.name()]);
            names.map(|name| name.to_string()).collect()
        }
    })
}

/// The names in the directory that was typed up to its last slash, if one of `prefixes` leads
/// there: another name would only cost the wait for an answer.
fn entries(ctx: &Context<'_>, typed: &str, prefixes: &[String]) -> Vec<String> {
    let Some(directory) = typed.rsplit_once('/').and_then(|(directory, _)| directory.parse::<Name>().ok())
    else {
        return Vec::new();
    };
    let is_above = |prefix: &Name| !prefix.is_empty() && prefix.as_name().is_prefix_of(directory.as_name());
    if !prefixes.iter().filter_map(|prefix| prefix.parse().ok()).any(|prefix| is_above(&prefix)) {
        return Vec::new();
    }
    let options = ConsumerOptions {
        router: ctx.global.router.clone(),
        trust_router_of: ctx.global.trusted(),
        timeout: Some(LISTING_MAX),
        ..ConsumerOptions::default()
    };
    let Ok(consumer) = Consumer::bind(Name::new(), options) else { return Vec::new() };
    let Ok(octets) = consumer.fetch(&listing_name(directory.as_name())) else { return Vec::new() };
    let entries = listing(&octets).map_while(Result::ok);
    entries.map(|entry| directory.join(Component::generic(entry.name)).to_string()).collect()
}

fn prefixes(router: &mut Client) -> Result<Vec<String>, Failure> {
    let routes = router.rib()?.into_iter().map(|entry| entry.prefix.to_string());
    let mut prefixes: Vec<String> = routes.collect();
    prefixes.extend(router.bindings().unwrap_or_default().iter().map(|binding| binding.prefix.to_string()));
    Ok(prefixes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind_of(line: &str) -> Kind {
        kind(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn completion_depends_on_the_argument_kind() {
        for (line, expected) in [
            ("face show", Kind::Face),
            ("--json face destroy", Kind::Face),
            ("route add", Kind::Prefix),
            ("route add /lab", Kind::Face),
            ("get", Kind::Object),
            ("get /lab/x -o", Kind::Nothing),
            ("get /lab/x --checksum", Kind::Nothing),
            ("cat /lab/x", Kind::Object),
            ("ping", Kind::Prefix),
            ("strategy set", Kind::Prefix),
            ("strategy set /", Kind::Strategy),
            ("key delete", Kind::Key),
            ("cert show", Kind::Certificate),
            ("cert distrust", Kind::Anchor),
            ("serve data --prefix", Kind::Prefix),
            ("face", Kind::Nothing),
            ("", Kind::Nothing),
        ] {
            assert_eq!(kind_of(line), expected, "{line}");
        }
    }
}
