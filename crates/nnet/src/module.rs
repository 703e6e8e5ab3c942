//! The module: whether it is loaded, loading and unloading it.

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use crate::uapi::AF_NNET_DEFAULT;

/// Its name.
const NAME: &str = "nnet";

const PARAMETERS: &str = "/sys/module/nnet/parameters";

/// Returns true if it is loaded.
pub fn is_loaded() -> bool {
    Path::new("/sys/module/nnet").exists() || Path::new(crate::proc::FOLDER).exists()
}

/// The number of the family of its sockets.
pub fn family() -> u16 {
    let told = std::fs::read_to_string(format!("{PARAMETERS}/family")).ok();
    told.and_then(|text| text.trim().parse().ok()).unwrap_or(AF_NNET_DEFAULT)
}

/// The release of the running kernel, as in `uname -r`.
pub fn release() -> String {
    rustix::system::uname().release().to_string_lossy().into_owned()
}

/// Paths where the module may be: those of the running kernel, then the output of kernel/build
/// below the working directory.
pub fn places() -> Vec<PathBuf> {
    let release = release();
    let file = format!("{NAME}.ko");
    let installed = ["updates", "extra", "kernel/net/nnet"]
        .map(|folder| Path::new("/lib/modules").join(&release).join(folder).join(&file));
    installed.into_iter().chain([Path::new("target/kernel").join(&release).join(&file)]).collect()
}

/// Loads the module in `file` with `parameters`, such as `family=18`, with blanks between them.
///
/// # Errors
/// Caller: no CAP_SYS_MODULE (`PERM`), the module is loaded already (`EXIST`), or a parameter is
/// invalid (`INVAL`). Environment: the module is not for this kernel (`NOEXEC`), or the file cannot
/// be read.
pub fn load(file: &Path, parameters: &str) -> io::Result<()> {
    let parameters = CString::new(parameters).map_err(|_| Errno::INVAL)?;
    Ok(rustix::system::finit_module(File::open(file)?, &parameters, 0)?)
}

/// Unloads the module.
///
/// # Errors
/// Caller: no CAP_SYS_MODULE (`PERM`). Environment: a program has a socket open, a namespace is
/// being removed (`AGAIN`, `BUSY`), or the module is not loaded (`NOENT`).
pub fn unload() -> Result<(), Errno> {
    rustix::system::delete_module(c"nnet", libc::O_NONBLOCK)
}
