//! Traces of packets (module `trace`) and of names hop by hop, which namely's routers have only.

use std::time::Duration;

use namely_transport::connection::Answer;
use namely_wire::mgmt::{Block, Command, ControlParameters, HopAnswer, TraceEntry, blocks, hop_name};
use namely_wire::{DataView, InterestBuilder, NackReason, Name};

use crate::{Client, ClientError};

/// A part of a trace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TracePart {
    /// Packets, in the order in which they were processed.
    pub entries: Vec<TraceEntry>,
    /// Packets that the router could not keep until they were read.
    pub lost: u64,
    /// More can be read at once.
    pub is_more: bool,
}

impl Client {
    /// Has the router take down what becomes of packets below `prefix`, for `time` at most, and
    /// returns the trace's number (`trace/start`). It ends too when it is not read for some
    /// seconds, and with this connection.
    ///
    /// # Errors
    /// [`ClientError::Command`]: the router has as many traces as it may, cannot, or refuses.
    pub fn start_trace(&mut self, prefix: &Name, time: Duration) -> Result<u64, ClientError> {
        let parameters = ControlParameters {
            name: Some(prefix.clone()),
            expiration_period_ms: Some(u64::try_from(time.as_millis()).unwrap_or(u64::MAX)),
            ..ControlParameters::default()
        };
        Ok(self.command(Command::TraceStart, &parameters)?.trace_id.unwrap_or_default())
    }

    /// What was taken down since the last time (`trace/read`).
    ///
    /// # Errors
    /// [`ClientError::Command`]: the trace is over.
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
    /// [`ClientError::Command`]: it is over.
    pub fn stop_trace(&mut self, trace: u64) -> Result<(), ClientError> {
        self.command(Command::TraceStop, &of(trace)).map(drop)
    }
}

fn of(trace: u64) -> ControlParameters {
    ControlParameters { trace_id: Some(trace), ..ControlParameters::default() }
}

/// What came of a question about a name, some hops away.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HopOutcome {
    /// The router there says where the name goes. Nobody has verified it.
    Answer(HopAnswer),
    /// Some router on the way refused the Interest.
    Refused(NackReason),
    /// Nothing came.
    Silence,
}

/// How long a router may take that is some hops away, ms.
const HOP_LIFETIME_MS: u64 = 1_000;

/// How often it is asked.
const HOP_ATTEMPTS: u32 = 2;

impl Client {
    /// Asks the router that is `hops` behind this one where Interests for `name` go from there; it
    /// answers if its operator lets it. `number` is to be new for each call, and one more too.
    ///
    /// # Errors
    /// [`ClientError::Connection`]: the router is gone. [`ClientError::Malformed`]: what answered
    /// is no answer.
    pub fn ask_hop(&mut self, name: &Name, hops: u8, number: u64) -> Result<HopOutcome, ClientError> {
        for attempt in 0..HOP_ATTEMPTS {
            // Another name each time: the Nonce of one that has come round stays known.
            let asked = hop_name(name, number.wrapping_add(attempt.into()));
            let interest = InterestBuilder::new(asked).must_be_fresh().lifetime_ms(HOP_LIFETIME_MS);
            // This router takes one, too.
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
