//! Management commands (NFD management protocol): signed Interests and their ControlResponses.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use namely_messages::{Block, Command, ControlParameters, ControlResponse, Scope, face_flags};
use namely_security::{CryptoError, Signer, sign_interest};
use namely_wire::text::Plain;
use namely_wire::{DataView, DecodeError, InterestBuilder, NackReason};

use super::reach::NotBound;
use super::{Answer, Connection, ConnectionError};

/// Time to wait for the response to one command. A router that has just started may be slow.
pub(super) const COMMAND_LIFETIME_MS: u64 = 2_000;

/// Time to wait at the start of a fetch for the router's response to the request for
/// IncomingFaceId.
const ORIGINS_LIFETIME_MS: u64 = 200;

/// Maximum number of transmissions of a command without a response.
pub(super) const COMMAND_ATTEMPTS: u32 = 3;

/// The reason for which a command was not carried out.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    /// The environment's: there is no router.
    #[error(transparent)]
    Connection(#[from] ConnectionError),
    /// The environment's: the command cannot be signed.
    #[error("cannot sign the command: {0}")]
    Signing(#[source] CryptoError),
    /// The caller's: the router refused, with this status code and text.
    #[error("the router refused: {} {}", .0.code, Plain::quotation(&.0.text))]
    Refused(ControlResponse),
    /// The router's: it has no management on this face, or on this kind of face.
    #[error("the router refused the command itself ({0}): it takes none from here")]
    Nack(NackReason),
    /// The router's: no response.
    #[error("the router does not answer commands here")]
    NoAnswer,
    /// The router's: the response is not a valid one.
    #[error("the router's response is malformed: {0}")]
    BadAnswer(#[source] DecodeError),
    /// The caller's or the environment's: the kernel's forwarder or NDN-DPDK does not deliver the
    /// prefix to this client.
    #[error(transparent)]
    NotBound(NotBound),
}

impl CommandError {
    /// Advice for the user, if there is any.
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

/// StatusCode of a command that is not authorized, or that is older than another command of its
/// key.
pub(super) const FORBIDDEN: u64 = 403;

/// Pause before an overtaken command is signed again.
pub(super) const OVERTAKEN_PAUSE_NS: u64 = 20_000_000;

/// SignatureTime of the last command of this process, ms. Routers of ndn-cxx accept commands of one
/// key in ascending order only, across all connections.
static LAST_TIME_MS: AtomicU64 = AtomicU64::new(0);

/// Signs commands, each with a later SignatureTime than the previous one.
#[derive(Clone, Debug)]
pub(super) struct CommandSigner {
    signer: Signer,
}

impl CommandSigner {
    pub(super) fn new(signer: Signer) -> Self {
        CommandSigner { signer }
    }

    /// Returns true if a refusal may only mean that a later command of the same key arrived first
    /// on another connection. Routers of ndn-cxx (NFD) treat all commands signed by digest, of all
    /// programs, as commands of one key. Only namely's routers bind prefixes, and they do not treat
    /// all digests as one key.
    pub(super) fn may_be_overtaken(&self, binds: bool) -> bool {
        !binds || self.signer.key_name().is_some()
    }

    /// Builds the Interest of a command.
    pub(super) fn interest(
        &mut self,
        scope: Scope,
        command: Command,
        parameters: &ControlParameters,
        nonce: [u8; 4],
        lifetime_ms: u64,
    ) -> Result<Vec<u8>, CryptoError> {
        let clock_ms = namely_host::clock::unix_ms();
        // The clock may show the same millisecond again, or have been set back.
        let later = |last_ms: u64| clock_ms.max(last_ms + 1);
        // Relaxed suffices: the update is atomic, and the time guards no other memory.
        let last_ms = LAST_TIME_MS
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |last_ms| Some(later(last_ms)))
            .unwrap_or_default();
        let builder =
            InterestBuilder::new(command.name(scope, parameters)).nonce(nonce).lifetime_ms(lifetime_ms);
        // `fetch_update` returns the value before the update.
        sign_interest(&builder, &[], &self.signer, later(last_ms))
    }
}

impl Connection {
    /// Sends a command and waits for its response. Retransmits it if there is none. The response is
    /// not verified: it comes from the router at the other end of this connection. Other packets
    /// that arrive meanwhile are dropped.
    ///
    /// # Errors
    /// [`CommandError::Refused`] and [`CommandError::Nack`]: the router does not carry it out.
    /// [`CommandError::NoAnswer`]: there is no response. [`CommandError::BadAnswer`]: the response
    /// is malformed. Otherwise there is no router, or the command cannot be signed.
    pub fn command(
        &mut self,
        command: Command,
        parameters: &ControlParameters,
    ) -> Result<ControlResponse, CommandError> {
        for attempt in 1..=COMMAND_ATTEMPTS {
            let nonce = self.nonces.next();
            // Each transmission is signed anew, because routers reject a repeated SignatureTime.
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
                // Another transmission may pass. Any other reason is final.
                Answer::Nack(NackReason::Congestion | NackReason::Duplicate) | Answer::Timeout => {}
                Answer::Nack(reason) => return Err(CommandError::Nack(reason)),
            }
        }
        Err(CommandError::NoAnswer)
    }

    /// Requests IncomingFaceId on each packet from the router, so that the share of Data from its
    /// content store can be computed. The request is sent once to each router with a short timeout.
    /// If the router does not support it on this face, the connection works without it.
    ///
    /// # Errors
    /// [`ConnectionError`]: the router is gone. A refusal is no error.
    pub fn request_origins(&mut self) -> Result<(), ConnectionError> {
        // Routers send IncomingFaceId to local clients only (NFD management, LocalFields).
        if !self.local || self.origins_requested == Some(self.epoch) {
            return Ok(());
        }
        // Set before the request, so that a router that does not answer delays one fetch only.
        self.origins_requested = Some(self.epoch);
        let flags = Some(face_flags::LOCAL_FIELDS);
        let parameters = ControlParameters { flags, mask: flags, ..ControlParameters::default() };
        let nonce = self.nonces.next();
        let (scope, command) = (Scope::Localhost, Command::FacesUpdate);
        match self.commands.interest(scope, command, &parameters, nonce, ORIGINS_LIFETIME_MS) {
            Ok(interest) => {
                let answer = self.express_wire(&interest, &mut |_, _| {})?;
                tracing::debug!(?answer, "asked where packets come from");
            }
            // Without the signature only a statistic is missing, so the fetch continues.
            Err(error) => tracing::debug!(%error, "not asked where packets come from"),
        }
        Ok(())
    }

    /// The scope of this connection's commands: `/localhost` for a router that treats the client as
    /// local.
    pub fn scope(&self) -> Scope {
        if self.local { Scope::Localhost } else { Scope::Localhop }
    }
}

/// Parses the response in the Data `wire`. Returns an error unless the command succeeded.
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
    fn command_times_ascend_across_connections() {
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
