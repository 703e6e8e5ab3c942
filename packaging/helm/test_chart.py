"""The tests of packaging/helm/test: the chart renders to the objects of packaging/kubernetes, whose pods are tested.

Each test is a function; its name states the property.
"""

import copy
import json
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

import yaml

import manifests
import templates
from test_images import Skipped, missing

CHART = Path(__file__).resolve().parent / "namely"
ABOUT = yaml.safe_load((CHART / "Chart.yaml").read_text())
# The parts that the kustomizations have, and the chart only on request.
ALL = {"xrootd": {"enabled": True}, "fetch": {"enabled": True}, "metrics": {"podMonitor": True}}
# Names of the chart begin with the release. The image of that name is not meant.
NAMES = re.compile(r"(?<!localhost/)(?<![\w-])namely-(router|cache|files|gateway|xrootd|fetch)\b")


def sources():
    """The templates by their file names."""
    return {path.name: path.read_text() for path in sorted((CHART / "templates").iterdir())}


def values(change=None):
    """The default values, with a change merged into them."""
    def merge(into, more):
        for key, value in more.items():
            if isinstance(value, dict) and isinstance(into.get(key), dict):
                merge(into[key], value)
            else:
                into[key] = value
    own = yaml.safe_load((CHART / "values.yaml").read_text())
    merge(own, copy.deepcopy(change or {}))
    return own


def rendered(change=None, release="namely"):
    """The objects of the chart."""
    root = {"Values": values(change), "Release": {"Name": release}, "Chart": {"AppVersion": ABOUT["appVersion"]}}
    chart = templates.Chart(sources(), root)
    texts = [chart.rendered(name) for name in chart.files if name.endswith(".yaml")]
    return [thing for text in texts for thing in yaml.safe_load_all(text) if thing]


def plain(objects):
    """The objects without what only Helm or only kustomize adds, by kind and name."""
    objects = manifests.normal(yaml.safe_load(NAMES.sub(r"\1", json.dumps(objects))))
    found = {}
    for thing in objects:
        thing["metadata"].pop("namespace", None)
        thing["metadata"].pop("annotations", None)
        if thing["kind"] == "ConfigMap":
            thing["metadata"].pop("labels", None)
            thing["data"] = {file: content(file, text) for file, text in thing["data"].items()}
        if manifests.pod_spec(thing):
            about = manifests.template(thing)["metadata"]
            marks = {key: value for key, value in about.pop("annotations", {}).items() if not key.startswith("checksum/")}
            if marks:
                about["annotations"] = marks
        found[f"{thing['kind']} {thing['metadata']['name']}"] = thing
    return found


def content(file, text):
    """The meaning of a configuration file: comments do not count."""
    if file.endswith(".toml"):
        return tomllib.loads(text)
    return [line for line in text.splitlines() if line and not line.startswith("#")]


def schema():
    """The validator of values."""
    try:
        import jsonschema
    except ImportError:
        raise Skipped("python3 has no module jsonschema") from None
    return jsonschema.Draft7Validator(json.loads((CHART / "values.schema.json").read_text()))


# --- the tests

def the_chart_is_the_manifests():
    folders = [manifests.FOLDER, manifests.FOLDER / "fetch", manifests.FOLDER / "monitoring"]
    theirs = plain([thing for folder in folders for thing in manifests.rendered(folder)])
    # A chart has no namespace of its own. The manifests name the claim after its tree.
    del theirs["Namespace namely"]
    text = json.dumps(theirs).replace('"PersistentVolumeClaim genomes"', '"PersistentVolumeClaim fetch"')
    theirs = json.loads(text.replace('"name": "genomes"', '"name": "fetch"').replace('"claimName": "genomes"', '"claimName": "fetch"'))
    ours = plain(rendered(ALL))
    assert sorted(ours) == sorted(theirs), sorted(set(ours) ^ set(theirs))
    for name, thing in ours.items():
        assert thing == theirs[name], f"{name}:\n{json.dumps(thing, sort_keys=True)}\n{json.dumps(theirs[name], sort_keys=True)}"


def every_rendering_is_as_a_cluster_wants_it():
    parts = ("router", "cache", "files", "gateway", "xrootd", "fetch")
    alone = [{other: {"enabled": other == part} for other in parts} for part in parts]
    more = {"tolerations": [{"operator": "Exists"}], "imagePullSecrets": [{"name": "registry"}], "networkPolicy": False,
            "metrics": {"annotations": False}, "trust": {"files": {"policy.toml": "anchors = []\n"}},
            "cache": {"routes": {"/http": "tcp://192.0.2.7:6363"}, "volume": {"storageClass": "fast"}}}
    for change in (None, ALL, *alone, {**ALL, **more}):
        objects = rendered(change)
        assert not manifests.faults(objects), (change, manifests.faults(objects))
        for thing in objects:
            for file, text in thing.get("data", {}).items():
                content(file, text)


def one_value_changes_the_prefix():
    objects = json.dumps(rendered({**ALL, "prefix": "/cms/site"}))
    assert not re.search(r"/lab\b(?!\.)", objects) and objects.count("/cms/site") == 5, objects.count("/cms/site")


def no_name_is_longer_than_a_cluster_permits():
    for thing in rendered(ALL, "r" * 53):
        assert len(thing["metadata"]["name"]) <= 63, thing["metadata"]["name"]


def every_value_is_used_and_documented():
    text = "".join(sources().values())
    used = set(re.findall(r"\.Values\.([\w.]+)", text))
    # The template `namely.claim` takes a volume as its dot.
    used |= {f"{part}.volume.{field}" for part in ("cache", "files", "fetch") for field in ("sizeGi", "storageClass")}

    def leaves(table, path=""):
        for key, value in table.items():
            here = f"{path}{key}"
            if isinstance(value, dict) and value and not any(here == name for name in used):
                yield from leaves(value, f"{here}.")
            else:
                yield here
    unused = [leaf for leaf in leaves(values()) if leaf not in used]
    assert not unused, unused


def the_schema_accepts_the_values_and_refuses_mistakes():
    check = schema()
    for change in (None, ALL):
        assert check.is_valid(values(change)), next(check.iter_errors(values(change))).message
    for wrong in ({"prefix": "lab"}, {"prefix": "/"}, {"prefix": '/a"b'}, {"colour": "red"}, {"cache": {"replicas": 0}},
                  {"cache": {"volume": {"sizeGi": "100Gi"}}}, {"router": {"store": "256MB"}}, {"metrics": {"port": 65536}},
                  {"files": {"safebag": "../key"}}, {"cache": {"routes": {"/a": 'tcp://x"'}}}):
        assert not check.is_valid(values(wrong)), wrong


def the_chart_has_the_version_of_the_programs():
    cargo = tomllib.loads((CHART.parents[2] / "Cargo.toml").read_text())
    assert ABOUT["appVersion"] == cargo["workspace"]["package"]["version"], ABOUT


def kubectl_knows_every_field():
    if not shutil.which("kubectl"):
        raise Skipped("there is no kubectl")
    with tempfile.TemporaryDirectory() as work:
        file = Path(work) / "typed.yaml"
        for thing in rendered(ALL):
            if thing["kind"] == "PodMonitor":
                continue
            file.write_text(yaml.safe_dump(thing))
            words = ["kubectl", "annotate", "--local", "--dry-run=client", "--filename", file, "seen=yes", "--output", "json"]
            done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
            assert done.returncode == 0, done.stderr
            lost = missing(thing, json.loads(done.stdout))
            assert not lost, f"{thing['kind']} {thing['metadata']['name']}: kubectl knows no {lost}"


def helm_renders_the_same_and_finds_no_fault():
    if not shutil.which("helm"):
        raise Skipped("there is no helm: the chart was rendered without it")
    with tempfile.TemporaryDirectory() as work:
        file = Path(work) / "values.yaml"
        file.write_text(yaml.safe_dump(ALL))
        # Without a cluster, a helm that Go has built assumes Kubernetes 1.20.
        for words in (["lint", "--strict", CHART], ["template", "namely", CHART, "--values", file]):
            command = ["helm", *words, "--kube-version", "1.31.0"]
            done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
            assert done.returncode == 0, done.stdout + done.stderr
        theirs = plain([thing for thing in yaml.safe_load_all(done.stdout) if thing])
    assert theirs == plain(rendered(ALL))


TESTS = [
    the_chart_is_the_manifests,
    every_rendering_is_as_a_cluster_wants_it,
    one_value_changes_the_prefix,
    no_name_is_longer_than_a_cluster_permits,
    every_value_is_used_and_documented,
    the_schema_accepts_the_values_and_refuses_mistakes,
    the_chart_has_the_version_of_the_programs,
    kubectl_knows_every_field,
    helm_renders_the_same_and_finds_no_fault,
]


def main():
    passed = failed = 0
    for test in TESTS:
        try:
            test()
        except Skipped as why:
            print(f"skipped: {test.__name__}: {why}", flush=True)
        except Exception as error:  # noqa: BLE001: whatever it is, it is this test's
            failed += 1
            print(f"FAILED  {test.__name__}\n        " + str(error or repr(error)).strip().replace("\n", "\n        "), flush=True)
        else:
            passed += 1
            print(f"ok      {test.__name__}", flush=True)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
