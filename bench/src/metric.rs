//! Reported metrics, by name and unit.

/// One reported number. Its name in the output is fixed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Metric {
    /// Payload over the wall time of the client process, from its start to its end.
    Goodput,
    /// Interest-Data exchanges over the same time.
    Exchanges,
    /// CPU time of one router for one exchange; with two routers, their mean.
    CpuPerExchange,
    /// CPU time of the producer for one exchange.
    CpuPerExchangeProducer,
    /// CPU time of the client for one exchange, including the start and end of its process.
    CpuPerExchangeConsumer,
    /// CPU time of all routers for 1 GiB of payload.
    CpuPerGibRouter,
    /// CPU time of the producer for 1 GiB of payload.
    CpuPerGibProducer,
    /// CPU time of the client for 1 GiB of payload.
    CpuPerGibConsumer,
    /// Time from the producer's start to its first answer: the cost of publishing before any fetch.
    PublishTime,
    /// Jain's index of the flows' goodput: 1 when all are equal, 1/n when one flow has all of it.
    Fairness,
    /// Median round trip.
    P50,
    /// Round trip that 99 of 100 do not exceed.
    P99,
    /// Resident memory of the router before its first use.
    RssIdle,
    /// Resident memory of the router; in the scenario `memory`, after all objects were fetched.
    Rss,
    /// CPU time of the router over wall time while it is idle.
    CpuIdle,
    /// CPU time in the core for one Interest-Data exchange.
    NsPerExchange,
    /// CPU time in the core for an Interest whose fate depends on one table.
    NsPerLookup,
    /// Time to add an entry.
    NsPerInsert,
    /// Memory of an entry beyond its packet.
    BytesPerEntry,
    /// Fetches that failed, summed over all runs.
    Failed,
}

impl Metric {
    /// Returns the metric's name in the output.
    pub fn name(self) -> &'static str {
        match self {
            Metric::Goodput => "goodput_mbps",
            Metric::Exchanges => "exchanges_per_second",
            Metric::CpuPerExchange => "cpu_us_per_exchange",
            Metric::CpuPerExchangeProducer => "cpu_us_per_exchange_producer",
            Metric::CpuPerExchangeConsumer => "cpu_us_per_exchange_consumer",
            Metric::CpuPerGibRouter => "cpu_s_per_gib_router",
            Metric::CpuPerGibProducer => "cpu_s_per_gib_producer",
            Metric::CpuPerGibConsumer => "cpu_s_per_gib_consumer",
            Metric::PublishTime => "publish_s",
            Metric::Fairness => "fairness",
            Metric::P50 => "p50_us",
            Metric::P99 => "p99_us",
            Metric::RssIdle => "rss_idle_mib",
            Metric::Rss => "rss_mib",
            Metric::CpuIdle => "cpu_percent",
            Metric::NsPerExchange => "ns_per_exchange",
            Metric::NsPerLookup => "ns_per_lookup",
            Metric::NsPerInsert => "ns_per_insert",
            Metric::BytesPerEntry => "bytes_per_entry",
            Metric::Failed => "failed",
        }
    }

    /// Returns the metric's unit in the output.
    pub fn unit(self) -> &'static str {
        match self {
            Metric::Goodput => "Mbit/s",
            Metric::Exchanges => "1/s",
            Metric::CpuPerExchange | Metric::CpuPerExchangeProducer | Metric::CpuPerExchangeConsumer => "us",
            Metric::CpuPerGibRouter | Metric::CpuPerGibProducer | Metric::CpuPerGibConsumer => "s/GiB",
            Metric::PublishTime => "s",
            Metric::Fairness => "1",
            Metric::P50 | Metric::P99 => "us",
            Metric::RssIdle | Metric::Rss => "MiB",
            Metric::CpuIdle => "%",
            Metric::NsPerExchange | Metric::NsPerLookup | Metric::NsPerInsert => "ns",
            Metric::BytesPerEntry => "octets",
            Metric::Failed => "fetches",
        }
    }

    /// Returns true if the report has the sum over all runs instead of their median. A median could
    /// hide a single failure.
    pub fn is_total(self) -> bool {
        self == Metric::Failed
    }
}
