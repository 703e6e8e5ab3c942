//! A router's end of a connection, scripted: answers registrations, and counts them.

use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use namely_messages::{Block, ControlParameters, ControlResponse};
use namely_security::{Signer, sign_data};
use namely_wire::{DataBuilder, InterestView, LpHeaders, LpView, Name, encode_lp_packet, tlv};

/// A router that accepts one client at a time on a Unix socket.
pub(crate) struct ScriptedRouter {
    path: PathBuf,
    /// The commands to the router; dropping it ends the router.
    stop: Arc<Mutex<Vec<UnixStream>>>,
    pub(crate) registered: Receiver<Name>,
    thread: Option<JoinHandle<()>>,
}

/// Returns the router's answer to an Interest that is not a registration.
pub(crate) type Respond = fn(&InterestView<'_>, &LpHeaders) -> Vec<u8>;

impl ScriptedRouter {
    /// Listens at `path` and answers registrations with `code`, everything else with `respond`.
    pub(crate) fn start(path: &Path, code: u64, respond: Respond) -> Self {
        Self::start_with(path, vec![code], respond)
    }

    /// As `start`, with a code for each registration of a connection. The last code applies to all
    /// further ones.
    pub(crate) fn start_with(path: &Path, codes: Vec<u64>, respond: Respond) -> Self {
        let _ = std::fs::remove_file(path);
        let listener = UnixListener::bind(path).unwrap();
        let (sender, registered) = channel();
        let stop = Arc::new(Mutex::new(Vec::new()));
        let clients = stop.clone();
        let thread = std::thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(stream) = stream else { return };
                clients.lock().unwrap().push(stream.try_clone().unwrap());
                if serve(stream, &codes, respond, &sender) == After::Stop {
                    return;
                }
            }
        });
        ScriptedRouter { path: path.to_owned(), stop, registered, thread: Some(thread) }
    }

    /// Ends the router as a crash would: its connections close, its socket stays behind.
    pub(crate) fn kill(mut self) {
        // A client that connects and hangs up wakes the thread if it waits for one.
        let wake = UnixStream::connect(&self.path);
        for stream in self.stop.lock().unwrap().drain(..) {
            let _ = stream.shutdown(std::net::Shutdown::Both);
        }
        drop(wake);
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

#[derive(PartialEq)]
enum After {
    Stop,
}

fn serve(mut stream: UnixStream, codes: &[u64], respond: Respond, registered: &Sender<Name>) -> After {
    let mut buf = Vec::new();
    let mut chunk = [0; 65536];
    let mut taken = 0;
    loop {
        match stream.read(&mut chunk) {
            Ok(0) | Err(_) => return After::Stop,
            Ok(octets) => buf.extend_from_slice(&chunk[..octets]),
        }
        while let Ok(packet) = tlv::read_tlv(&buf) {
            let octets = packet.raw.len();
            let link = LpView::parse(packet.raw).unwrap();
            let interest = InterestView::parse(link.fragment.unwrap()).unwrap();
            let answer = match registration(&interest) {
                Some(parameters) => {
                    registered.send(parameters.name.clone().unwrap()).unwrap();
                    let code = codes[taken.min(codes.len() - 1)];
                    taken += 1;
                    let response = ControlResponse::new(code, "as scripted").with_parameters(&parameters);
                    data(&interest, &response.to_vec())
                }
                None => respond(&interest, &link.headers),
            };
            if stream.write_all(&answer).is_err() {
                return After::Stop;
            }
            buf.drain(..octets);
        }
    }
}

fn registration(interest: &InterestView<'_>) -> Option<ControlParameters> {
    let prefix: Name = "/localhost/nfd/rib/register".parse().unwrap();
    if !prefix.is_prefix_of(interest.name) {
        return None;
    }
    assert!(interest.signature_value.is_some(), "commands are signed");
    Some(ControlParameters::decode(interest.name.component(4).unwrap().value).unwrap())
}

/// The Data that answers `interest` with `content`.
pub(crate) fn data(interest: &InterestView<'_>, content: &[u8]) -> Vec<u8> {
    sign_data(&DataBuilder::new(interest.name), content, &Signer::digest_sha256()).unwrap()
}

/// The Nack of `interest`.
pub(crate) fn nack(interest: &InterestView<'_>, reason: namely_wire::NackReason) -> Vec<u8> {
    let headers = LpHeaders { nack: Some(reason), ..LpHeaders::default() };
    encode_lp_packet(&headers, interest.wire)
}
