//! Commands of namely's module `trace`: what becomes of packets below a prefix, while somebody
//! reads it. They need the right to manage: what others ask for is nobody else's business.

use namely_wire::PACKET_OCTETS_MAX;
use namely_wire::mgmt::{ControlParameters, ControlResponse, encode_blocks, status_code};

use super::{bad, not_found, required_name};
use crate::control::{Control, Traces};

/// Longest time that a trace lasts, ms: whoever wants more begins another.
pub const TRACE_TIME_MS_MAX: u64 = 3_600_000;

/// Of a packet: what the response's own name, text and parameters, and the signature have.
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
    not_found("there is no such trace: its time is over, or nobody has read it")
}

/// `trace/start`: of Name, for ExpirationPeriod.
pub(crate) fn start(
    parameters: &ControlParameters,
    own: u64,
    control: Control<'_>,
) -> Result<ControlResponse, ControlResponse> {
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

/// `trace/read`: parameters with Count of what was lost, and Flags 1 if more waits; then packets.
pub(crate) fn read(
    parameters: &ControlParameters,
    control: Control<'_>,
) -> Result<ControlResponse, ControlResponse> {
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
pub(crate) fn stop(
    parameters: &ControlParameters,
    control: Control<'_>,
) -> Result<ControlResponse, ControlResponse> {
    let id = required_id(parameters)?;
    if !traces(control)?.stop(id) {
        return Err(none_such());
    }
    Ok(ControlResponse::ok(&ControlParameters { trace_id: Some(id), ..ControlParameters::default() }))
}
