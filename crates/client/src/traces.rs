//! Traces of packets (module `trace`), and queries about a name to routers some hops away. Only
//! namely's routers support them.

use std::time::Duration;

use namely_messages::{Block, Command, ControlParameters, HopAnswer, TraceEntry, blocks, hop_name};
use namely_transport::connection::Answer;
use namely_wire::{DataView, InterestBuilder, NackReason, Name};

use crate::{Client, ClientError};

/// A part of a trace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TracePart {
    /// Packets, in the order in which they were processed.
    pub entries: Vec<TraceEntry>,
    /// Packets that the trace lacks because the router discarded them before they were read.
    pub lost: u64,
    /// Whether more entries can be read immediately.
    pub is_more: bool,
}

impl Client {
    /// Starts a trace of packets below `prefix`, for `time` at most, and returns its number
    /// (`trace/start`). The trace also ends if it is not read for some seconds, and when this
    /// connection closes.
    ///
    /// # Errors
    /// [`ClientError::Command`]: the router has its maximum of traces, cannot trace, or refuses.
    pub fn start_trace(&mut self, prefix: &Name, time: Duration) -> Result<u64, ClientError> {
        let parameters = ControlParameters {
            name: Some(prefix.clone()),
            expiration_period_ms: Some(u64::try_from(time.as_millis()).unwrap_or(u64::MAX)),
            ..ControlParameters::default()
        };
        Ok(self.command(Command::TraceStart, &parameters)?.trace_id.unwrap_or_default())
    }

    /// Returns the entries since the last read (`trace/read`).
    ///
    /// # Errors
    /// [`ClientError::Command`]: the trace has ended.
    pub fn read_trace(&mut self, trace: u64) -> Result<TracePart, ClientError> {
        let response = self.connection.command(Command::TraceRead, &of(trace))?;
        let parameters = response.parameters().map_err(ClientError::Malformed)?.unwrap_or_default();
        let rest = response.body.get(parameters.to_vec().len()..).unwrap_or_default();
        Ok(TracePart {
            entries: blocks::<TraceEntry>(rest).collect::<Result<_, _>>().map_err(ClientError::Malformed)?,
            lost: parameters.count.unwrap_or_default(),
            is_more: parameters.flags.is_some_and(|flags| flags & 1 != 0),
        })
    }

    /// Ends a trace (`trace/stop`).
    ///
    /// # Errors
    /// [`ClientError::Command`]: the trace has ended already.
    pub fn stop_trace(&mut self, trace: u64) -> Result<(), ClientError> {
        self.command(Command::TraceStop, &of(trace)).map(drop)
    }
}

fn of(trace: u64) -> ControlParameters {
    ControlParameters { trace_id: Some(trace), ..ControlParameters::default() }
}

/// Outcome of [`Client::ask_hop`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HopOutcome {
    /// The next hops for the name at the queried router. Their signature is not verified.
    Answer(HopAnswer),
    /// A router on the path sent a Nack.
    Refused(NackReason),
    /// No answer arrived in time.
    Silence,
}

/// InterestLifetime of each attempt, ms. The second one outlasts a pause of two seconds, such as
/// that of a router on a busy machine.
const HOP_LIFETIMES_MS: [u64; 2] = [1_000, 3_000];

impl Client {
    /// Queries a router for its next hops for `name`. It is `hops` hops beyond the connected router
    /// on the path of `name`, and answers if its operator permits that. Each call needs a `number`
    /// such that neither it nor `number + 1` was used before.
    ///
    /// # Errors
    /// [`ClientError::Connection`]: the router is gone. [`ClientError::Malformed`]: the answer
    /// cannot be decoded.
    pub fn ask_hop(&mut self, name: &Name, hops: u8, number: u64) -> Result<HopOutcome, ClientError> {
        for (attempt, lifetime_ms) in (0..).zip(HOP_LIFETIMES_MS) {
            // Each attempt has a name of its own. The previous attempt may still be pending at a
            // router, which would treat an Interest of the same name as a retransmission.
            let query = hop_name(name, number.wrapping_add(attempt));
            let interest = InterestBuilder::new(query).must_be_fresh().lifetime_ms(lifetime_ms);
            // One more, because the connected router decrements HopLimit, too.
            match self.connection.express(&interest.hop_limit(hops.saturating_add(1)))? {
                Answer::Data(reply) => {
                    let view = DataView::parse(&reply.wire).map_err(ClientError::Malformed)?;
                    let answer = HopAnswer::decode(view.content).map_err(ClientError::Malformed)?;
                    return Ok(HopOutcome::Answer(answer));
                }
                Answer::Nack(reason) => return Ok(HopOutcome::Refused(reason)),
                Answer::Timeout => {}
            }
        }
        Ok(HopOutcome::Silence)
    }
}
