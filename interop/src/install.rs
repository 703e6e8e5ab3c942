//! Third-party packages, installed once under the target directory.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// Environment variable that permits tests to install third-party programs. It is required even if
/// an earlier run installed them: a test must not depend on earlier runs.
const REGISTRIES_VARIABLE: &str = "NAMELY_REGISTRIES";

/// Returns the folder of this crate, with the peers' programs.
pub(crate) fn sources() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Returns the cargo target directory of this test's build.
pub(crate) fn target_dir() -> Result<PathBuf, String> {
    profile_dir()?
        .parent()
        .map(Path::to_owned)
        .ok_or_else(|| "the test is not in a target directory".to_owned())
}

/// Returns the folder of the built programs, such as `target/debug`.
pub(crate) fn profile_dir() -> Result<PathBuf, String> {
    let exe = std::env::current_exe().map_err(|e| format!("the test's own path is unknown: {e}"))?;
    let mut folders = exe.ancestors().skip(1);
    folders
        .find(|folder| folder.file_name().is_some_and(|name| name != "deps"))
        .map(Path::to_owned)
        .ok_or_else(|| format!("{} is not in a target directory", exe.display()))
}

/// Returns the Python of a virtual environment with python-ndn.
pub(crate) fn python() -> Result<PathBuf, String> {
    static PYTHON: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    PYTHON.get_or_init(|| environment("python", &sources().join("python/requirements.txt"))).clone()
}

/// Returns the Python of a virtual environment with namely's own package and the dependencies of
/// its tests. The package is built from this checkout as by `pip install ./bindings/python`, but
/// without optimization and without a registry.
///
/// # Panics
/// If the build fails: this is not a missing requirement of the machine.
pub fn python_package() -> Result<PathBuf, String> {
    static PYTHON: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    PYTHON
        .get_or_init(|| {
            let package = sources().join("../bindings/python");
            let python = environment("namely-python", &package.join("tests/requirements.txt"))?;
            let _lock = locked(&target_dir()?.join("interop"), "namely-python-package")?;
            let tools = python.parent().map(Path::to_owned).unwrap_or_default();
            let path = std::env::var_os("PATH").unwrap_or_default();
            let path = std::env::join_paths(std::iter::once(tools).chain(std::env::split_paths(&path)));
            let mut pip = Command::new(&python);
            pip.args(["-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--force-reinstall"]);
            pip.arg("--no-build-isolation").arg(package).env("MATURIN_PEP517_ARGS", "--profile dev");
            pip.env_remove(crate::world::UNSTABLE_VARIABLE);
            pip.env("CARGO_TARGET_DIR", target_dir()?).env("PATH", path.map_err(|e| e.to_string())?);
            if let Err(why) = run(&mut pip, "pip install ./bindings/python") {
                panic!("{why}");
            }
            Ok(python)
        })
        .clone()
}

/// Returns the Python of a virtual environment with XRootD's client and uproot.
pub fn xrootd_python() -> Result<PathBuf, String> {
    static PYTHON: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    PYTHON.get_or_init(|| environment("xrootd", &sources().join("xrootd/requirements.txt"))).clone()
}

/// Installs the packages of the file `requirements` into the virtual environment of `python`,
/// unless they are there already.
pub fn python_requirements(python: &Path, requirements: &Path) -> Result<(), String> {
    run(pip_install(python).arg(requirements), "pip install")
}

/// Returns the Python of the virtual environment `name`, with the packages of the file
/// `requirements`.
fn environment(name: &str, requirements: &Path) -> Result<PathBuf, String> {
    let folder = once(name, &[requirements], |folder| {
        let python3 = version_of("python3")?;
        run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(folder), "python3 -m venv")?;
        python_requirements(&folder.join("bin/python"), requirements)?;
        Ok(python3)
    })?;
    Ok(folder.join("bin/python"))
}

fn pip_install(python: &Path) -> Command {
    let mut pip = Command::new(python);
    pip.args(["-m", "pip", "install", "--quiet", "--retries", "3", "--timeout", "20", "-r"]);
    pip
}

/// Returns the folder with NDNts and the programs that use it.
pub(crate) fn node() -> Result<PathBuf, String> {
    static NODE: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    NODE.get_or_init(|| node_packages("node")).clone()
}

/// Returns the folder `target/interop/<name>` with the packages and programs of `interop/<name>`.
/// They share a folder because Node.js searches for modules beside a program.
fn node_packages(name: &str) -> Result<PathBuf, String> {
    let source = sources().join(name);
    let names = ["package.json", "package-lock.json"];
    let manifests = names.map(|name| source.join(name));
    let folder = once(name, &[&manifests[0], &manifests[1]], |folder| {
        let node = version_of("node")?;
        version_of("npm")?;
        for (name, path) in names.iter().zip(&manifests) {
            fs::copy(path, folder.join(name)).map_err(|e| format!("cannot copy {}: {e}", path.display()))?;
        }
        let flags = ["ci", "--no-audit", "--no-fund", "--ignore-scripts", "--fetch-retries", "1"];
        run(Command::new("npm").args(flags).current_dir(folder), "npm ci")?;
        Ok(node)
    })?;
    copy_programs(&source, &folder)?;
    Ok(folder)
}

/// Returns the program that emulates NDN-DPDK's management (`interop/ndndpdk`), for Node.js.
pub fn ndndpdk_management() -> Result<PathBuf, String> {
    static PROGRAM: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    PROGRAM.get_or_init(|| Ok(node_packages("ndndpdk")?.join("management.mjs"))).clone()
}

/// Returns a memif program (`interop/go`) on NDNgo, the Go library of NDN-DPDK. The library comes
/// from the Go module proxy, or from a checkout of NDN-DPDK named by NDN_DPDK_DIR.
pub fn ndngo_memif() -> Result<PathBuf, String> {
    static PROGRAM: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    PROGRAM
        .get_or_init(|| {
            let source = sources().join("go");
            let names = ["main.go", "go.mod", "go.sum"];
            let inputs = names.map(|name| source.join(name));
            let folder = once("go", &[&inputs[0], &inputs[1], &inputs[2]], |folder| {
                run(Command::new("go").arg("version"), "go")?;
                for (name, path) in names.iter().zip(&inputs) {
                    fs::copy(path, folder.join(name)).map_err(|e| format!("cannot copy {name}: {e}"))?;
                }
                let go = || {
                    let mut go = Command::new("go");
                    // The hash of the library is not in go.sum, because the library may come from a
                    // checkout.
                    go.current_dir(folder).env("GOFLAGS", "-mod=mod");
                    go
                };
                if let Some(checkout) = std::env::var_os("NDN_DPDK_DIR") {
                    let replace =
                        format!("github.com/usnistgov/ndn-dpdk={}", PathBuf::from(checkout).display());
                    run(go().args(["mod", "edit", "-replace", &replace]), "go mod edit")?;
                }
                run(go().args(["build", "-o", "memif", "."]), "go build")?;
                Ok("Go".to_owned())
            })?;
            Ok(folder.join("memif"))
        })
        .clone()
}

/// Returns the bridge between shared memory and UDP on libmemif (`interop/c`). The sources of
/// libmemif come from the checkout of VPP named by VPP_DIR.
pub fn libmemif_bridge() -> Result<PathBuf, String> {
    static PROGRAM: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    PROGRAM
        .get_or_init(|| {
            let checkout =
                std::env::var_os("VPP_DIR").ok_or("no libmemif: VPP_DIR names no checkout of VPP")?;
            let library = PathBuf::from(checkout).join("extras/libmemif/src");
            let files =
                [sources().join("c/memif_bridge.c"), library.join("main.c"), library.join("socket.c")];
            let folder = once("c", &[&files[0], &files[1], &files[2]], |folder| {
                let mut cc = Command::new("cc");
                // The definitions of libmemif's own build.
                cc.args(["-O1", "-w", "-DMEMIF_CACHELINE_SIZE=64", "-DHAVE_MEMFD_CREATE", "-I"])
                    .arg(&library);
                run(cc.args(&files).arg("-o").arg(folder.join("memif_bridge")), "cc")?;
                Ok("C".to_owned())
            })?;
            Ok(folder.join("memif_bridge"))
        })
        .clone()
}

/// Returns the folder `target/interop/<name>`. `install` makes it, unless it was made before from
/// the same `inputs`. A file lock lets one process install while others wait.
fn once(
    name: &str,
    inputs: &[&Path],
    install: impl FnOnce(&Path) -> Result<String, String>,
) -> Result<PathBuf, String> {
    let failed =
        |what: &str, path: &Path, e: std::io::Error| format!("cannot {what} {}: {e}", path.display());
    if std::env::var_os(REGISTRIES_VARIABLE).is_none() {
        return Err(format!(
            "tests install nothing from a package registry unless {REGISTRIES_VARIABLE}=1, as the gate's suites have it"
        ));
    }
    let base = target_dir()?.join("interop");
    let folder = base.join(name);
    fs::create_dir_all(&folder).map_err(|e| failed("make", &folder, e))?;
    let _lock = locked(&base, name)?;
    let stamp_path = base.join(format!("{name}.installed"));
    let mut stamp = format!("{}\n", sources().display());
    for input in inputs {
        stamp += &fs::read_to_string(input).map_err(|e| failed("read", input, e))?;
    }
    if fs::read_to_string(&stamp_path).is_ok_and(|installed| installed == stamp) {
        return Ok(folder);
    }
    let version = install(&folder)?;
    fs::write(&stamp_path, stamp).map_err(|e| failed("write", &stamp_path, e))?;
    println!("installed {name} packages for {version}");
    Ok(folder)
}

/// Holds the lock `name` in the folder `base` until it is dropped.
fn locked(base: &Path, name: &str) -> Result<File, String> {
    let path = base.join(format!("{name}.lock"));
    let lock = File::create(&path).map_err(|e| format!("cannot create {}: {e}", path.display()))?;
    lock.lock().map_err(|e| format!("cannot lock {}: {e}", path.display()))?;
    Ok(lock)
}

/// Copies programs that changed. A rename replaces the old file atomically, because another test
/// may be reading it.
fn copy_programs(source: &Path, folder: &Path) -> Result<(), String> {
    let failed = |e: std::io::Error| format!("cannot copy the programs in {}: {e}", source.display());
    for entry in fs::read_dir(source).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let Some(name) = path.file_name().filter(|_| path.extension().is_some_and(|ext| ext == "mjs")) else {
            continue;
        };
        let text = fs::read(&path).map_err(failed)?;
        if fs::read(folder.join(name)).is_ok_and(|old| old == text) {
            continue;
        }
        let new = tempfile::NamedTempFile::new_in(folder).map_err(failed)?;
        fs::write(new.path(), text).map_err(failed)?;
        new.persist(folder.join(name)).map_err(|e| failed(e.error))?;
    }
    Ok(())
}

/// Returns the version that a program reports; an error if it is not installed.
fn version_of(program: &str) -> Result<String, String> {
    let output = Command::new(program).arg("--version").stdin(Stdio::null()).output();
    match output {
        Ok(output) if output.status.success() => {
            Ok(format!("{program} {}", String::from_utf8_lossy(&output.stdout).trim()))
        }
        _ => Err(format!("{program} is not installed")),
    }
}

fn run(command: &mut Command, what: &str) -> Result<(), String> {
    let output =
        command.stdin(Stdio::null()).output().map_err(|e| format!("{what} could not be started: {e}"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let mut lines = said.lines().rev();
    // npm prints the path of its log last; the error is above it.
    let last = lines.find(|line| !line.trim().is_empty() && !line.contains("complete log of this run"));
    let last = last.unwrap_or("nothing was said");
    Err(format!("{what} failed ({}): {last}", output.status))
}
