//! The content store's disk, for management and metrics.

use std::sync::{Arc, OnceLock};

use namely_messages::Counter;
use namely_mgmt::Control;

use super::{Service, ServiceCounters, StartContext};
use crate::config::Config;
use crate::disk::{Disk, counters};
use crate::exit::Failure;

/// The disk as a service. The router opens it before its data plane and closes it after.
#[derive(Default)]
pub(super) struct StoreDisk(OnceLock<Arc<Disk>>);

impl Service for StoreDisk {
    fn prepare(&self, start: &StartContext<'_>) -> Result<(), Failure> {
        start.disk.into_iter().for_each(|disk| drop(self.0.set(disk.clone())));
        Ok(())
    }

    fn apply(&self, config: &Config) {
        self.0.get().into_iter().for_each(|disk| disk.apply(&config.cs.disk));
    }

    fn datasets<'a>(&'a self, control: &mut Control<'a>) {
        control.disk = self.0.get().map(|disk| &**disk as &dyn namely_mgmt::CsDisk);
    }

    fn measure(&self, measures: &mut ServiceCounters) {
        let Some(disk) = self.0.get() else { return };
        // Times are histograms in metrics.
        let counted = counters(&disk.tier().status()).into_iter();
        let named = counted.map(|of| Counter::new(format!("cs_disk.{}", of.label), of.value));
        measures.counters.extend(named);
        measures.path_times.extend(disk.shared().times().histograms());
    }
}
