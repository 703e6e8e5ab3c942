//! Traces of packets (module `trace`), which namely's router has only.

use std::time::Duration;

use namely_wire::Name;
use namely_wire::mgmt::{Block, Command, ControlParameters, TraceEntry, blocks};

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
