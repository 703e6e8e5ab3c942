//! `cs/config`, `cs/erase`, `cs/pin`, `cs/unpin` and `cs/report`.

use namely_forwarder::{CsChange, CsPolicy};
use namely_messages::{ControlParameters, ControlResponse, CsList, CsListQuery, cs_flags, status_code};

use super::{CommandResult, MaskedFlags, bad, not_found, required_name};
use crate::control::{Control, CsDisk, CsDiskChange, Tables};

/// Packets that one `cs/erase` erases from memory.
///
/// The limit is that of NFD.
///
/// # Limit
/// The response reports that more may be left.
/// - Tests: `one_erase_command_is_bounded`
pub(crate) const ERASE_MAX: u64 = 256;

/// Packets of one part of `cs/list`.
///
/// # Limit
/// The next part continues the list.
/// - Tests: `memory_contents_are_listed_in_parts`
pub(crate) const LIST_MAX: usize = 256;

pub(crate) fn list(query: &CsListQuery, tables: &dyn Tables, now_ns: u64) -> CsList {
    let mut packets = Vec::new();
    let next = tables.cs_list(query, LIST_MAX, now_ns, &mut packets);
    CsList { next, packets }
}

pub(crate) fn config(parameters: &ControlParameters, control: Control<'_>) -> CommandResult {
    let flags = MaskedFlags::of(parameters)?;
    let policy = parameters.cs_policy.as_deref().map(str::parse::<CsPolicy>).transpose();
    let policy = policy.map_err(|unknown| bad(unknown.to_string()))?;
    let change = CsDiskChange {
        octets_max: parameters.cs_disk_octets,
        admission: parameters.cs_disk_admission.clone(),
        threshold: parameters.cs_disk_threshold,
        queue: parameters.cs_disk_queue.clone(),
    };
    if change != CsDiskChange::default() {
        disk(control)?.configure(&change).map_err(bad)?;
    }
    let changed = control.tables.cs_configure(&CsChange {
        packets_max: parameters.capacity.map(|n| usize::try_from(n).unwrap_or(usize::MAX)),
        admit: flags.bit(cs_flags::ENABLE_ADMIT),
        serve: flags.bit(cs_flags::ENABLE_SERVE),
        policy,
    });
    changed.map_err(|why| ControlResponse::new(status_code::CONFLICT, why))?;
    let info = control.tables.cs_info();
    let disk = control.disk.map(CsDisk::status);
    Ok(ControlResponse::ok(&ControlParameters {
        capacity: Some(info.capacity),
        flags: Some(info.flags),
        cs_policy: info.policy,
        cs_disk_octets: disk.as_ref().map(|disk| disk.octets_max),
        cs_disk_threshold: disk.as_ref().map(|disk| disk.threshold),
        cs_disk_queue: disk.as_ref().map(|disk| disk.queue.clone()),
        cs_disk_admission: disk.map(|disk| disk.admission),
        ..Default::default()
    }))
}

/// Erases a part of the packets in memory. The command that erases the last part also erases the
/// packets on disk; the disk does not report their number.
pub(crate) fn erase(parameters: &ControlParameters, control: Control<'_>) -> CommandResult {
    let prefix = required_name(parameters)?;
    if parameters.count == Some(0) {
        return Err(bad("Count must be above 0"));
    }
    let wanted = parameters.count.unwrap_or(u64::MAX);
    let (erased, more) = control.tables.cs_erase(prefix, wanted.min(ERASE_MAX));
    // A command with a count erases in memory only, because the disk erases whole prefixes.
    let is_whole = parameters.count.is_none() && !more;
    if let Some(disk) = control.disk.filter(|_| is_whole) {
        disk.erase(prefix).map_err(|why| ControlResponse::new(status_code::CONFLICT, why))?;
    }
    Ok(ControlResponse::ok(&ControlParameters {
        name: Some(prefix.to_name()),
        count: Some(erased),
        // Capacity is the limit of one command. It shows that the command must be sent again to
        // erase the rest.
        capacity: (more && wanted > ERASE_MAX).then_some(ERASE_MAX),
        ..Default::default()
    }))
}

pub(crate) fn pin(parameters: &ControlParameters, control: Control<'_>) -> CommandResult {
    let prefix = required_name(parameters)?;
    let refuse = |why| ControlResponse::new(status_code::CONFLICT, why);
    disk(control)?.pin(prefix).map_err(refuse)?;
    Ok(done(parameters))
}

pub(crate) fn unpin(parameters: &ControlParameters, control: Control<'_>) -> CommandResult {
    let prefix = required_name(parameters)?;
    if !disk(control)?.unpin(prefix) {
        return Err(not_found(format!("{prefix} is not pinned")));
    }
    Ok(done(parameters))
}

/// Handles the report that a consumer has refused Data, which the name identifies by its implicit
/// digest. In the response, Count is the number of removed learned routes, and Capacity shows if
/// the memory of the content store had the packet.
pub(crate) fn report(parameters: &ControlParameters, control: Control<'_>, now_ns: u64) -> CommandResult {
    let name = required_name(parameters)?;
    if !name.last().is_some_and(|last| last.is_implicit_digest()) {
        return Err(bad("Name must end with the implicit digest of the Data"));
    }
    let (erased, routes) = control.tables.data_refused(name, now_ns);
    // The memory comes first, because it writes the packets that it evicts to the disk.
    if let Some(disk) = control.disk {
        disk.erase_exact(name).map_err(|why| ControlResponse::new(status_code::CONFLICT, why))?;
    }
    Ok(ControlResponse::ok(&ControlParameters {
        name: parameters.name.clone(),
        count: Some(routes),
        capacity: Some(erased.into()),
        ..Default::default()
    }))
}

fn done(parameters: &ControlParameters) -> ControlResponse {
    ControlResponse::ok(&ControlParameters { name: parameters.name.clone(), ..Default::default() })
}

fn disk(control: Control<'_>) -> Result<&dyn CsDisk, ControlResponse> {
    let text =
        "the content store has no disk: start the router with --cs-disk DIR, or `folder` under [cs.disk]";
    control.disk.ok_or_else(|| not_found(text))
}
