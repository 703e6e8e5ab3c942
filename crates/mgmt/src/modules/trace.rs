//! Commands of namely's module `trace`: traces of packets below a prefix, for as long as a client
//! reads them. They require the right to manage, because they show the requests of other users.

use namely_messages::{ControlParameters, ControlResponse, encode_blocks, status_code};
use namely_wire::PACKET_OCTETS_MAX;

use super::{CommandResult, bad, not_found, required_name};
use crate::control::{Control, Traces};

/// Duration of a packet trace.
///
/// A client starts another trace to continue.
///
/// # Limit
/// A longer duration is reduced to it, and the trace ends after it.
/// - Tests: `a_trace_needs_the_management_right`
pub const TRACE_TIME_MS_MAX: u64 = 3_600_000;

/// Octets of a packet reserved for the response's own name, text, parameters and signature.
const ENVELOPE_OCTETS: usize = 1_024;

fn traces(control: Control<'_>) -> Result<&dyn Traces, ControlResponse> {
    control.traces.ok_or_else(|| {
        ControlResponse::new(
            status_code::INTERNAL_ERROR,
            "the kernel forwards, and its packets are not traced",
        )
    })
}

fn required_id(parameters: &ControlParameters) -> Result<u64, ControlResponse> {
    parameters.trace_id.ok_or_else(|| bad("the number of the trace is missing"))
}

fn none_such() -> ControlResponse {
    not_found("there is no such trace: its time is over, or it was not read for too long")
}

/// `trace/start`: the trace of Name, for ExpirationPeriod.
pub(crate) fn start(parameters: &ControlParameters, own: u64, control: Control<'_>) -> CommandResult {
    let prefix = required_name(parameters)?.to_name();
    let time_ms = parameters.expiration_period_ms.unwrap_or(TRACE_TIME_MS_MAX).min(TRACE_TIME_MS_MAX);
    let started = traces(control)?.start(&prefix, time_ms, own);
    let id = started.map_err(|why| ControlResponse::new(status_code::INTERNAL_ERROR, why))?;
    Ok(ControlResponse::ok(&ControlParameters {
        name: Some(prefix),
        expiration_period_ms: Some(time_ms),
        trace_id: Some(id),
        ..ControlParameters::default()
    }))
}

/// `trace/read`: returns parameters, then packets. Count is the number of lost entries, and Flags
/// is 1 if more entries are available.
pub(crate) fn read(parameters: &ControlParameters, control: Control<'_>) -> CommandResult {
    let id = required_id(parameters)?;
    let traced = traces(control)?.read(id, PACKET_OCTETS_MAX - ENVELOPE_OCTETS).ok_or_else(none_such)?;
    let mut response = ControlResponse::ok(&ControlParameters {
        count: Some(traced.lost),
        flags: Some(traced.is_more.into()),
        trace_id: Some(id),
        ..ControlParameters::default()
    });
    response.body.extend(encode_blocks(&traced.entries));
    Ok(response)
}

/// `trace/stop`.
pub(crate) fn stop(parameters: &ControlParameters, control: Control<'_>) -> CommandResult {
    let id = required_id(parameters)?;
    if !traces(control)?.stop(id) {
        return Err(none_such());
    }
    Ok(ControlResponse::ok(&ControlParameters { trace_id: Some(id), ..ControlParameters::default() }))
}
