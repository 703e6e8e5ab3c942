//! The machine of the measurements.

use std::fmt;
use std::fs;
use std::time::Duration;

/// The machine and its load.
#[derive(Clone, Debug)]
pub struct Machine {
    cpu: String,
    cores: usize,
    kernel: String,
    load: String,
}

impl Machine {
    /// Reads the present values of the kernel.
    pub fn read() -> Self {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let kernel = rustix::system::uname();
        Machine {
            cpu: cpu_model(&read("/proc/cpuinfo")).unwrap_or_else(|| "unknown processor".to_owned()),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            kernel: kernel.release().to_string_lossy().into_owned(),
            load: load_average(&read("/proc/loadavg")),
        }
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Machine { cpu, cores, kernel, load } = self;
        write!(f, "{cpu}, {cores} cores, Linux {kernel}, load average {load}")
    }
}

/// Returns the CPU time of this process.
pub fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Returns model and clock of the first processor in `/proc/cpuinfo`.
fn cpu_model(cpuinfo: &str) -> Option<String> {
    let value = |key: &str| {
        let line = cpuinfo.lines().find(|line| line.split(':').next().is_some_and(|k| k.trim() == key))?;
        line.split_once(':').map(|(_, value)| value.trim().to_owned())
    };
    let model = value("model name")?;
    let mhz = value("cpu MHz").and_then(|mhz| mhz.parse::<f64>().ok());
    Some(mhz.map_or(model.clone(), |mhz| format!("{model} at {:.1} GHz", mhz / 1000.0)))
}

/// Returns the three averages of `/proc/loadavg`: over 1, 5 and 15 minutes.
fn load_average(loadavg: &str) -> String {
    loadavg.split_ascii_whitespace().take(3).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_processor_has_model_and_clock() {
        let text = "processor\t: 0\nmodel\t\t: 17\nmodel name\t: Some CPU\ncpu MHz\t\t: 2596.128\n";
        assert_eq!(cpu_model(text).as_deref(), Some("Some CPU at 2.6 GHz"));
        assert_eq!(cpu_model("Processor: 0\n"), None);
    }

    #[test]
    fn the_load_is_three_averages() {
        assert_eq!(load_average("0.18 0.43 0.63 2/300 12345\n"), "0.18 0.43 0.63");
    }
}
