"""Checks namely.spec without rpm: its version, its packages, and that each staged file belongs to exactly one of them."""

import fnmatch
import os
import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SPEC = (ROOT / "packaging/rpm/namely.spec").read_text()
SECTIONS = {"package", "description", "prep", "build", "install", "pre", "post", "preun", "postun", "files", "changelog"}
MACROS = {"_bindir": "/usr/bin", "_libdir": "/usr/lib64", "_includedir": "/usr/include", "_datadir": "/usr/share",
          "_mandir": "/usr/share/man", "_docdir": "/usr/share/doc", "_prefix": "/usr", "_unitdir": "/usr/lib/systemd/system",
          "_sysusersdir": "/usr/lib/sysusers.d"}
# A program that stands for `namely`: it writes what packaging/stage asks it for.
PROGRAM = """#!/bin/sh
if [ "$1" = man ]; then
    mkdir -p "$2/man1" "$2/man5" "$2/man8"
    for page in man1/namely.1 man1/namely-get.1 man5/namely.toml.5 man8/namelyd.8; do echo page >"$2/$page"; done
else
    echo "completions $*"
fi
"""


def sections():
    """The sections of the spec: (word, package) and its lines. Those of one package are joined."""
    found, at = {("preamble", "namely"): []}, ("preamble", "namely")
    for line in SPEC.splitlines():
        word = re.match(r"%(\w+)\b\s*(.*)", line)
        if word and word[1] in SECTIONS:
            words = word[2].split()
            rest = [w for i, w in enumerate(words) if w[0] != "-" and (i == 0 or words[i - 1] not in ("-f", "-p"))]
            is_whole = "-n" in words
            package = rest[0] if is_whole else f"namely-{rest[0]}" if rest else "namely"
            at = (word[1], package)
            found[at] = []
        else:
            found[at].append(line)
    return found


def expanded(text):
    """A path with the macros of a distribution of 64 bits."""
    return re.sub(r"%\{(\w+)\}", lambda macro: MACROS[macro[1]], text)


def patterns(lines, of_folders=False):
    """The paths of a section of files: those of files, or of folders that the package owns."""
    for line in lines:
        if ("%dir" in line) != of_folders:
            continue
        words = re.sub(r"%(dir|config\(.*?\)|attr\(.*?\))", "", line).split()
        if words and words[0][0] != "#" and words[0] not in ("%license", "%if", "%endif"):
            yield expanded(words[0])


def staged(tree):
    """The files that the sections `build` and `install` make, but the compiled ones, whose names are known."""
    programs = tree / "programs"
    programs.mkdir()
    for name in ("namely", "namelyd"):
        (programs / name).write_text(PROGRAM)
        (programs / name).chmod(0o755)
    done = subprocess.run([ROOT / "packaging/stage", programs, tree / "root"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    own = [f"/{path.relative_to(tree / 'root')}" for path in (tree / "root").rglob("*") if path.is_file()]
    files = [file for file in own if not file.startswith("/etc/ufw/") and not file.startswith("/usr/lib/systemd/user/")]
    files += ["/usr/lib64/" + name for name in ("libnamely.so", "libnamely.so.0", "libnamely.so.0.1.0", "libnamely.a",
              "pkgconfig/namely.pc", "pkgconfig/namely-static.pc", "libXrdOssNamely-5.so")]
    files += ["/usr/include/namely.h", "/etc/xrootd/xrootd-namely.cfg"]
    files += [f"/usr/share/doc/namely/{name}" for name in ("README.md", "CHANGELOG.md")]
    return files


def main():
    found = sections()
    packages = {package for word, package in found if word == "files"}
    assert packages == {"namely", "namely-router", "libnamely", "libnamely-devel", "xrootd-namely"}, packages
    for package in packages:
        assert found.get(("description", package)), f"{package} has no description"
        head = found[("preamble" if package == "namely" else "package", package)]
        assert any(line.startswith("Summary:") for line in head), f"{package} has no summary"
        assert any("%license LICENSE-MIT" in line for line in found[("files", package)]), f"{package} has no licence"
    assert len(re.findall(r"^%if\b", SPEC, re.MULTILINE)) == len(re.findall(r"^%endif\b", SPEC, re.MULTILINE))
    cargo = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]
    assert re.search(r"^Version: +(\S+)", SPEC, re.MULTILINE)[1] == cargo["version"]
    assert f"Rust {cargo['rust-version']}" in SPEC, "the needed version of Rust"

    claims = {package: list(patterns(found["files", package])) for package in packages}
    # The list of the section `install`.
    claims["namely"].append("/usr/bin/namely")
    with tempfile.TemporaryDirectory() as tree:
        files = staged(Path(tree))
    for package in packages:
        files += [f"/usr/share/doc/{package}/{name}" for name in ("sbom.cdx.json", "licences.txt.gz")]
    used = set()
    for file in files:
        owners = [(package, path) for package, paths in claims.items() for path in paths if fnmatch.fnmatchcase(file, path)]
        assert len(owners) == 1, f"{file} belongs to {[package for package, _ in owners]}"
        used.update(owners)
    missing = {(p, path) for p, paths in claims.items() for path in paths} - used
    assert not missing, f"no file is there for {missing}"
    # Other packages have all folders but those with namely's name. One without an owner stays when
    # its files are removed.
    folders = {folder for package in packages for folder in patterns(found["files", package], of_folders=True) if "namely" in folder}
    needed = {str(folder) for file in files for folder in Path(file).parents if "namely" in str(folder)}
    assert folders == needed | {"/etc/namely/xrootd"}, folders ^ needed
    assert os.access(ROOT / "packaging/rpm/build", os.X_OK)
    print(f"{len(files)} files in {len(packages)} packages")


if __name__ == "__main__":
    sys.exit(main())
