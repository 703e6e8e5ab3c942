//! Puts libnamely, `namely.h`, `namely.pc` and `namely-static.pc` where C compilers and pkg-config
//! look for them.
//!
//! Copies the files that cargo built beside it; builds nothing, and changes nothing outside of the
//! prefix.
#![forbid(unsafe_code)]

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const HELP: &str = "\
Installs libnamely, namely.h, namely.pc and namely-static.pc, which links libnamely.a.

Usage: namely-c-install [--prefix DIR] [--destdir DIR]

  --prefix DIR   where they are used from [/usr/local]
  --destdir DIR  where they are written to, in front of the prefix, to make a package

Example: cargo run --release -p namely-c --bin namely-c-install -- --prefix ~/.local
         cc app.c $(PKG_CONFIG_PATH=~/.local/lib/pkgconfig pkg-config --cflags --libs namely)
";

/// The file of the library, and the names under which linkers and programs look for it. build.rs
/// gives it the second one.
const LIBRARY: &str = concat!("libnamely.so.", env!("CARGO_PKG_VERSION"));
const LINKS: [&str; 2] = ["libnamely.so.0", "libnamely.so"];

/// The system libraries that a static library needs.
const PRIVATE_LIBRARIES: &str = "-lgcc_s -lutil -lrt -lpthread -lm -ldl -lc";

fn main() -> ExitCode {
    let (mut prefix, mut destdir) = (PathBuf::from("/usr/local"), PathBuf::new());
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let target = match argument.as_str() {
            "--prefix" => &mut prefix,
            "--destdir" => &mut destdir,
            "--help" | "-h" => {
                print!("{HELP}");
                return ExitCode::SUCCESS;
            }
            other => return usage(&format!("unknown argument '{other}'")),
        };
        match arguments.next() {
            Some(value) => *target = value.into(),
            None => return usage(&format!("{argument} takes a directory")),
        }
    }
    if !prefix.is_absolute() {
        prefix = std::env::current_dir().unwrap_or_default().join(prefix);
    }
    match install(&prefix, &destdir) {
        Ok(written) => {
            written.iter().for_each(|path| println!("{}", path.display()));
            ExitCode::SUCCESS
        }
        Err(why) => {
            eprintln!("error: {why}");
            ExitCode::FAILURE
        }
    }
}

fn usage(why: &str) -> ExitCode {
    eprintln!("error: {why}\n\n{HELP}");
    ExitCode::from(2)
}

fn install(prefix: &Path, destdir: &Path) -> Result<Vec<PathBuf>, String> {
    let below = prefix.strip_prefix("/").unwrap_or(prefix);
    let root = if destdir.as_os_str().is_empty() { prefix.to_owned() } else { destdir.join(below) };
    let (lib, include, pkgconfig) = (root.join("lib"), root.join("include"), root.join("lib/pkgconfig"));
    for folder in [&lib, &include, &pkgconfig] {
        fs::create_dir_all(folder).map_err(|e| said(folder, &e))?;
    }
    let shared = lib.join(LIBRARY);
    copy(&built("libnamely_c.so")?, &shared)?;
    for link in LINKS {
        let path = lib.join(link);
        remove(&path).and_then(|()| symlink(LIBRARY, &path)).map_err(|e| said(&path, &e))?;
    }
    let archive = lib.join("libnamely.a");
    copy(&built("libnamely_c.a")?, &archive)?;
    let header = include.join("namely.h");
    write(&header, include_str!("../../namely.h"))?;
    let (package, linked) = (pkgconfig.join("namely.pc"), pkgconfig.join("namely-static.pc"));
    write(&package, &pkg_config(prefix, "namely", "-L${libdir} -lnamely"))?;
    // A linker that finds both libraries takes the shared one, so the static one is named by its
    // path.
    let libraries = format!("${{libdir}}/libnamely.a {PRIVATE_LIBRARIES}");
    write(&linked, &pkg_config(prefix, "namely-static", &libraries))?;
    Ok(vec![shared, archive, header, package, linked])
}

fn pkg_config(prefix: &Path, name: &str, libraries: &str) -> String {
    let version = env!("CARGO_PKG_VERSION");
    format!(
        "prefix={}\nlibdir=${{prefix}}/lib\nincludedir=${{prefix}}/include\n\nName: {name}\n\
         Description: Sockets on which a name replaces an address (Named Data Networking)\nVersion: {version}\n\
         Libs: {libraries}\nCflags: -I${{includedir}}\n",
        prefix.display()
    )
}

/// A file that cargo made beside this program, or in `deps` beside it.
fn built(name: &str) -> Result<PathBuf, String> {
    let program = std::env::current_exe().map_err(|e| e.to_string())?;
    let folder = program.parent().unwrap_or(Path::new("."));
    let newest = [folder.join(name), folder.join("deps").join(name)]
        .into_iter()
        .filter_map(|path| Some((fs::metadata(&path).ok()?.modified().ok()?, path)))
        .max();
    newest.map(|(_, path)| path).ok_or_else(|| {
        format!(
            "{name} is not beside this program in {}: start it by `cargo run -p namely-c`",
            folder.display()
        )
    })
}

/// Copies to a new file, so that a program that has the old one mapped keeps it.
fn copy(from: &Path, to: &Path) -> Result<(), String> {
    remove(to).and_then(|()| fs::copy(from, to).map(drop)).map_err(|e| said(to, &e))
}

fn write(to: &Path, text: &str) -> Result<(), String> {
    remove(to).and_then(|()| fs::write(to, text)).map_err(|e| said(to, &e))
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
        _ => Ok(()),
    }
}

fn said(path: &Path, error: &io::Error) -> String {
    format!("{}: {error}", path.display())
}
