//! Counters of management. `docs/counters.md` lists them.

/// Counters since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Commands carried out (200).
    pub commands_done: u64,
    /// Commands that were allowed but could not be carried out (404, 406, 409, 410, 414, 500, 504).
    pub commands_failed: u64,
    /// Commands whose sender is not authorized (403). `management.refused.` counts them by reason.
    pub commands_refused: u64,
    /// Interests under `/localhost` from a face that is not local and whose user the kernel does
    /// not report, or under `/localhop` if it is disabled. Commands are answered with 403, datasets
    /// and events with 'no such data'.
    pub senders_unknown: u64,
    /// Commands that could not be decoded, or lacked a required parameter (400).
    pub commands_malformed: u64,
    /// Management names that are no command or dataset (404).
    pub unknown_names: u64,
    /// Interests outside management's names, or that cannot be decoded; dropped.
    pub not_management: u64,
    /// Datasets answered with a new snapshot.
    pub datasets: u64,
    /// Datasets answered with a large snapshot that was made less than a second ago.
    pub datasets_repeated: u64,
    /// Datasets requested while their snapshot was being made. They are answered when it is
    /// complete.
    pub datasets_joined: u64,
    /// Segments of snapshots that are no longer retained; answered with 'no such data'.
    pub segments_missing: u64,
    /// Dataset Interests without CanBePrefix, which no answer can match; dropped.
    pub datasets_unanswerable: u64,
    /// Face events published.
    pub events: u64,
    /// Interests for events that are no longer retained; dropped.
    pub events_missed: u64,
    /// Subscriptions to events that were evicted for newer ones.
    pub subscriptions_dropped: u64,
    /// `faces/create` commands refused because too many faces were being made (504).
    pub new_faces_refused: u64,
    /// Data that local consumers reported as refused (`cs/report`).
    pub data_reported: u64,
    /// Hop-by-hop queries about a name that were answered.
    pub hop_answers: u64,
    /// Hop-by-hop queries over the rate limit.
    pub hop_answers_refused: u64,
}

impl Counters {
    /// Each counter with its name.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> + use<> {
        [
            ("commands_done", self.commands_done),
            ("commands_failed", self.commands_failed),
            ("commands_refused", self.commands_refused),
            ("senders_unknown", self.senders_unknown),
            ("commands_malformed", self.commands_malformed),
            ("unknown_names", self.unknown_names),
            ("not_management", self.not_management),
            ("datasets", self.datasets),
            ("datasets_repeated", self.datasets_repeated),
            ("datasets_joined", self.datasets_joined),
            ("segments_missing", self.segments_missing),
            ("datasets_unanswerable", self.datasets_unanswerable),
            ("events", self.events),
            ("events_missed", self.events_missed),
            ("subscriptions_dropped", self.subscriptions_dropped),
            ("new_faces_refused", self.new_faces_refused),
            ("data_reported", self.data_reported),
            ("hop_answers", self.hop_answers),
            ("hop_answers_refused", self.hop_answers_refused),
        ]
        .into_iter()
    }
}
