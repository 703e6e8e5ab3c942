//! What management did with what it received. `docs/counters.md` lists them.

/// Counters since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Commands carried out (200).
    pub commands_done: u64,
    /// Commands that were allowed but could not be carried out (404, 409, 410, 414, 5xx).
    pub commands_failed: u64,
    /// Commands whose sender may not give them (403).
    pub commands_refused: u64,
    /// Interests under `/localhost` from a face that is not local and of whose sender the kernel
    /// tells no user, or under `/localhop` where that is off: commands (403), and datasets and
    /// events ('no such data').
    pub senders_unknown: u64,
    /// Commands that could not be decoded, or lacked what they need (400).
    pub commands_malformed: u64,
    /// Names of management that are no command or dataset (404).
    pub unknown_names: u64,
    /// Interests outside management's names, or that cannot be decoded; dropped.
    pub not_management: u64,
    /// Datasets answered with a new state.
    pub datasets: u64,
    /// Datasets answered with a large state that was made less than a second ago.
    pub datasets_repeated: u64,
    /// Datasets asked for while they were being made; answered when they are.
    pub datasets_joined: u64,
    /// Segments of states that are no longer kept; answered with 'no such data'.
    pub segments_missing: u64,
    /// Dataset Interests that no answer can match, for lack of CanBePrefix; dropped.
    pub datasets_unanswerable: u64,
    /// Face events published.
    pub events: u64,
    /// Interests for events of which the event is no longer kept; dropped.
    pub events_missed: u64,
    /// Subscriptions forgotten because there were too many.
    pub subscriptions_dropped: u64,
    /// `faces/create` commands refused because too many faces were being made.
    pub new_faces_refused: u64,
    /// Data that consumers of this machine have refused, and said so (`cs/report`).
    pub data_reported: u64,
    /// Questions about a name, hop by hop, that were answered.
    pub hop_answers: u64,
    /// Those that were not, because there were too many.
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
