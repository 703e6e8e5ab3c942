//! A disk that the kernel slows. The kernel's block-I/O controller limits the requests per second
//! of a router's processes. The router has no part in it.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use namely_bench::error::Error;

/// The folders of control groups of version 1 and of version 2.
const ROOTS: [&str; 2] = ["/sys/fs/cgroup/blkio", "/sys/fs/cgroup"];

/// A control group with a limit. It is removed when dropped.
#[derive(Debug)]
pub(super) struct Throttle(PathBuf);

impl Throttle {
    /// Creates a group that limits the reads per second, and the writes per second, of the device
    /// on which `folder` lies.
    pub(super) fn new(name: &str, folder: &Path, per_second: u32) -> Result<Self, Error> {
        let unable =
            |e| Error::environment("the kernel limits no disk here (blkio, or io of version 2, and root)", e);
        let device = device(folder).map_err(unable)?;
        let mut refused = std::io::Error::from(std::io::ErrorKind::Unsupported);
        for root in ROOTS {
            let group = Path::new(root).join(format!("namely-{}-{name}", std::process::id()));
            match fs::create_dir(&group) {
                Ok(()) => {}
                Err(e) => {
                    refused = e;
                    continue;
                }
            }
            let throttle = Throttle(group);
            match throttle.limit(&device, per_second) {
                Ok(()) => return Ok(throttle),
                Err(e) => refused = e,
            }
        }
        Err(unable(refused))
    }

    fn limit(&self, device: &str, per_second: u32) -> std::io::Result<()> {
        // The kernel provides the files of a control group. If one is missing, it cannot be
        // created.
        let write = |file: &str, text: String| {
            let path = self.0.join(file);
            fs::OpenOptions::new().write(true).open(&path)?;
            fs::write(path, text)
        };
        if self.0.join("io.max").exists() {
            return write("io.max", format!("{device} riops={per_second} wiops={per_second}"));
        }
        write("blkio.throttle.read_iops_device", format!("{device} {per_second}"))?;
        write("blkio.throttle.write_iops_device", format!("{device} {per_second}"))
    }

    /// Puts the process `pid` under the limit.
    pub(super) fn hold(&self, pid: u32) -> Result<(), Error> {
        let held = fs::write(self.0.join("cgroup.procs"), pid.to_string());
        held.map_err(|e| Error::environment("cannot limit a router's disk", e))
    }
}

impl Drop for Throttle {
    fn drop(&mut self) {
        // The processes in it have been killed, and may take a moment to exit.
        for _ in 0..100 {
            if fs::remove_dir(&self.0).is_ok() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    }
}

/// The device numbers of the disk on which a folder lies, not of its partition.
fn device(folder: &Path) -> std::io::Result<String> {
    let device = fs::metadata(folder)?.dev();
    let numbers = format!("{}:{}", rustix::fs::major(device), rustix::fs::minor(device));
    let device_path = fs::canonicalize(format!("/sys/dev/block/{numbers}"))?;
    match device_path.parent().filter(|_| device_path.join("partition").exists()) {
        Some(disk) => Ok(fs::read_to_string(disk.join("dev"))?.trim().to_owned()),
        None => Ok(numbers),
    }
}
