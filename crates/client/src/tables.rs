//! Strategies, the content store, status and counters (NFD Strategy Choice, CS and Forwarder Status
//! Management).

use namely_messages::{
    Command, ControlParameters, Counter, CsDiskStatus, CsInfo, CsList, CsListQuery, CsPacket, Dataset,
    Explained, ExplainedRight, FaceQueryFilter, GeneralStatus, NeighborStatus, StrategyChoice, VipNeighbour,
    VipObject, VipStatus, blocks, cs_flags, explain_name, status_code, strategy_name,
};
use namely_transport::connection::CommandError;
use namely_wire::{DecodeError, Name};

use crate::client::flags;
use crate::{Client, ClientError};

/// Changes to the content store. `None` leaves a property unchanged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CsChanges {
    /// Maximum number of packets.
    pub capacity: Option<u64>,
    /// Whether new Data may enter.
    pub admit: Option<bool>,
    /// Whether stored Data may answer.
    pub serve: Option<bool>,
    /// Replacement policy. Only namely's router supports this and the following properties.
    pub policy: Option<String>,
    /// Maximum octets on its disk.
    pub disk_octets: Option<u64>,
    /// Data to be written to its disk: `hit` or `all`.
    pub disk_admission: Option<String>,
    /// Pending requests to its disk from which it is bypassed.
    pub disk_threshold: Option<u64>,
    /// Order of its disk's reads and writes: `fifo`, `data-first` or `weighted`.
    pub disk_queue: Option<String>,
}

/// Configuration of the content store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CsConfig {
    /// Maximum number of packets.
    pub capacity: u64,
    /// Flags: see [`cs_flags`]; `None` if the router does not report them.
    pub flags: Option<u64>,
    /// Replacement policy; `None` if the router does not report it.
    pub policy: Option<String>,
    /// Maximum octets on its disk; `None` if it has none.
    pub disk_octets: Option<u64>,
    /// Data to be written to its disk.
    pub disk_admission: Option<String>,
    /// Pending requests to its disk from which it is bypassed.
    pub disk_threshold: Option<u64>,
    /// Order of its disk's reads and writes.
    pub disk_queue: Option<String>,
}

impl Client {
    /// Returns the strategies of all prefixes (`strategy-choice/list`).
    ///
    /// # Errors
    /// See [`ClientError`]: the router is gone, refuses, does not answer, or its answer is
    /// malformed.
    pub fn strategies(&mut self) -> Result<Vec<StrategyChoice>, ClientError> {
        self.entries(Dataset::StrategyChoiceList)
    }

    /// Sets the strategy below `prefix` by its full name or a short one such as `multicast`, and
    /// returns its full name (`strategy-choice/set`).
    ///
    /// # Errors
    /// [`ClientError::BadStrategy`]: `strategy` is not a name. [`ClientError::Command`]: the router
    /// has no such strategy, or refuses.
    pub fn set_strategy(&mut self, prefix: &Name, strategy: &str) -> Result<Name, ClientError> {
        let strategy = strategy_name(strategy).ok_or_else(|| ClientError::BadStrategy(strategy.into()))?;
        let parameters = ControlParameters {
            name: Some(prefix.clone()),
            strategy: Some(strategy.clone()),
            ..Default::default()
        };
        let answer = self.command(Command::StrategyChoiceSet, &parameters)?;
        Ok(answer.strategy.unwrap_or(strategy))
    }

    /// Removes the choice at `prefix`, if there is one (`strategy-choice/unset`).
    ///
    /// # Errors
    /// [`ClientError::Command`]: the router refuses; the choice at `/` stays.
    pub fn unset_strategy(&mut self, prefix: &Name) -> Result<(), ClientError> {
        let parameters = ControlParameters { name: Some(prefix.clone()), ..Default::default() };
        self.command(Command::StrategyChoiceUnset, &parameters).map(drop)
    }

    /// Returns capacity, contents and hits of the content store (`cs/info`).
    ///
    /// # Errors
    /// Those of [`Client::strategies`].
    pub fn cs_info(&mut self) -> Result<CsInfo, ClientError> {
        let entries = self.entries(Dataset::CsInfo)?;
        entries.into_iter().next().ok_or(ClientError::Malformed(DecodeError::Truncated))
    }

    /// Changes the content store, and returns its new configuration (`cs/config`).
    ///
    /// # Errors
    /// [`ClientError::Command`]: the router has no such policy, or refuses.
    pub fn configure_cs(&mut self, changes: &CsChanges) -> Result<CsConfig, ClientError> {
        let (mask, flags) =
            flags(&[(changes.admit, cs_flags::ENABLE_ADMIT), (changes.serve, cs_flags::ENABLE_SERVE)]);
        let parameters = ControlParameters {
            capacity: changes.capacity,
            cs_policy: changes.policy.clone(),
            cs_disk_octets: changes.disk_octets,
            cs_disk_admission: changes.disk_admission.clone(),
            cs_disk_threshold: changes.disk_threshold,
            cs_disk_queue: changes.disk_queue.clone(),
            mask,
            flags,
            ..Default::default()
        };
        let now = self.command(Command::CsConfig, &parameters)?;
        Ok(CsConfig {
            capacity: now.capacity.unwrap_or_default(),
            flags: now.flags,
            policy: now.cs_policy,
            disk_octets: now.cs_disk_octets,
            disk_admission: now.cs_disk_admission,
            disk_threshold: now.cs_disk_threshold,
            disk_queue: now.cs_disk_queue,
        })
    }

    /// Erases stored Data below `prefix` in memory and, without `count`, on disk; at most `count`
    /// packets (1 or more). Returns the number that was erased in memory (`cs/erase`).
    ///
    /// # Errors
    /// [`ClientError::Command`]: the router refuses. Packets erased before stay erased.
    pub fn erase_cs(&mut self, prefix: &Name, count: Option<u64>) -> Result<u64, ClientError> {
        let mut erased = 0;
        loop {
            let left = count.map(|count| count - erased);
            let name = Some(prefix.clone());
            let parameters = ControlParameters { name, count: left, ..Default::default() };
            let answer = self.command(Command::CsErase, &parameters)?;
            let gone = answer.count.unwrap_or_default().min(left.unwrap_or(u64::MAX));
            erased += gone;
            // The router erases a bounded number at a time. Capacity in its answer means that more
            // may remain.
            let may_be_more = answer.capacity.is_some() && gone > 0;
            if !may_be_more || count.is_some_and(|count| erased >= count) {
                return Ok(erased);
            }
        }
    }

    /// Returns properties, contents and counters of the content store's disk (`cs/disk`), if it has
    /// one; namely's router only.
    ///
    /// # Errors
    /// Those of [`Client::strategies`].
    pub fn cs_disk(&mut self) -> Result<Option<CsDiskStatus>, ClientError> {
        Ok(self.entries(Dataset::CsDisk)?.into_iter().next())
    }

    /// Calls `each` with the packets in the content store's memory below `prefix`, in no particular
    /// order (`cs/list`); namely's router only, and for callers that may manage it without a key.
    /// Packets stored or evicted meanwhile may be listed or not.
    ///
    /// # Errors
    /// [`ClientError::NotForYou`], and those of [`Client::strategies`].
    pub fn list_cs(&mut self, prefix: &Name, mut each: impl FnMut(CsPacket)) -> Result<(), ClientError> {
        let mut query = CsListQuery { prefix: prefix.clone(), from: 0 };
        loop {
            let content = self.content(query.name(self.connection.scope()))?;
            let list: Option<Result<CsList, _>> = blocks(&content).next();
            let list = list.unwrap_or(Err(DecodeError::Truncated)).map_err(ClientError::Malformed)?;
            list.packets.into_iter().for_each(&mut each);
            match list.next {
                Some(next) if next > query.from => query.from = next,
                _ => return Ok(()),
            }
        }
    }

    /// Returns the decision of the router on a command from this connection's signer, with the
    /// deciding rule or the reason (`rights/register`, `bind` and `manage`); `None` if the router
    /// does not support the query. It changes nothing. `asks` is one of the three commands, and
    /// `name` is its subject.
    ///
    /// # Errors
    /// Those of [`Client::command`]; [`ClientError::Malformed`]: the answer cannot be decoded.
    pub fn ask_right(
        &mut self,
        asks: Command,
        name: Option<&Name>,
    ) -> Result<Option<ExplainedRight>, ClientError> {
        let parameters = ControlParameters { name: name.cloned(), ..ControlParameters::default() };
        let response = match self.connection.command(asks, &parameters) {
            Err(CommandError::Refused(response)) if response.code == status_code::NOT_FOUND => {
                return Ok(None);
            }
            response => response?,
        };
        let right: Option<Result<ExplainedRight, _>> = blocks(&response.body).next();
        right.transpose().map_err(ClientError::Malformed)
    }

    /// Returns the router's current handling of an Interest for `name`, table by table
    /// (`name/explain`); namely's router only, and for users of its machine.
    ///
    /// # Errors
    /// [`ClientError::NotForYou`], and those of [`Client::strategies`].
    pub fn explain(&mut self, name: &Name) -> Result<Explained, ClientError> {
        let content = self.content(explain_name(self.connection.scope(), name))?;
        let explained: Option<Result<Explained, _>> = blocks(&content).next();
        explained.unwrap_or(Err(DecodeError::Truncated)).map_err(ClientError::Malformed)
    }

    /// Pins `prefix`: Data below it on the content store's disk is not evicted (`cs/pin`); namely's
    /// router only.
    ///
    /// # Errors
    /// [`ClientError::Command`]: the content store has no disk, or its maximum of pins.
    pub fn pin_cs(&mut self, prefix: &Name) -> Result<(), ClientError> {
        let parameters = ControlParameters { name: Some(prefix.clone()), ..Default::default() };
        self.command(Command::CsPin, &parameters).map(drop)
    }

    /// Removes a pin (`cs/unpin`); namely's router only.
    ///
    /// # Errors
    /// [`ClientError::Command`]: `prefix` is not pinned, or the content store has no disk.
    pub fn unpin_cs(&mut self, prefix: &Name) -> Result<(), ClientError> {
        let parameters = ControlParameters { name: Some(prefix.clone()), ..Default::default() };
        self.command(Command::CsUnpin, &parameters).map(drop)
    }

    /// Returns properties and totals of the router (`status/general`).
    ///
    /// # Errors
    /// Those of [`Client::strategies`].
    pub fn status(&mut self) -> Result<GeneralStatus, ClientError> {
        let content = self.dataset(Dataset::StatusGeneral, &FaceQueryFilter::default())?;
        GeneralStatus::decode(&content).map_err(ClientError::Malformed)
    }

    /// Returns, for each link, the router itself, its neighbors, and link addresses in quarantine
    /// (`neighbors/list`); namely's router only.
    ///
    /// # Errors
    /// Those of [`Client::strategies`].
    pub fn neighbors(&mut self) -> Result<Vec<NeighborStatus>, ClientError> {
        self.entries(Dataset::NeighborsList)
    }

    /// Returns properties and counters of the virtual plane of VIP (`vip/status`), if the router
    /// runs one; namely's router only.
    ///
    /// # Errors
    /// Those of [`Client::strategies`].
    pub fn vip_status(&mut self) -> Result<Option<VipStatus>, ClientError> {
        Ok(self.entries(Dataset::VipStatus)?.into_iter().next())
    }

    /// Returns the objects that are registered for VIP (`vip/objects`); namely's router only.
    ///
    /// # Errors
    /// Those of [`Client::strategies`].
    pub fn vip_objects(&mut self) -> Result<Vec<VipObject>, ClientError> {
        self.entries(Dataset::VipObjects)
    }

    /// Returns the neighbors that exchange VIPs with the router (`vip/neighbours`); namely's
    /// router only.
    ///
    /// # Errors
    /// Those of [`Client::strategies`].
    pub fn vip_neighbours(&mut self) -> Result<Vec<VipNeighbour>, ClientError> {
        self.entries(Dataset::VipNeighbours)
    }

    /// Returns the counters of drops by cause, of the router and of each face (`status/counters`);
    /// namely's router only.
    ///
    /// # Errors
    /// Those of [`Client::strategies`].
    pub fn counters(&mut self) -> Result<Vec<Counter>, ClientError> {
        self.entries(Dataset::StatusCounters)
    }
}
