//! `namely kernel face`: faces of devices and sockets.

use clap::{Args, Subcommand};
use namely_nnet::uapi::NNET_FACE_LOCAL;
use namely_nnet::{Control, ControlError, FaceKind, device};
use namely_wire::{FaceUri, MacAddress};
use rustix::io::Errno;
use serde_json::json;

use super::control;
use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::output::Cell;

/// List, create and destroy faces.
#[derive(Debug, Subcommand)]
pub enum Face {
    /// List faces
    List(List),
    /// Create a face to one station or to all stations on a network device
    #[command(visible_alias = "add")]
    Create(Create),
    /// Destroy a face of a network device
    Destroy(Destroy),
}

impl Face {
    pub(super) fn run(&self, ctx: &Context<'_>) -> Result<(), Failure> {
        match self {
            Face::List(c) => c.run(ctx),
            Face::Create(c) => c.run(ctx),
            Face::Destroy(c) => c.run(ctx),
        }
    }
}

/// A face, as named on the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum FaceName {
    /// By its number.
    Number(u64),
    /// A peer on a network device: one link address, or all (NDN's group).
    Link {
        /// The device's name.
        device: String,
        /// The peer's or group's address; none for NDN's group.
        address: Option<MacAddress>,
    },
}

/// Parses a face's number, `local`, a device's name or URI, or a peer's URI.
pub(super) fn face_name(text: &str) -> Result<FaceName, String> {
    if text == "local" {
        return Ok(FaceName::Number(NNET_FACE_LOCAL));
    }
    if let Ok(number) = text.parse() {
        return Ok(FaceName::Number(number));
    }
    let uri = if text.contains("://") { text.to_owned() } else { format!("dev://{text}") };
    match uri.parse() {
        Ok(FaceUri::Device(device)) => Ok(FaceName::Link { device, address: None }),
        Ok(FaceUri::Station { address, device }) => Ok(FaceName::Link { device, address: Some(address) }),
        _ => Err("give a face's number, `local`, a network device, or a station on it as \
                  ether://[02:00:00:00:00:01%eth0]"
            .into()),
    }
}

impl FaceName {
    /// Returns the face. Creates the face of a device if there is none.
    pub(super) fn made(&self, kernel: &mut Control) -> Result<u64, Failure> {
        match self {
            FaceName::Number(number) => Ok(*number),
            FaceName::Link { device, address } => match kernel.face_new(index(device)?, *address) {
                Err(ControlError::System(Errno::EXIST)) => self.found(kernel),
                made => Ok(made?),
            },
        }
    }

    /// Returns the face. Fails if there is none.
    pub(super) fn found(&self, kernel: &mut Control) -> Result<u64, Failure> {
        let FaceName::Link { device, address } = self else { return self.made(kernel) };
        let index = index(device)?;
        let is_it = |face: &&namely_nnet::Face| match (face.link, address) {
            (Some((at, is)), Some(address)) => at == index && is == *address,
            (Some((at, _)), None) => at == index && face.kind == FaceKind::Group,
            (None, _) => false,
        };
        let none = || {
            Failure::new(Exit::NotFound, format!("there is no such face on {device}"))
                .hint("`namely kernel face list` shows the faces")
        };
        kernel.faces()?.iter().find(is_it).map(|face| face.id).ok_or_else(none)
    }
}

fn index(name: &str) -> Result<u32, Failure> {
    device::index(name)
        .map_err(|_| Failure::new(Exit::NotFound, format!("there is no network device '{name}' here")))
}

/// List faces.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  namely kernel face list")]
pub struct List {}

impl List {
    fn run(&self, ctx: &Context<'_>) -> Result<(), Failure> {
        let mut kernel = control()?;
        let faces = kernel.faces()?;
        let bindings = kernel.bindings()?;
        let rows: Vec<Vec<Cell>> = faces
            .iter()
            .map(|face| {
                let bound: Vec<String> =
                    bindings.iter().filter(|b| b.face == face.id).map(|b| b.prefix.to_string()).collect();
                let (kind, remote) = match (face.kind, face.link) {
                    (FaceKind::Socket, _) | (_, None) => ("socket", None),
                    (FaceKind::LinkAddress, Some((index, address))) => {
                        ("station", Some(remote(index, address)))
                    }
                    (FaceKind::Group, Some((index, address))) => ("group", Some(remote(index, address))),
                };
                vec![
                    face.id.into(),
                    kind.into(),
                    remote.into(),
                    face.packets_in.into(),
                    face.packets_out.into(),
                    bound.join(" ").into(),
                ]
            })
            .collect();
        ctx.out.table(&["face", "kind", "remote", "in", "out", "bound"], &rows);
        Ok(())
    }
}

/// Formats the peer as a URI. A removed device is shown by its number.
fn remote(index: u32, address: MacAddress) -> String {
    let device = device::name(index).unwrap_or_else(|_| format!("if{index}"));
    FaceUri::Station { address, device }.to_string()
}

/// Create a face.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  namely kernel face create eth0\n  namely kernel face create 'ether://[02:00:00:00:00:01%eth0]'"
)]
pub struct Create {
    /// A network device, for all stations on it (NDN's group), or one station or group on it:
    /// ether://[address%device].
    #[arg(value_name = "DEVICE", value_parser = face_name)]
    link: FaceName,
}

impl Create {
    fn run(&self, ctx: &Context<'_>) -> Result<(), Failure> {
        if matches!(self.link, FaceName::Number(_)) {
            return Err(Failure::failed("a face is created for a network device, not for a number"));
        }
        let id = self.link.made(&mut control()?)?;
        ctx.out.answer(|| format!("face {id}"), || json!({"face": id}));
        Ok(())
    }
}

/// Destroy a face.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  namely kernel face destroy 5\n  namely kernel face destroy eth0")]
pub struct Destroy {
    /// The face: its number, or the device or address that it was created for.
    #[arg(value_parser = face_name)]
    face: FaceName,
}

impl Destroy {
    fn run(&self, ctx: &Context<'_>) -> Result<(), Failure> {
        let mut kernel = control()?;
        let id = self.face.found(&mut kernel)?;
        kernel.face_del(id)?;
        ctx.out.answer(|| format!("face {id} destroyed"), || json!({"face": id}));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faces_parse_as_number_device_or_station() {
        let link = |device: &str, address| FaceName::Link { device: device.into(), address };
        for (text, expected) in [
            ("local", FaceName::Number(1)),
            ("17", FaceName::Number(17)),
            ("eth0", link("eth0", None)),
            ("dev://eth0", link("eth0", None)),
            ("ether://[02:00:00:00:00:01%eth0]", link("eth0", Some(MacAddress([2, 0, 0, 0, 0, 1])))),
        ] {
            assert_eq!(face_name(text), Ok(expected), "{text}");
        }
        for text in ["", "udp://192.0.2.1", "ether://[02:00:00:00:00:01]", "a b"] {
            assert!(face_name(text).is_err(), "{text}");
        }
    }
}
