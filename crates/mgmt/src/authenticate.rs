//! Whether the sender of a command is someone who may give it.

use namely_wire::InterestView;
use namely_wire::mgmt::Command;

use crate::management::Now;
use crate::policy::{Act, Credentials, Policy};

#[derive(Debug)]
pub(crate) struct Authenticator {
    policy: Policy,
}

impl Authenticator {
    pub(crate) fn new(policy: Policy) -> Self {
        Authenticator { policy }
    }

    pub(crate) fn set_policy(&mut self, policy: Policy) {
        self.policy = policy;
    }

    /// Whether `command` may come under `/localhop/nfd`.
    pub(crate) fn answers_localhop(&self, command: Command) -> bool {
        self.policy.localhop_rib
            && matches!(command, Command::RibRegister | Command::RibUnregister | Command::RibAnnounce)
    }

    /// Lets `act` through, or says why not.
    pub(crate) fn allow(
        &mut self,
        act: Act<'_>,
        _interest: &InterestView<'_>,
        credentials: Credentials,
        _now: Now,
    ) -> Result<(), String> {
        if self.policy.user_allows(credentials, act) {
            return Ok(());
        }
        Err("only users of this machine may do this, through the Unix socket".into())
    }
}
