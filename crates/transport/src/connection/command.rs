//! Management commands (NFD management protocol): signed Interests and their ControlResponses.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use namely_security::{CryptoError, Signer, sign_interest};
use namely_wire::mgmt::{Block, Command, ControlParameters, ControlResponse, Scope, face_flags};
use namely_wire::text::Plain;
use namely_wire::{DataView, DecodeError, InterestBuilder, NackReason};

use super::reach::NotBound;
use super::{Answer, Connection, ConnectionError};

/// How long one command waits for its response. A router that has just started may be slow.
pub(super) const COMMAND_LIFETIME_MS: u64 = 2_000;

/// How long a fetch waits at its start for the router's word that it will tell where packets come
/// from.
const ORIGINS_LIFETIME_MS: u64 = 200;

/// How often a command without a response is sent.
pub(super) const COMMAND_ATTEMPTS: u32 = 3;

/// Why a command was not carried out.
#[derive(Debug)]
pub enum CommandError {
    /// The environment's: there is no router.
    Connection(ConnectionError),
    /// The environment's: the command cannot be signed.
    Signing(CryptoError),
    /// The caller's, by the router's judgement: its status code and text.
    Refused(ControlResponse),
    /// The router's: it has no management here, or none over this kind of face.
    Nack(NackReason),
    /// The router's: no response.
    NoAnswer,
    /// The router's: a response that is none.
    BadAnswer(DecodeError),
    /// The caller's or the environment's: the kernel's forwarder or NDN-DPDK does not lead the
    /// prefix here.
    NotBound(NotBound),
}

impl CommandError {
    /// What the person can do about it, if anything.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            CommandError::Connection(error) => error.hint(),
            CommandError::Refused(response) if matches!(response.code, 401 | 403) => {
                Some("use the router's Unix socket, or sign with a key that it trusts")
            }
            CommandError::Nack(_) | CommandError::NoAnswer => Some("use the router's Unix socket"),
            CommandError::NotBound(why) => why.hint(),
            _ => None,
        }
    }
}

impl fmt::Display for CommandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CommandError::Connection(error) => error.fmt(f),
            CommandError::Signing(error) => write!(f, "cannot sign the command: {error}"),
            CommandError::Refused(response) => {
                // The router says it in words of its own.
                write!(f, "the router refused: {} {}", response.code, Plain::quotation(&response.text))
            }
            CommandError::Nack(reason) => {
                write!(f, "the router refused the command itself ({reason}): it takes none from here")
            }
            CommandError::NoAnswer => f.write_str("the router does not answer commands here"),
            CommandError::BadAnswer(error) => write!(f, "the router's response is malformed: {error}"),
            CommandError::NotBound(why) => why.fmt(f),
        }
    }
}

impl std::error::Error for CommandError {}

impl From<ConnectionError> for CommandError {
    fn from(error: ConnectionError) -> Self {
        CommandError::Connection(error)
    }
}

/// StatusCode of a command that is not authorized, or that is older than another one of its key.
pub(super) const FORBIDDEN: u64 = 403;

/// Pause before a command that may have been overtaken is signed again.
pub(super) const OVERTAKEN_PAUSE_NS: u64 = 20_000_000;

/// SignatureTime of the last command of this process, ms: a router takes those of one key in
/// ascending order only, over whichever connections they come.
static LAST_TIME_MS: AtomicU64 = AtomicU64::new(0);

/// Signs commands, each with a later SignatureTime than the one before.
#[derive(Clone, Debug)]
pub(super) struct CommandSigner {
    signer: Signer,
}

impl CommandSigner {
    pub(super) fn new(signer: Signer) -> Self {
        CommandSigner { signer }
    }

    /// Whether a refusal may mean only that a later command of the same key, from another
    /// connection, came first. Routers of ndn-cxx (NFD) count what is signed by digest, of all
    /// programs together, as of one key; those that bind prefixes are namely's, and do not.
    pub(super) fn may_be_overtaken(&self, binds: bool) -> bool {
        !binds || self.signer.key_name().is_some()
    }

    /// The Interest of a command.
    pub(super) fn interest(
        &mut self,
        scope: Scope,
        command: Command,
        parameters: &ControlParameters,
        nonce: [u8; 4],
        lifetime_ms: u64,
    ) -> Result<Vec<u8>, CryptoError> {
        let clock_ms = namely_host::clock::unix_ms();
        let later = |last_ms: u64| clock_ms.max(last_ms + 1);
        let last_ms = LAST_TIME_MS
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |last_ms| Some(later(last_ms)))
            .unwrap_or_default();
        let builder =
            InterestBuilder::new(command.name(scope, parameters)).nonce(nonce).lifetime_ms(lifetime_ms);
        sign_interest(&builder, &[], &self.signer, later(last_ms))
    }
}

impl Connection {
    /// Sends a command and waits for its response; repeated when none comes. The response is not
    /// verified: it is the word of the router that this connection leads to. Other packets that
    /// come meanwhile are dropped.
    ///
    /// # Errors
    /// [`CommandError::Refused`] and [`CommandError::Nack`]: the router does not carry it out.
    /// [`CommandError::NoAnswer`], [`CommandError::BadAnswer`]: it does not answer, or not in the
    /// protocol. Otherwise there is no router, or no signature.
    pub fn command(
        &mut self,
        command: Command,
        parameters: &ControlParameters,
    ) -> Result<ControlResponse, CommandError> {
        for attempt in 1..=COMMAND_ATTEMPTS {
            let nonce = self.nonces.next();
            let interest = self
                .commands
                .interest(self.scope(), command, parameters, nonce, COMMAND_LIFETIME_MS)
                .map_err(CommandError::Signing)?;
            match self.express_wire(&interest, &mut |_, _| {})? {
                Answer::Data(reply) => match response(&reply.wire) {
                    Err(CommandError::Refused(refused))
                        if refused.code == FORBIDDEN
                            && self.commands.may_be_overtaken(self.registrations.binds())
                            && attempt < COMMAND_ATTEMPTS =>
                    {
                        std::thread::sleep(Duration::from_nanos(OVERTAKEN_PAUSE_NS));
                    }
                    outcome => return outcome,
                },
                Answer::Nack(NackReason::Congestion | NackReason::Duplicate) | Answer::Timeout => {}
                Answer::Nack(reason) => return Err(CommandError::Nack(reason)),
            }
        }
        Err(CommandError::NoAnswer)
    }

    /// Asks the router to say of each packet where it came from (IncomingFaceId), so that the share
    /// that its content store answered can be told. Asked once of each router, and waited for a
    /// moment only: a router that does not do it, or not over this kind of face, goes on as before.
    ///
    /// # Errors
    /// [`ConnectionError`]: the router is gone. That it refuses is no error.
    pub fn ask_for_origins(&mut self) -> Result<(), ConnectionError> {
        if !self.local || self.origins_asked == Some(self.epoch) {
            return Ok(());
        }
        self.origins_asked = Some(self.epoch);
        let flags = Some(face_flags::LOCAL_FIELDS);
        let parameters = ControlParameters { flags, mask: flags, ..ControlParameters::default() };
        let nonce = self.nonces.next();
        let (scope, command) = (Scope::Localhost, Command::FacesUpdate);
        match self.commands.interest(scope, command, &parameters, nonce, ORIGINS_LIFETIME_MS) {
            Ok(interest) => {
                let answer = self.express_wire(&interest, &mut |_, _| {})?;
                tracing::debug!(?answer, "asked where packets come from");
            }
            Err(error) => tracing::debug!(%error, "not asked where packets come from"),
        }
        Ok(())
    }

    /// Where this connection's commands go: `/localhost` for a router that sees the client as
    /// local.
    pub fn scope(&self) -> Scope {
        if self.local { Scope::Localhost } else { Scope::Localhop }
    }
}

/// The response in the Data `wire`, if it says that the command was carried out.
fn response(wire: &[u8]) -> Result<ControlResponse, CommandError> {
    let data = DataView::parse(wire).map_err(CommandError::BadAnswer)?;
    checked_response(&data)
}

pub(super) fn checked_response(data: &DataView<'_>) -> Result<ControlResponse, CommandError> {
    let response = ControlResponse::decode(data.content).map_err(CommandError::BadAnswer)?;
    if response.is_ok() { Ok(response) } else { Err(CommandError::Refused(response)) }
}

#[cfg(test)]
mod tests {
    use namely_wire::InterestView;

    use super::*;

    #[test]
    fn commands_of_all_connections_have_ascending_times() {
        let mut signers = [Signer::digest_sha256(), Signer::digest_sha256()].map(CommandSigner::new);
        let mut last_ms = 0;
        for i in 0..40 {
            let parameters = ControlParameters::default();
            let signer = &mut signers[i / 3 % 2];
            let wire = signer.interest(Scope::Localhost, Command::RibRegister, &parameters, [0; 4], 1_000);
            let wire = wire.unwrap();
            let info = InterestView::parse(&wire).unwrap().signature_info().unwrap().unwrap();
            let time_ms = info.time_ms.unwrap();
            assert!(time_ms > last_ms, "{time_ms} after {last_ms}");
            last_ms = time_ms;
        }
    }
}
