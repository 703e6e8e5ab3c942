//! The prototype by which NB-Cache finds the bottleneck (section II.B): content store, PIT and FIB
//! are three threads with a ring before each. A thread that finds the next ring full waits.
//!
//! A miss is answered by the index alone; a hit is read from the storage. So the content store's
//! rate depends on its hit ratio. Equation 7, with one rate for each stage, does not include this.

use crate::random::Random;

use super::error::{Error, rate, share};
use super::stations::{Scene, Stations, exponential};

/// The storage of the content store's Data. It determines the number of reads per second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Storage {
    /// A solid-state disk: 4,700 packets a second.
    Ssd,
    /// A rotating disk: 414 packets a second.
    Hdd,
}

impl Storage {
    /// Packets that it reads in a second.
    pub fn rate(self) -> f64 {
        match self {
            Storage::Ssd => 4_700.0,
            Storage::Hdd => 414.0,
        }
    }
}

/// Packets that a thread and its ring hold.
pub(crate) const RING_PACKETS: usize = 2_000;

/// Packets that PIT and FIB serve in a second.
const TABLE_RATE: f64 = 4_000.0;

/// Lookups in the index alone, per second: 6.39 us each (table II).
const INDEX_RATE: f64 = 1e6 / 6.39;

/// Content store, PIT and FIB, as stations 0, 1 and 2. A scene of [`Stations`].
#[derive(Clone, Copy, Debug)]
pub struct Pipeline {
    storage: Storage,
    cs_hit: f64,
}

impl Pipeline {
    /// The prototype with this storage. `cs_hit` is the share of Interests that the content store
    /// answers, and `load` the Interests that arrive in a second.
    ///
    /// # Errors
    /// A share or a load that makes no sense.
    pub fn stations(storage: Storage, cs_hit: f64, load: f64, seed: u64) -> Result<Stations<Self>, Error> {
        share("the share of content store hits", cs_hit)?;
        rate("the load", load)?;
        Ok(Stations::new(Pipeline { storage, cs_hit }, vec![RING_PACKETS; 3], load, seed))
    }

    /// Interests a second that the content store can take.
    pub fn cs_max(storage: Storage, cs_hit: f64) -> f64 {
        1.0 / (cs_hit / storage.rate() + (1.0 - cs_hit) / INDEX_RATE)
    }
}

impl Scene for Pipeline {
    fn arrive(&mut self, _lengths: &[usize]) -> Option<usize> {
        Some(0)
    }

    fn serve(&mut self, station: usize, random: &mut Random) -> (f64, Option<usize>) {
        match station {
            0 if random.happens((self.cs_hit * 1e6) as u32) => {
                (exponential(random, self.storage.rate()), None)
            }
            0 => (exponential(random, INDEX_RATE), Some(1)),
            1 => (exponential(random, TABLE_RATE), Some(2)),
            _ => (exponential(random, TABLE_RATE), None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The load of the paper's figure 2.
    const LOAD: f64 = 15_940.0;

    /// Packets in content store, PIT and FIB after a second.
    fn after_a_second(storage: Storage, cs_hit: f64) -> [usize; 3] {
        let mut stations = Pipeline::stations(storage, cs_hit, LOAD, 1).unwrap();
        stations.run_until(1.0);
        let lengths = stations.lengths();
        [lengths[0], lengths[1], lengths[2]]
    }

    /// `NB-03`.
    #[test]
    fn the_content_store_is_usually_the_bottleneck() {
        let [cs, pit, _] = after_a_second(Storage::Ssd, 0.25);
        assert!(
            pit >= RING_PACKETS - 50 && cs >= RING_PACKETS - 50,
            "PIT, and the store behind it: {cs} {pit}"
        );
        let mut early = Pipeline::stations(Storage::Ssd, 0.25, LOAD, 1).unwrap();
        early.run_until(0.2);
        assert!(early.lengths()[1] > 4 * early.lengths()[0], "the PIT is first: {:?}", early.lengths());
        let [cs, pit, _] = after_a_second(Storage::Ssd, 0.5);
        assert!(cs >= RING_PACKETS - 50 && (300..1200).contains(&pit), "{cs} {pit}");
        let [cs, pit, _] = after_a_second(Storage::Ssd, 0.75);
        assert!(cs >= RING_PACKETS - 50 && pit < 50, "{cs} {pit}");
        for cs_hit in [0.25, 0.5, 0.75] {
            let [cs, pit, fib] = after_a_second(Storage::Hdd, cs_hit);
            assert!(cs >= RING_PACKETS - 50 && pit < 50 && fib < 50, "{cs_hit}: {cs} {pit} {fib}");
        }
    }

    #[test]
    fn the_store_saturates_at_its_predicted_load() {
        for (storage, cs_hit) in [(Storage::Ssd, 0.75), (Storage::Hdd, 0.25)] {
            let most = Pipeline::cs_max(storage, cs_hit);
            let utilisation = |load| {
                let mut stations = Pipeline::stations(storage, cs_hit, load, 2).unwrap();
                stations.run_until_arrivals(200_000);
                stations.measured().utilisation[0]
            };
            let half = utilisation(most / 2.0);
            assert!((half - 0.5).abs() < 0.01, "{half}");
            assert!(utilisation(most * 1.5) > 0.99);
        }
    }

    #[test]
    fn an_invalid_pipeline_is_refused() {
        assert!(Pipeline::stations(Storage::Ssd, 1.5, LOAD, 1).is_err());
        assert!(Pipeline::stations(Storage::Ssd, 0.5, 0.0, 1).is_err());
    }
}
