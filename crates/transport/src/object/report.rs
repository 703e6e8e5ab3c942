//! Data that is not believed, reported to the router of this machine (`cs/report`): it takes the
//! Data out of its content store and asks others for it from now on.

use namely_wire::mgmt::{Command, ControlParameters, Scope};
use namely_wire::types::IMPLICIT_DIGEST_COMPONENT;
use namely_wire::{Component, InterestBuilder, Name};

use super::{Express, ObjectError};

/// How long a router is waited for, ms: of other routers than namely's none answers.
const LIFETIME_MS: u64 = 100;

/// Reports Data by its full name. A router on another machine, or of another kind, does not answer,
/// which changes nothing.
pub fn report_refused(express: &mut dyn Express, full_name: &Name) {
    let parameters = ControlParameters { name: Some(full_name.clone()), ..ControlParameters::default() };
    let name = Command::CsReport.name(Scope::Localhost, &parameters);
    let interest = InterestBuilder::new(name).must_be_fresh().lifetime_ms(LIFETIME_MS);
    let _ = express.express_retrying(&interest, 1);
}

impl ObjectError {
    /// The full name of the Data that is not believed, if that is what is wrong.
    pub fn refused_data(&self) -> Option<Name> {
        let (name, digest) = match self {
            ObjectError::Untrusted(rejection) => (&rejection.name, **rejection.digest.as_ref()?),
            ObjectError::Corrupt(rejection) => (&rejection.name, rejection.digest),
            _ => return None,
        };
        let digest = Component { typ: IMPLICIT_DIGEST_COMPONENT, value: &digest };
        (!name.is_empty()).then(|| name.join(digest))
    }
}
