"""The tests of packaging/images/test: the images, in namespaces joined by VXLAN, and as pods of packaging/kubernetes.

Each test is a function; its name states the property. docs/status.md names the tests. They run in order and share images
and pods, because making these takes most of the time. Nothing is left behind: storage, volumes, namespaces and containers
belong to one run.
"""

import filecmp
import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path

import yaml

import manifests

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "../shared/data/hep"
USER = 10001
PASSPHRASE = "of this test alone"
OCTETS_MAX = 30_000_000
START_MS_MAX = 300
# The address of each pod on the VXLAN. A service has the address of the pod that it selects.
ADDRESSES = {"router": "10.77.0.1", "cache": "10.77.0.2", "files": "10.77.0.3", "gateway": "10.77.0.4",
             "xrootd": "10.77.0.5", "fetch": "10.77.0.6", "desk": "10.77.0.7"}
# Podman without systemd. runc accepts limits only up to those of this shell.
CONTAINERS_CONF = """
[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
runtime = "runc"
static_dir = "{work}/static"
tmp_dir = "{work}/tmp"
volume_path = "{work}/volumes"
[containers]
log_driver = "k8s-file"
default_ulimits = ["nofile=8192:8192", "nproc=8192:8192"]
"""


class Skipped(Exception):
    """The reason why one test, or all, cannot run here."""


def run(*words, check=True, timeout=120, **more):
    """Runs a program to its end, and returns its output as text. An error includes the output."""
    done = subprocess.run([str(w) for w in words], capture_output=True, text=True, timeout=timeout, check=False, **more)
    assert not check or done.returncode == 0, f"{' '.join(map(str, words))}: {done.returncode}\n{done.stdout}{done.stderr}"
    return done


def until(what, condition, seconds=30):
    """Waits until the condition returns a true value, and returns that value."""
    end = time.monotonic() + seconds
    while True:
        got = condition()
        if got:
            return got
        assert time.monotonic() < end, f"not within {seconds} s: {what}"
        time.sleep(0.05)


class World:
    """Images, namespaces and containers of one run."""

    def __init__(self, work):
        self.work = work
        self.volumes = work / "volumes-of-pods"
        self.hosts = work / "hosts"
        self.home = work / "home"
        self.spaces, self.probes = [], {}
        self.version = next(
            line.split('"')[1] for line in (ROOT / "Cargo.toml").read_text().splitlines() if line.startswith("version")
        )
        self.image = f"localhost/namely:{self.version}"
        self.xrootd = f"localhost/namely-xrootd:{self.version}"
        (work / "containers.conf").write_text(CONTAINERS_CONF.format(work=work))
        driver = f'[storage]\ndriver = "overlay"\ngraphroot = "{work}/storage"\nrunroot = "{work}/run"\n'
        (work / "storage.conf").write_text(driver)
        self.environment = os.environ | {
            "CONTAINERS_CONF": str(work / "containers.conf"),
            "CONTAINERS_STORAGE_CONF": str(work / "storage.conf"),
        }
        lines = [f"{address} {name}" for name, address in ADDRESSES.items()]
        self.hosts.write_text("127.0.0.1 localhost\n" + "\n".join(lines) + "\n")

    def podman(self, *words, space=None, **more):
        """Runs podman. If `space` is set, that namespace is the host network of containers."""
        enter = ["nsenter", f"--net=/run/netns/{self.space(space)}"] if space else []
        return run(*enter, "podman", *words, env=self.environment, **more)

    def once(self, *words, space=None, seconds=60):
        """Runs a container to its end. Returns its status and its output. `podman run` takes longer."""
        container = self.podman("create", *words, space=space).stdout.strip()
        try:
            started = self.podman("start", container, space=space, check=False)
            if started.returncode != 0:
                return started.returncode, started.stderr
            return self.ended(container, seconds), self.logs(container)
        finally:
            self.podman("rm", "--force", "--time", "1", container)

    def ended(self, container, seconds=60):
        """Waits for a container's end, and returns its status."""
        until(f"the end of {container}", lambda: self.state(container)["Status"] in ("exited", "stopped"), seconds)
        return self.state(container)["ExitCode"]

    def space(self, name):
        """The namespace's name on this machine."""
        return f"namely-{os.getpid()}-{name}"

    def inside(self, name, *words, **more):
        """Runs a program of this machine in a namespace."""
        return run("nsenter", f"--net=/run/netns/{self.space(name)}", *words, **more)

    def namely(self, *words, **more):
        """Runs the image's tool as a program of this machine, with the keys of the cluster's operator."""
        secrets = {"NAMELY_HOME": str(self.home), "NAMELY_PASSPHRASE": PASSPHRASE}
        return run(self.work / "namely", *words, env=os.environ | secrets, **more)

    def join_by_vxlan(self):
        """Creates a namespace for each address. All are on one VXLAN, over links of their own."""
        def ip(space, *words):
            run("ip", "-n", self.space(space), *words)

        def add(name):
            run("ip", "netns", "add", self.space(name))
            self.spaces.append(name)
            ip(name, "link", "set", "lo", "up")

        add("wire")
        ip("wire", "link", "add", "wire", "type", "bridge", "mcast_snooping", "0")
        ip("wire", "link", "set", "wire", "up")
        for number, (name, address) in enumerate(ADDRESSES.items(), 1):
            add(name)
            peer = f"port{number}"
            ip("wire", "link", "add", peer, "type", "veth", "peer", "name", "eth0", "netns", self.space(name))
            ip("wire", "link", "set", peer, "master", "wire", "up")
            ip(name, "address", "add", f"192.0.2.{number}/24", "dev", "eth0")
            ip(name, "link", "set", "eth0", "up")
            ip(name, "link", "add", "namely0", "type", "vxlan", "id", "6363", "group", "239.63.63.1", "dev", "eth0", "dstport", "4789")
            ip(name, "address", "add", f"{address}/24", "dev", "namely0")
            ip(name, "link", "set", "namely0", "up")

    def play(self, objects, kind, name, change=None):
        """Starts a workload's pod from the manifests, in the namespace of its name."""
        secrets = {"files-key": {"lab.safebag": (self.work / "lab.safebag").read_bytes(), "passphrase": PASSPHRASE.encode()}}
        played, probes = manifests.as_podman_plays(objects, kind, name, self.volumes, self.hosts, secrets)
        self.probes[name] = probes
        if change:
            change(played)
        file = self.work / f"{name}.yaml"
        file.write_text(manifests.written(played))
        # Podman stores ConfigMaps as volumes. An earlier pod of this name may have left some.
        for thing in played:
            if thing["kind"] == "ConfigMap":
                self.podman("volume", "rm", "--force", thing["metadata"]["name"], check=False)
        started = self.podman("play", "kube", file, space=name, check=False)
        if started.returncode != 0:
            said = [self.podman("logs", f"{name}-{c['name']}", check=False).stderr for c in manifests.all_of(played[-1]["spec"])]
            raise AssertionError(started.stderr + "".join(said))

    def end(self, name):
        """Removes a pod."""
        self.podman("pod", "rm", "--force", "--time", "5", name, check=False)

    def state(self, container):
        """The state of a container's process."""
        return json.loads(self.podman("inspect", container).stdout)[0]["State"]

    def logs(self, container):
        """All that a container printed."""
        done = self.podman("logs", container)
        return done.stdout + done.stderr

    def ready(self, name, seconds=60):
        """Waits until the probes of a pod's containers succeed, as a kubelet does."""
        for container, probes in self.probes[name].items():
            for probe in probes:
                def succeeds(container=container, probe=probe):
                    if "exec" in probe:
                        words = probe["exec"]["command"]
                        return self.podman("exec", f"{name}-{container}", *words, check=False).returncode == 0
                    port = probe["tcpSocket"]["port"]
                    return self.inside(name, "bash", "-c", f"exec 3<>/dev/tcp/127.0.0.1/{port}", check=False).returncode == 0
                try:
                    until(f"{name}, {container}: {probe}", succeeds, seconds)
                except AssertionError as late:
                    raise AssertionError(f"{late}\n{self.logs(f'{name}-{container}')}") from None

    def clean(self):
        """Removes everything that this run made."""
        self.podman("pod", "rm", "--all", "--force", "--time", "2", check=False)
        self.podman("rm", "--all", "--force", "--time", "2", check=False)
        self.podman("image", "rm", "--all", "--force", check=False)
        for name in self.spaces:
            run("ip", "netns", "delete", self.space(name), check=False)
        for _ in range(2):
            held = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines() if str(self.work) in line]
            for place in reversed(held):
                run("umount", place, check=False)


# --- the images

def images_are_made_from_nothing_and_loaded(world):
    made = world.work / "images"
    given = os.environ.get("NAMELY_IMAGES")
    if given:
        made = Path(given)
    else:
        run(ROOT / "packaging/images/build", made, timeout=3600)
    for name in ("namely", "namely-xrootd"):
        if (made / f"{name}.tar").exists():
            world.podman("load", "--quiet", "--input", made / f"{name}.tar")
    tree = world.podman("create", world.image).stdout.strip()
    world.podman("cp", f"{tree}:/usr/bin/namely", world.work / "namely")
    world.podman("export", "--output", world.work / "tree.tar", tree)
    world.podman("rm", tree)


def the_image_is_under_30_mb_without_a_shell_and_for_no_root(world):
    [said] = json.loads(world.podman("image", "inspect", world.image).stdout)
    assert said["Size"] < OCTETS_MAX, said["Size"]
    assert said["Config"]["User"] == f"{USER}:{USER}", said["Config"]["User"]
    with tarfile.open(world.work / "tree.tar") as tar:
        files = {m.name: m for m in tar.getmembers()}
    programs = [f for f, m in files.items() if m.isfile() and m.mode & 0o111 and ".so" not in f]
    assert sorted(programs) == ["usr/bin/namely", "usr/bin/namelyd"], programs
    assert not [f for f, m in files.items() if m.mode & 0o6000], "files with rights of their own"
    for licence in ("LICENSE-MIT", "LICENSE-APACHE", "NOTICE", "copyright", "sbom.cdx.json", "licences.txt.gz"):
        assert f"usr/share/doc/namely/{licence}" in files, licence
    assert "usr/share/doc/libc6/copyright" in files
    status, said_of_shell = world.once("--network", "none", world.image, "/bin/sh")
    assert status != 0 and "/bin/sh: no such file" in said_of_shell, said_of_shell
    print(f"        {said['Size'] / 1e6:.1f} MB, {len(files)} files and folders")


def router_and_tools_run_with_nothing_but_their_files(world):
    locked = ["--read-only", "--read-only-tmpfs=false", "--cap-drop", "all", "--security-opt", "no-new-privileges", "--network", "none"]
    assert world.once(*locked, world.image, "namely", "version") == (0, f"namely {world.version}\n")
    # Only the folder of the sockets cannot be written.
    status, said = world.once(*locked, world.image, "namelyd", "--check")
    assert status == 69 and all("may not make a socket in /run/namely" in line for line in said.splitlines()), said
    unlocked = ["--cap-drop", "all", "--security-opt", "no-new-privileges", "--network", "none"]
    assert world.once(*unlocked, world.image, "namelyd", "--check") == (0, "configuration ok: /etc/namely/namely.toml\n")


def a_container_that_may_write_nowhere_says_what_it_lacks(world):
    locked = ["--read-only", "--read-only-tmpfs=false", "--network", "none"]
    status, said = world.once(*locked, world.image)
    assert status != 0 and "/run/namely/namely.sock: Read-only file system" in said, (status, said)
    sockets = ["--volume", f"{folder(world, 'writable')}:/run/namely"]
    store = "/var/cache/namely/store"
    status, said = world.once(*locked, *sockets, world.image, "namelyd", "--cs-disk", store)
    assert status != 0 and f"cannot make {store}: Read-only file system" in said, (status, said)
    print("        " + next(line for line in said.splitlines() if store in line))
    # A tool can neither create its key chain there nor write a fetched file.
    status, said = world.once(*locked, world.image, "namely", "key", "new", "/lab")
    assert status != 0 and "Read-only" in said, (status, said)
    print("        " + said.splitlines()[0])


def folder(world, name):
    """Creates a folder as a volume, owned by the containers' user."""
    place = world.volumes / name
    place.mkdir(parents=True, exist_ok=True)
    os.chown(place, USER, USER)
    return place


def interest(uri):
    """An Interest with CanBePrefix and MustBeFresh, as octets."""
    def block(kind, value):
        return bytes([kind, len(value)]) + value
    name = block(7, b"".join(block(8, word.encode()) for word in uri.strip("/").split("/")))
    return block(5, name + block(0x21, b"") + block(0x12, b"") + block(0x0A, b"\x01\x02\x03\x04"))


def the_first_data_comes_within_300_ms_of_the_container_s_start(world):
    taken = []
    for turn in range(5):
        place = folder(world, f"start-{turn}")
        words = ["--read-only", "--cap-drop", "all", "--network", "none", "--volume", f"{place}:/run/namely"]
        container = world.podman("create", *words, world.image).stdout.strip()
        begin = time.monotonic()
        starting = subprocess.Popen(["podman", "start", container], env=world.environment, stdout=subprocess.DEVNULL)
        while True:
            asked = socket.socket(socket.AF_UNIX)
            try:
                asked.connect(str(place / "namely.sock"))
                break
            except OSError:
                asked.close()
                assert time.monotonic() < begin + 20, world.logs(container)
                time.sleep(0.001)
        asked.settimeout(5)
        asked.sendall(interest("/localhost/nfd/status/general"))
        assert asked.recv(9000)[0] in (6, 0x64)
        taken.append((time.monotonic() - begin) * 1000)
        asked.close()
        starting.wait()
        world.podman("rm", "--force", "--time", "2", container)
    taken.sort()
    print(f"        `podman start` to Data, ms: {', '.join(f'{t:.0f}' for t in taken)}; load {os.getloadavg()[0]:.1f}")
    # The best of five, because other load of the machine is not the image's.
    assert taken[0] < START_MS_MAX, taken
    print(f"        median {statistics.median(taken):.0f} ms")


def a_wrong_configuration_ends_a_router_with_file_line_and_key(world):
    wrong = world.work / "wrong.toml"
    wrong.write_text((ROOT / "packaging/images/namely.toml").read_text().replace("listen =", "listens ="))
    words = ["--network", "none", "--volume", f"{wrong}:/etc/namely/namely.toml:ro", world.image]
    status, said = world.once(*words)
    assert status == 78 and "/etc/namely/namely.toml:6" in said and "did you mean `listen`" in said, (status, said)
    print("        " + said.splitlines()[0])


# --- the manifests

def the_manifests_are_as_a_cluster_wants_them(world):
    for folder in manifests.KUSTOMIZATIONS:
        objects = manifests.rendered(folder)
        assert not manifests.faults(objects), "\n".join(manifests.faults(objects))
        for thing in objects:
            for container in manifests.containers(thing):
                assert container["image"].endswith(f":{world.version}"), container["image"]
            for file, text in thing.get("data", {}).items():
                if file.endswith(".toml"):
                    (world.work / file).write_text(text)
                    words = ["--network", "none", "--volume", f"{world.work / file}:/x.toml:ro", world.image]
                    status, said = world.once(*words, "namelyd", "--config", "/x.toml", "--check")
                    # 69: the file is right, and this machine lacks a folder or device.
                    assert status in (0, 69), said


def kubectl_reads_every_manifest_and_knows_every_field(world):
    if not shutil.which("kubectl"):
        raise Skipped("there is no kubectl: the structure alone was checked")
    for name in manifests.KUSTOMIZATIONS:
        shown = run("kubectl", "kustomize", name, check=False)
        if shown.returncode != 0 and "kustomize" in shown.stderr + shown.stdout:
            raise Skipped(f"this kubectl is too old for these kustomizations: {shown.stderr.strip()}")
        theirs = list(yaml.safe_load_all(shown.stdout))
        assert manifests.normal(theirs) == manifests.normal(manifests.rendered(name)), name
        # kubectl decodes each object into its own types and encodes it again. Unknown fields would
        # be lost or refused.
        file = world.work / "typed.yaml"
        for thing in theirs:
            file.write_text(yaml.safe_dump(thing))
            typed = json.loads(run("kubectl", "annotate", "--local", "--dry-run=client", "--filename", file, "seen=yes", "--output", "json").stdout)
            lost = missing(thing, typed)
            assert not lost, f"{thing['kind']} {thing['metadata']['name']}: kubectl knows no {lost}"


def missing(asked, got, place=""):
    """The path of the first field of `asked` that `got` lacks."""
    if isinstance(asked, dict):
        for key, value in asked.items():
            if not isinstance(got, dict) or key not in got:
                return f"{place}.{key}"
            lost = missing(value, got[key], f"{place}.{key}")
            if lost:
                return lost
    elif isinstance(asked, list):
        for number, value in enumerate(asked):
            if not isinstance(got, list) or number >= len(got):
                return f"{place}[{number}]"
            lost = missing(value, got[number], f"{place}[{number}]")
            if lost:
                return lost
    return None


# --- pods in namespaces joined by VXLAN

def pods_of_the_manifests_start_and_their_probes_succeed(world):
    world.join_by_vxlan()
    world.home.mkdir(mode=0o700)
    for name in ("/lab", "/http/example.org"):
        world.namely("key", "new", name)
    (world.work / "lab.safebag").write_text(world.namely("cert", "export", "/lab", "--private").stdout)
    (world.work / "site.safebag").write_text(world.namely("cert", "export", "/http/example.org", "--private").stdout)
    (world.work / "lab.cert").write_text(world.namely("cert", "export", "/lab").stdout)
    tree(world)
    objects = everything(world)
    for kind, name in (("Deployment", "files"), ("StatefulSet", "cache"), ("DaemonSet", "router"), ("Deployment", "gateway")):
        world.play(objects, kind, name)
    for name in ("files", "cache", "router", "gateway"):
        world.ready(name)


def tree(world):
    """Writes the served files, a folder of genomes and files of an experiment, to the claim's volume."""
    data = world.volumes / "claim-files"
    for sample in range(6):
        place = data / f"genomes/cohort-{sample % 2}/sample-{sample}"
        place.mkdir(parents=True)
        (place / "reads.fastq.gz").write_bytes(os.urandom(300_000 + sample))
        (place / "reads.fastq.gz.md5").write_text(f"{sample:032x}  reads.fastq.gz\n")
        (place / "empty.bed").touch()
    (data / "genomes/reference").mkdir()
    (data / "genomes/reference/GRCh38.fa").write_bytes(b">chr1\n" + os.urandom(3_000_000).hex().encode())
    (data / "store").mkdir()
    given = DATA / "uproot-HZZ.root"
    if given.exists():
        shutil.copy(given, data / "store/events.root")
    else:
        print("        ../shared/data is not beside this checkout: a file of random octets in its place")
        (data / "store/events.root").write_bytes(os.urandom(500_000))
    run("chmod", "-R", "a+rX", data)


def everything(world):
    """The manifests' objects, and the ConfigMap `trust` as in docs/kubernetes.md."""
    objects = manifests.rendered(manifests.FOLDER) + manifests.rendered(manifests.FOLDER / "fetch")
    site = world.namely("cert", "export", "/http/example.org").stdout
    trust = {
        "policy.toml": 'anchors = ["lab.cert", "site.cert"]\n',
        "lab.cert": (world.work / "lab.cert").read_text(),
        "site.cert": site,
    }
    objects.append({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "trust"}, "data": trust})
    return objects


def pods_have_no_root_no_capability_and_nowhere_to_write(world):
    for container in ("router-router", "files-router", "files-files", "cache-router", "gateway-gateway"):
        process = world.state(container)["Pid"]
        status = dict(line.split(":\t", 1) for line in Path(f"/proc/{process}/status").read_text().splitlines() if ":\t" in line)
        assert set(status["Uid"].split()) == {str(USER)}, (container, status["Uid"])
        assert int(status["CapEff"], 16) == int(status["CapBnd"], 16) == 0, (container, status["CapBnd"])
        assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2"), container
        [root] = [line for line in Path(f"/proc/{process}/mounts").read_text().splitlines() if line.split()[1] == "/"]
        assert root.split()[3].split(",")[0] == "ro", root
        limits = json.loads(world.podman("inspect", container).stdout)[0]["HostConfig"]
        assert limits["Memory"] > 0 and limits["NanoCpus"] > 0, limits


def a_file_moves_between_two_pods_and_a_job_fetches_a_tree(world):
    objects = everything(world)
    world.play(objects, "CronJob", "fetch")
    assert world.ended("fetch-get") == 0, world.logs("fetch-get")
    source, copied = world.volumes / "claim-files/genomes", world.volumes / "claim-genomes/genomes"
    same(source, copied)
    world.end("fetch")
    # The same job again updates the copy, and fetches no file that it has. Caches may serve the
    # old listing of the folder for a second.
    (source / "cohort-0/sample-0/more.txt").write_text("one more\n")

    def more():
        world.play(objects, "CronJob", "fetch")
        assert world.ended("fetch-get") == 0, world.logs("fetch-get")
        said = world.logs("fetch-get")
        world.end("fetch")
        return (copied / "cohort-0/sample-0/more.txt").exists() and said
    said = until("the job's fetch of what is new", more)
    same(source, copied)
    print("        " + said.strip().splitlines()[-1].strip())


def same(source, copied):
    """Checks that two trees have the same files with the same octets."""
    files = sorted(p.relative_to(source) for p in source.rglob("*") if p.is_file())
    there = sorted(p.relative_to(copied) for p in copied.rglob("*") if p.is_file())
    assert files == there, f"{[*map(str, files)]} served, {[*map(str, there)]} copied"
    assert len(files) > 15
    for file in files:
        assert filecmp.cmp(source / file, copied / file, shallow=False), file


def a_file_crosses_three_namespaces_that_vxlan_joins(world):
    place = folder(world, "desk")
    trust = ["--volume", f"{world.work / 'lab.cert'}:/lab.cert:ro"]
    # The tool is in the consumer's namespace. Router, cache and file server are each in another
    # one.
    get = ["namely", "--router", f"tcp://{ADDRESSES['router']}:6363", "get", "/lab/store/events.root", "/data/got", "--trust", "/lab.cert"]
    before = crossed(world)
    home = ["--volume", f"{folder(world, 'desk-home')}:/var/lib/namely"]
    locked = ["--read-only", "--cap-drop", "all", "--network", "host"]
    status, said = world.once(*locked, "--volume", f"{place}:/data", *trust, *home, world.image, *get, space="desk")
    assert status == 0, said
    assert filecmp.cmp(world.volumes / "claim-files/store/events.root", place / "got", shallow=False), said
    size = (place / "got").stat().st_size
    assert crossed(world) - before > size, "the file did not come by the VXLAN"
    print("        " + said.strip().splitlines()[0].strip())


def crossed(world):
    """Octets that the consumer's VXLAN device received."""
    return json.loads(world.inside("desk", "ip", "-json", "-statistics", "link", "show", "namely0").stdout)[0]["stats64"]["rx"]["bytes"]


def xrdcp_fetches_by_name_from_the_image_with_the_plugin(world):
    if world.podman("image", "exists", world.xrootd, check=False).returncode != 0:
        raise Skipped("the image with XRootD was not made: Debian's XRootD is not installed")
    world.play(everything(world), "Deployment", "xrootd")
    world.ready("xrootd")
    [said] = json.loads(world.podman("image", "inspect", world.xrootd).stdout)
    to = world.work / "by-xrootd"
    url = f"root://{ADDRESSES['xrootd']}//store/events.root"
    world.inside("desk", "xrdcp", "--force", "--silent", "--cksum", "adler32", url, to, timeout=60)
    assert filecmp.cmp(world.volumes / "claim-files/store/events.root", to, shallow=False)
    world.inside("desk", "curl", "--silent", "--fail", "--output", to, f"http://{ADDRESSES['xrootd']}:8080/store/events.root", timeout=60)
    assert filecmp.cmp(world.volumes / "claim-files/store/events.root", to, shallow=False)
    print(f"        {said['Size'] / 1e6:.1f} MB")
    world.end("xrootd")


def the_gateway_answers_http_from_named_data(world):
    site = world.work / "site"
    site.mkdir()
    (site / "hello.txt").write_text("named data\n")
    running = origin = subprocess.Popen(
        ["nsenter", f"--net=/run/netns/{world.space('files')}", sys.executable, "-m", "http.server", "--bind", "127.0.0.1", "--directory", site, "8765"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        key = world.volumes / "files-home/site.safebag"
        shutil.copy(world.work / "site.safebag", key)
        os.chown(key, USER, USER)
        world.podman("exec", "--env", f"NAMELY_PASSPHRASE={PASSPHRASE}", "files-files", "namely", "cert", "import", "--private", "/var/lib/namely/site.safebag")
        egress = ["namely", "proxy", "egress", "example.org=http://127.0.0.1:8765"]
        said = world.work / "egress.log"
        words = ["nsenter", f"--net=/run/netns/{world.space('files')}", "podman", "exec", "--env", "TMPDIR=/run/namely", "files-files", *egress]
        running = subprocess.Popen(words, env=world.environment, stdout=said.open("w"), stderr=subprocess.STDOUT)
        waited = world.podman("exec", "files-files", "namely", "wait", "/http/example.org", "--timeout", "10", check=False)
        assert waited.returncode == 0, waited.stderr + said.read_text()
        world.podman("exec", "cache-router", "namely", "route", "add", "/http", "tcp://files:6363")

        def got():
            return world.inside("desk", "curl", "--silent", "--fail", "--max-time", "5", "--proxy", f"http://{ADDRESSES['gateway']}:8080",
                                "http://example.org/hello.txt", check=False).stdout
        until("the gateway's answer", lambda: got() == "named data\n")
    finally:
        for program in (origin, running):
            program.terminate()
            program.wait()


def what_the_cache_has_it_answers_after_a_restart_without_the_source(world):
    def get(name, to):
        words = ["namely", "--router", f"tcp://{ADDRESSES['cache']}:6363", "get", "--json", name, f"/data/{to}", "--trust", "/lab.cert"]
        volumes = {"/data": folder(world, "desk"), "/lab.cert": world.work / "lab.cert", "/var/lib/namely": folder(world, "desk-home")}
        mounts = [word for place, source in volumes.items() for word in ("--volume", f"{source}:{place}")]
        status, said = world.once("--read-only", "--cap-drop", "all", "--network", "host", *mounts, world.image, *words, space="desk")
        assert status == 0, said
        return json.loads(said.splitlines()[-1])["name"]

    # The disk admits an object that was requested twice. The router writes it to the disk at its
    # end.
    [versioned, again] = [get("/lab/genomes/reference/GRCh38.fa", to) for to in ("one", "two")]
    assert versioned == again
    world.podman("stop", "--time", "10", "cache-router")
    world.end("cache")
    world.end("files")
    world.play(everything(world), "StatefulSet", "cache")
    world.ready("cache")
    get(versioned, "three")
    assert filecmp.cmp(world.volumes / "claim-files/genomes/reference/GRCh38.fa", folder(world, "desk") / "three", shallow=False)
    world.play(everything(world), "Deployment", "files")
    world.ready("files")


# --- what goes wrong

def a_router_ends_in_time_when_it_is_told_to(world):
    for container in ("files-files", "files-router", "gateway-gateway", "cache-router", "router-router"):
        begin = time.monotonic()
        world.podman("stop", "--time", "10", container)
        took = time.monotonic() - begin
        status = world.state(container)["ExitCode"]
        assert took < 9 and status == 0, f"{container}: status {status} after {took:.1f} s\n{world.logs(container)}"
    for name in ("files", "gateway", "cache", "router"):
        world.end(name)


def a_wrong_configuration_ends_a_pod_with_file_line_and_key(world):
    def spoil(played):
        played[0]["data"]["namely.toml"] += "\n[tables]\n" if "[tables]" not in played[0]["data"]["namely.toml"] else ""
        played[0]["data"]["namely.toml"] = played[0]["data"]["namely.toml"].replace("cs_octets_max", "cs_octet_max")
        no_restart(played)
    world.play(everything(world), "DaemonSet", "router", spoil)
    until("the pod's end", lambda: not world.state("router-router")["Running"])
    said = world.logs("router-router")
    assert world.state("router-router")["ExitCode"] == 78, said
    assert "/etc/namely/namely.toml" in said and "cs_octet_max" in said, said
    print("        " + said.strip().splitlines()[0])
    world.end("router")


def no_restart(played):
    """Prevents the restart of a pod that ends, so that its status can be read."""
    played[-1]["spec"]["restartPolicy"] = "Never"


def a_volume_of_an_older_format_is_refused_with_what_to_do(world):
    store = world.volumes / "claim-store-cache-0/store"
    assert list(store.glob("segment-*.log")), "the cache wrote into its volume"
    # The beginning of a segment of the previous version.
    older = store / "segment-0000000099.log"
    older.write_bytes(b"namely-segment-1".ljust(4096, b"\0"))
    os.chown(older, USER, USER)
    world.play(everything(world), "StatefulSet", "cache", no_restart)
    until("the pod's end", lambda: not world.state("cache-router")["Running"])
    said = world.logs("cache-router")
    assert world.state("cache-router")["ExitCode"] != 0, said
    assert f"{older.name} was not written by this version: remove the folder" in said, said
    assert older.exists(), "nothing was lost"
    print("        " + next(line for line in said.splitlines() if older.name in line))
    world.end("cache")


TESTS = [
    images_are_made_from_nothing_and_loaded,
    the_image_is_under_30_mb_without_a_shell_and_for_no_root,
    router_and_tools_run_with_nothing_but_their_files,
    a_container_that_may_write_nowhere_says_what_it_lacks,
    the_first_data_comes_within_300_ms_of_the_container_s_start,
    a_wrong_configuration_ends_a_router_with_file_line_and_key,
    the_manifests_are_as_a_cluster_wants_them,
    kubectl_reads_every_manifest_and_knows_every_field,
    pods_of_the_manifests_start_and_their_probes_succeed,
    pods_have_no_root_no_capability_and_nowhere_to_write,
    a_file_moves_between_two_pods_and_a_job_fetches_a_tree,
    a_file_crosses_three_namespaces_that_vxlan_joins,
    xrdcp_fetches_by_name_from_the_image_with_the_plugin,
    the_gateway_answers_http_from_named_data,
    what_the_cache_has_it_answers_after_a_restart_without_the_source,
    a_router_ends_in_time_when_it_is_told_to,
    a_wrong_configuration_ends_a_pod_with_file_line_and_key,
    a_volume_of_an_older_format_is_refused_with_what_to_do,
]


def main():
    passed = failed = 0
    with tempfile.TemporaryDirectory(prefix="namely-images-", ignore_cleanup_errors=True) as work:
        world = World(Path(work))
        try:
            for test in TESTS:
                begin = time.monotonic()
                try:
                    test(world)
                except Skipped as why:
                    print(f"skipped: {test.__name__}: {why}", flush=True)
                    continue
                except Exception as error:  # noqa: BLE001: whatever it is, it is this test's
                    failed += 1
                    print(f"FAILED  {test.__name__}\n        " + str(error or repr(error)).strip().replace("\n", "\n        "), flush=True)
                    continue
                passed += 1
                print(f"ok      {test.__name__} ({time.monotonic() - begin:.1f} s)", flush=True)
        finally:
            world.clean()
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
