//! The library as C programs meet it: installed, found by pkg-config, compiled with all warnings as
//! errors, run against a router, and under valgrind without an error or a leak.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use namely_interop::{Link, Router, World, eventually};
use namely_testkit::{Need, or_skip};

/// The output of a command, which has to succeed.
#[track_caller]
fn output(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}\n{said}", output.status);
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn has(tool: &str) -> Result<(), String> {
    Command::new(tool).arg("--version").output().map(drop).map_err(|e| format!("{tool} cannot be run: {e}"))
}

/// Flag of the compiler that links `libnamely.a`.
const STATIC: &str = "-static-namely";

/// Runs a program and fails on any error with memory.
const CHECKED: [&str; 5] =
    ["valgrind", "-q", "--error-exitcode=99", "--leak-check=full", "--errors-for-leak-kinds=definite"];

/// The folder in which the library is installed for one test.
struct Installed {
    dir: tempfile::TempDir,
}

impl Installed {
    fn new() -> Option<Self> {
        or_skip(Need::Cc, ["cc", "pkg-config", "nm"].into_iter().try_for_each(has))?;
        let dir = tempfile::tempdir().expect("a temporary directory");
        output(Command::new(env!("CARGO_BIN_EXE_namely-c-install")).arg("--prefix").arg(dir.path()));
        Some(Installed { dir })
    }

    fn has_sanitizer(&self) -> Result<(), String> {
        let (source, program) = (self.dir.path().join("none.c"), self.dir.path().join("none"));
        std::fs::write(&source, "int main(void) { return 0; }\n").map_err(|e| e.to_string())?;
        let mut compiler = Command::new("cc");
        let made = compiler.arg("-fsanitize=address").arg("-o").arg(&program).arg(&source).output();
        let works = made.is_ok_and(|made| made.status.success())
            && Command::new(&program).output().is_ok_and(|run| run.status.success());
        if works { Ok(()) } else { Err("the compiler has no AddressSanitizer".into()) }
    }

    fn lib(&self) -> PathBuf {
        self.dir.path().join("lib")
    }

    /// Compiles a source of this crate; `more` goes to the compiler.
    fn compiled(&self, compiler: &str, source: &str, more: &[&str]) -> PathBuf {
        let program =
            self.dir.path().join(format!("{}-{compiler}{}", source.replace('/', "-"), more.join("")));
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(source);
        let is_static = more.contains(&STATIC);
        let more: Vec<_> = more.iter().filter(|word| **word != STATIC).collect();
        let flags = output(
            Command::new("pkg-config")
                .args(["--cflags", "--libs", if is_static { "namely-static" } else { "namely" }])
                .env("PKG_CONFIG_PATH", self.lib().join("pkgconfig")),
        );
        let mut command = Command::new(compiler);
        command.args(more).args(["-Wall", "-Wextra", "-Werror", "-g", "-o"]).arg(&program).arg(source);
        command.args(flags.split_whitespace()).arg(format!("-Wl,-rpath,{}", self.lib().display()));
        output(&mut command);
        program
    }
}

#[test]
fn only_functions_of_the_header_are_exported() {
    let Some(installed) = Installed::new() else { return };
    let library = installed.lib().join("libnamely.so");
    let listed = output(Command::new("nm").args(["-D", "--defined-only", "--format=posix"]).arg(&library));
    let exported: Vec<&str> = listed.lines().filter_map(|line| line.split(' ').next()).collect();
    let header = std::fs::read_to_string(installed.dir.path().join("include/namely.h")).unwrap();
    for name in &exported {
        assert!(name.starts_with("icn_") && header.contains(&format!("{name}(")), "{name} is exported");
    }
    let declared = header.lines().filter(|line| line.starts_with(['i', 's', 'c']) && line.contains(" icn_"));
    for line in declared.filter(|line| line.contains('(') || line.contains("*icn_")) {
        let name = line.split(['(', ' ', '*']).find(|word| word.starts_with("icn_")).unwrap();
        assert!(exported.contains(&name), "{name} is declared and not there");
    }
    let dynamic = output(Command::new("objdump").arg("-p").arg(&library));
    assert!(dynamic.contains("libnamely.so.0"), "its soname");
}

#[test]
fn c_and_cpp_programs_fetch_without_leaks() {
    let Some(installed) = Installed::new() else { return };
    let world = World::new();
    let router = Router::namelyd(&world, &[]);
    world.namely_key("/lab", "ed25519");
    let publish = installed.compiled("cc", "../../examples/c/publish.c", &["-std=c11", "-D_GNU_SOURCE"]);
    let input = world.payload("input", 50_000, 1);
    let run = |program: &Path, before: &[&str]| {
        let words = before.iter().map(Path::new).chain([program]).collect::<Vec<_>>();
        let mut command = world.command(words[0]);
        command.args(&words[1..]).env("NAMELY_ROUTER", router.uri(Link::Unix));
        command
    };
    let mut publisher = run(&publish, &[])
        // It outlives the fetches: valgrind on a busy machine is slow.
        .args(["/lab/run7", "3600"])
        .stdin(std::fs::File::open(&input).unwrap())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let mut fetchers =
        vec![(installed.compiled("cc", "../../examples/c/fetch.c", &["-std=c11", "-D_GNU_SOURCE"]), &[][..])];
    if or_skip(Need::Cxx, has("c++")).is_some() {
        fetchers.push((installed.compiled("c++", "../../examples/c/fetch.c", &["-x", "c++"]), &[][..]));
    }
    if or_skip(Need::Valgrind, has("valgrind")).is_some() {
        fetchers.push((fetchers[0].0.clone(), &CHECKED[..]));
    }
    let expected = std::fs::read(&input).unwrap();
    eventually("it is published", || {
        run(&fetchers[0].0, &[]).arg("/lab/run7").output().unwrap().stdout == expected
    });
    for (program, before) in &fetchers {
        let fetched = run(program, before).arg("/lab/run7").output().unwrap();
        let said = String::from_utf8_lossy(&fetched.stderr);
        assert!(
            fetched.status.success() && fetched.stdout == expected,
            "{before:?}: {}\n{said}",
            fetched.status
        );
    }
    let nothing = run(&fetchers[0].0, &[]).arg("/nowhere/at/all").output().unwrap();
    let said = String::from_utf8_lossy(&nothing.stderr);
    assert!(!nothing.status.success() && said.contains("no route"), "{said}");
    publisher.kill().unwrap();
    publisher.wait().unwrap();
}

#[test]
fn a_c_service_replies_to_requests() {
    let Some(installed) = Installed::new() else { return };
    let world = World::new();
    let router = Router::namelyd(&world, &[]);
    world.namely_key("/lab", "ed25519");
    let [mut service, mut request] =
        ["service", "request"].map(|name| format!("../../examples/c/{name}.c")).map(|source| {
            let program = installed.compiled("cc", &source, &["-std=c11", "-D_GNU_SOURCE"]);
            let mut command = world.command(program);
            command.env("NAMELY_ROUTER", router.uri(Link::Unix)).stderr(Stdio::null());
            command
        });
    let mut serving = service.arg("/lab/shout").spawn().unwrap();
    request.args(["/lab/shout", "hello"]);
    eventually("the service replies", || request.output().unwrap().stdout == b"HELLO\n");
    serving.kill().unwrap();
    serving.wait().unwrap();
}

#[test]
fn cmake_finds_the_installed_library() {
    let Some(installed) = Installed::new() else { return };
    if or_skip(Need::Cxx, has("cmake")).is_none() {
        return;
    }
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/c");
    let built = installed.dir.path().join("built");
    let mut configured = Command::new("cmake");
    configured.arg("-S").arg(source).arg("-B").arg(&built);
    output(configured.env("PKG_CONFIG_PATH", installed.lib().join("pkgconfig")));
    output(Command::new("cmake").arg("--build").arg(&built));
    let run = Command::new(built.join("fetch")).output().unwrap();
    assert_eq!(run.status.code(), Some(2), "{run:?}");
}

#[test]
fn a_c_session_has_no_memory_errors() {
    let Some(installed) = Installed::new() else { return };
    let world = World::new();
    let router = Router::namelyd(&world, &[]);
    world.namely_key("/lab", "ed25519");
    let dynamic = installed.compiled("cc", "tests/session.c", &["-std=c11", "-D_GNU_SOURCE"]);
    let linked = installed.compiled("cc", "tests/session.c", &["-std=c11", "-D_GNU_SOURCE", STATIC]);
    let needed = output(Command::new("objdump").arg("-p").arg(&linked));
    assert!(!needed.contains("libnamely"), "it is linked statically:\n{needed}");
    let mut runs = vec![(dynamic.clone(), &[][..]), (linked, &[][..])];
    if or_skip(Need::Valgrind, has("valgrind")).is_some() {
        runs.push((dynamic, &CHECKED[..]));
    }
    // If the compiler has the sanitizer: it checks the stack and static memory, which valgrind does
    // not.
    let sanitized = ["-std=c11", "-D_GNU_SOURCE", "-fsanitize=address", STATIC];
    if or_skip(Need::Cc, installed.has_sanitizer()).is_some() {
        runs.push((installed.compiled("cc", "tests/session.c", &sanitized), &[][..]));
    }
    for (program, before) in runs {
        let words = before.iter().map(Path::new).chain([program.as_path()]).collect::<Vec<_>>();
        let mut command = world.command(words[0]);
        // valgrind searches for leaks. The sanitizer's own search stops threads, which not every
        // machine permits.
        command.args(&words[1..]).env("ASAN_OPTIONS", "detect_leaks=0");
        output(command.env("NAMELY_ROUTER", router.uri(Link::Unix)));
    }
}

#[test]
fn c_programs_get_errors_beyond_the_limits() {
    let Some(installed) = Installed::new() else { return };
    let world = World::new();
    let router = Router::namelyd(&world, &[]);
    let limits = installed.compiled("cc", "tests/limits.c", &["-std=c11", "-D_GNU_SOURCE"]);
    output(world.command(&limits).env("NAMELY_ROUTER", router.uri(Link::Unix)));
}

#[test]
fn the_documents_show_the_tested_program() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let example = std::fs::read_to_string(root.join("examples/c/fetch.c")).unwrap();
    let code = &example[example.find("#include").unwrap()..];
    let page = std::fs::read_to_string(root.join("docs/c.md")).unwrap();
    assert!(page.contains(&format!("```c\n{code}```")), "docs/c.md shows another fetch.c");
}

#[test]
fn the_documented_programs_print_their_usage() {
    let Some(installed) = Installed::new() else { return };
    for source in ["fetch", "publish", "request", "service"].map(|name| format!("../../examples/c/{name}.c"))
    {
        let program = installed.compiled("cc", &source, &["-std=c11", "-D_GNU_SOURCE"]);
        let run = Command::new(&program).output().unwrap();
        let said = String::from_utf8_lossy(&run.stderr);
        assert_eq!(run.status.code(), Some(2), "{source}: {said}");
        assert!(
            said.starts_with("usage: ") && (said.contains(" NAME") || said.contains(" PREFIX")),
            "{source}: {said}"
        );
    }
}
