//! `cs/config` and `cs/erase`.

use namely_forwarder::{CsChange, CsPolicy};
use namely_wire::mgmt::{ControlParameters, ControlResponse, cs_flags};

use super::{MaskedFlags, bad, required_name};
use crate::control::Tables;

/// Packets that one `cs/erase` erases at most; the response says whether more are left. NFD's
/// figure.
pub(crate) const ERASE_MAX: u64 = 256;

pub(crate) fn config(
    parameters: &ControlParameters,
    tables: &dyn Tables,
) -> Result<ControlResponse, ControlResponse> {
    let flags = MaskedFlags::of(parameters)?;
    let policy = parameters.cs_policy.as_deref().map(str::parse::<CsPolicy>).transpose();
    let policy = policy.map_err(|unknown| bad(unknown.to_string()))?;
    tables.cs_configure(&CsChange {
        packets_max: parameters.capacity.map(|n| usize::try_from(n).unwrap_or(usize::MAX)),
        admit: flags.bit(cs_flags::ENABLE_ADMIT),
        serve: flags.bit(cs_flags::ENABLE_SERVE),
        policy,
    });
    let info = tables.cs_info();
    Ok(ControlResponse::ok(&ControlParameters {
        capacity: Some(info.capacity),
        flags: Some(info.flags),
        cs_policy: info.policy,
        ..Default::default()
    }))
}

pub(crate) fn erase(
    parameters: &ControlParameters,
    tables: &dyn Tables,
) -> Result<ControlResponse, ControlResponse> {
    let prefix = required_name(parameters)?;
    if parameters.count == Some(0) {
        return Err(bad("Count must be above 0"));
    }
    let wanted = parameters.count.unwrap_or(u64::MAX);
    let (erased, more) = tables.cs_erase(prefix, wanted.min(ERASE_MAX));
    Ok(ControlResponse::ok(&ControlParameters {
        name: Some(prefix.to_name()),
        count: Some(erased),
        // Capacity says 'ask again': this many go at once, and the caller wanted more than that.
        capacity: (more && wanted > ERASE_MAX).then_some(ERASE_MAX),
        ..Default::default()
    }))
}
