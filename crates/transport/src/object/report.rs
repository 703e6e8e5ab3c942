//! Reports Data that failed verification to the router of this host (`cs/report`). The router
//! removes the Data from its content store and requests it from other sources from now on.

use namely_messages::{Command, ControlParameters, Scope};
use namely_security::{Verified, sha256};
use namely_wire::types::IMPLICIT_DIGEST_COMPONENT;
use namely_wire::{Component, InterestBuilder, Name};

use super::{Express, ObjectError};

/// Time to wait for the router's answer, ms. Only namely's routers answer.
const LIFETIME_MS: u64 = 100;

/// Reports Data by its full name. Other routers than namely's on this host do not answer, which is
/// no error.
pub fn report_refused(express: &mut dyn Express, full_name: &Name) {
    let parameters = ControlParameters { name: Some(full_name.clone()), ..ControlParameters::default() };
    let name = Command::CsReport.name(Scope::Localhost, &parameters);
    let interest = InterestBuilder::new(name).must_be_fresh().lifetime_ms(LIFETIME_MS);
    // The result is ignored: the caller reports the rejection of the packet, and if the router is
    // lost, the caller's next request fails.
    let _ = express.express_retrying(&interest, 1);
}

/// Returns the full name of a Data that was verified and is refused anyway.
pub fn full_name(data: &Verified) -> Name {
    let digest = sha256(data.octets());
    data.name().to_name().join(Component { typ: IMPLICIT_DIGEST_COMPONENT, value: &digest })
}

impl ObjectError {
    /// Returns the full name of the Data that failed verification, if that is the error.
    pub fn refused_data(&self) -> Option<Name> {
        let (name, digest) = match self {
            ObjectError::Untrusted(rejection) => (&rejection.name, **rejection.digest.as_ref()?),
            ObjectError::Corrupt(rejection) => (&rejection.name, rejection.digest),
            _ => return None,
        };
        let digest = Component { typ: IMPLICIT_DIGEST_COMPONENT, value: &digest };
        // A packet that cannot be parsed has no name to report.
        (!name.is_empty()).then(|| name.join(digest))
    }
}
