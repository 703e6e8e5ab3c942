"""Renders the manifests of packaging/kubernetes as kustomize does, checks them, and converts them for podman.

`rendered` implements the features of kustomize that these manifests use. If kubectl is installed, a test compares the
results. Podman plays only pods. This module does the other work of a cluster (docs/kubernetes.md): it makes pods from
their workload's template. Volumes are folders with the owner of fsGroup, services are lines of /etc/hosts, and the test
runs the probes.
"""

import copy
import os
import shutil
from pathlib import Path

import yaml

FOLDER = Path(__file__).resolve().parents[1] / "kubernetes"
# The kustomizations, without the one whose types the Prometheus operator adds to a cluster.
KUSTOMIZATIONS = (FOLDER, FOLDER / "vxlan", FOLDER / "fetch", FOLDER.parent / "overlay")
WORKLOADS = ("Deployment", "DaemonSet", "StatefulSet", "Job", "CronJob")
# Labels by which people and tools find the objects of an installation.
LABELS = {"name", "instance", "component", "part-of", "version"}


def rendered(folder):
    """The objects of a kustomization, in the order of its resources."""
    folder = Path(folder).resolve()
    said = yaml.safe_load((folder / "kustomization.yaml").read_text())
    objects = []
    for name in said["resources"]:
        path = folder / name
        objects += rendered(path) if path.is_dir() else list(yaml.safe_load_all(path.read_text()))
    for made in said.get("configMapGenerator", []):
        data = {file: (folder / file).read_text() for file in made["files"]}
        if made.get("behavior") == "replace":
            named(objects, "ConfigMap", made["name"])["data"] = data
        else:
            metadata = {"name": made["name"]}
            objects.append({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})
    for patch in said.get("patches", []):
        change = yaml.safe_load((folder / patch["path"]).read_text())
        merge(named(objects, change["kind"], change["metadata"]["name"]), change)
    for image in said.get("images", []):
        for container in (c for o in objects for c in containers(o)):
            if container["image"].split(":")[0] == image["name"]:
                container["image"] = f"{image.get('newName', image['name'])}:{image['newTag']}"
    for thing in objects:
        if "namespace" in said and thing["kind"] != "Namespace":
            thing["metadata"]["namespace"] = said["namespace"]
    return objects


def merge(into, change):
    """A strategic merge: tables by key, lists of named objects by name, other lists as a whole."""
    for key, value in change.items():
        old = into.get(key)
        if isinstance(value, dict) and isinstance(old, dict):
            merge(old, value)
        elif isinstance(value, list) and isinstance(old, list) and all(isinstance(v, dict) for v in value):
            for item in value:
                merge(next(o for o in old if o["name"] == item["name"]), item)
        else:
            into[key] = value


def named(objects, kind, name):
    """The one object of that kind and name."""
    [one] = [o for o in objects if o["kind"] == kind and o["metadata"]["name"] == name]
    return one


def template(thing):
    """The template of a workload's pods."""
    spec = thing["spec"]["jobTemplate"]["spec"] if thing["kind"] == "CronJob" else thing["spec"]
    return spec["template"]


def pod_spec(thing):
    """The pod specification of a workload; empty for other objects."""
    return template(thing)["spec"] if thing["kind"] in WORKLOADS else {}


def containers(thing):
    """All containers of a workload's pods."""
    return all_of(pod_spec(thing))


def all_of(spec):
    """All containers of a pod, including its init containers."""
    return spec.get("initContainers", []) + spec.get("containers", [])


def normal(objects):
    """The objects in a form for comparison: generated ConfigMaps without hashes in their names, sorted."""
    objects = copy.deepcopy(objects)
    generated = {o["metadata"]["name"] for o in objects if o["kind"] == "ConfigMap"}
    bare = {name: name.rsplit("-", 1)[0] if "-" in name else name for name in generated}
    for thing in objects:
        if thing["kind"] == "ConfigMap":
            thing["metadata"]["name"] = bare[thing["metadata"]["name"]]
        for volume in pod_spec(thing).get("volumes", []):
            if "configMap" in volume:
                name = volume["configMap"]["name"]
                volume["configMap"]["name"] = bare.get(name, name)
        # A patch moves its container to the front. The order has no meaning.
        pod_spec(thing).get("containers", []).sort(key=lambda container: container["name"])
    return sorted(objects, key=lambda o: (o["kind"], o["metadata"]["name"]))


def faults(objects):
    """The faults that a cluster or its operator would refuse, one per line; empty if there are none."""
    found = []
    maps = {o["metadata"]["name"] for o in objects if o["kind"] == "ConfigMap"} | {"trust"}
    claims = {o["metadata"]["name"] for o in objects if o["kind"] == "PersistentVolumeClaim"}
    labels = [template(o)["metadata"]["labels"] for o in objects if pod_spec(o)]
    for thing in objects:
        name = f"{thing['kind']} {thing['metadata']['name']}"
        spec = pod_spec(thing)
        if thing["kind"] == "Service":
            if not any(thing["spec"]["selector"].items() <= label.items() for label in labels):
                found.append(f"{name}: selects no pod")
        if thing["kind"] in ("NetworkPolicy", "PodDisruptionBudget"):
            selector = thing["spec"].get("podSelector") or thing["spec"].get("selector")
            if not any(selector["matchLabels"].items() <= label.items() for label in labels):
                found.append(f"{name}: selects no pod")
        if not spec:
            continue
        pods = template(thing)["metadata"]["labels"]
        if not LABELS <= {label.removeprefix("app.kubernetes.io/") for label in pods}:
            found.append(f"{name}: its pods lack labels of {sorted(LABELS)}")
        if thing["kind"] in ("Deployment", "DaemonSet", "StatefulSet"):
            selector = thing["spec"]["selector"]["matchLabels"]
            # A version in a selector would make each upgrade a new workload.
            if not selector.items() <= pods.items() or "app.kubernetes.io/version" in selector:
                found.append(f"{name}: its selector does not match its pods in every version")
        found += volume_faults(thing, objects, name)
        volumes = {v["name"]: v for v in spec.get("volumes", [])}
        volumes |= {c["metadata"]["name"]: c for c in thing["spec"].get("volumeClaimTemplates", [])}
        for volume in volumes.values():
            if volume.get("configMap", {}).get("name", "trust") not in maps:
                found.append(f"{name}: there is no ConfigMap {volume['configMap']['name']}")
            claim = volume.get("persistentVolumeClaim", {}).get("claimName")
            if claim is not None and claim not in claims:
                found.append(f"{name}: there is no claim {claim}")
        whole = spec.get("securityContext", {})
        root = whole.get("runAsUser") == 0
        if whole.get("seccompProfile") != {"type": "RuntimeDefault"}:
            found.append(f"{name}: no seccomp profile")
        if spec.get("automountServiceAccountToken") is not False:
            found.append(f"{name}: has a token for the cluster")
        for container in containers(thing):
            who = f"{name}, {container['name']}"
            own = container.get("securityContext", {})
            added = own.get("capabilities", {}).get("add", [])
            if whole.get("runAsNonRoot") is not True and not (root and added == ["NET_RAW"]):
                found.append(f"{who}: runs as root")
            if own.get("capabilities", {}).get("drop") != ["ALL"] or (added and not root):
                found.append(f"{who}: keeps capabilities")
            if own.get("readOnlyRootFilesystem") is not True or own.get("allowPrivilegeEscalation") is not False:
                found.append(f"{who}: may write into its image, or gain privileges")
            for which in ("requests", "limits"):
                if set(container.get("resources", {}).get(which, {})) != {"cpu", "memory"}:
                    found.append(f"{who}: no {which} of cpu and memory")
            for mount in container.get("volumeMounts", []):
                if mount["name"] not in volumes:
                    found.append(f"{who}: there is no volume {mount['name']}")
            is_long = "Job" not in thing["kind"] and container in spec["containers"]
            if is_long and not {"livenessProbe", "readinessProbe"} & set(container):
                found.append(f"{who}: no probe")
    return found


def volume_faults(thing, objects, name):
    """The faults of a workload's own volumes and its governing service."""
    found = []
    kinds = {o["metadata"]["name"]: o for o in objects if o["kind"] == "Service"}
    if thing["kind"] == "StatefulSet":
        service = kinds.get(thing["spec"]["serviceName"], {"spec": {}})
        if service["spec"].get("clusterIP") != "None":
            found.append(f"{name}: its service gives its pods no names")
        if "persistentVolumeClaimRetentionPolicy" not in thing["spec"]:
            found.append(f"{name}: does not say what becomes of its claims")
    claims = {o["metadata"]["name"]: o["spec"] for o in objects if o["kind"] == "PersistentVolumeClaim"}
    for volume in pod_spec(thing).get("volumes", []):
        claim = claims.get(volume.get("persistentVolumeClaim", {}).get("claimName"), {"accessModes": []})
        is_rolling = thing["kind"] == "Deployment" and thing["spec"].get("strategy") != {"type": "Recreate"}
        if is_rolling and "ReadWriteOnce" in claim["accessModes"]:
            found.append(f"{name}: its new pod waits for the volume of its old one")
    return found


def as_podman_plays(objects, kind, name, folders, hosts, secrets):
    """A workload's pod for `podman play kube`, with its ConfigMaps, and its probes, which podman does not get.

    Volumes are made in `folders` as by a kubelet: their owner is root and their group that of fsGroup. `hosts` is a file
    that replaces the cluster's name service. `secrets` is the data of Secrets by their names.
    """
    thing = named(objects, kind, name)
    spec = copy.deepcopy(pod_spec(thing))
    group = spec["securityContext"]["fsGroup"]
    # Podman runs in the pod's own namespace, so its host network is the pod's network.
    spec["hostNetwork"] = True
    wanted, probes = [], {}
    claimed = [
        {"name": c["metadata"]["name"], "persistentVolumeClaim": {"claimName": f"{c['metadata']['name']}-{name}-0"}}
        for c in thing["spec"].get("volumeClaimTemplates", [])
    ]
    spec["volumes"] = spec.get("volumes", []) + claimed
    for volume in spec["volumes"]:
        if "configMap" in volume:
            # Each ConfigMap gets the pod's name as a prefix: podman makes a volume of it, and two
            # pods must not share one.
            own = copy.deepcopy(named(objects, "ConfigMap", volume["configMap"]["name"]))
            own["metadata"]["name"] = volume["configMap"]["name"] = f"{name}-{own['metadata']['name']}"
            wanted.append(own)
            continue
        claim = volume.get("persistentVolumeClaim", {}).get("claimName")
        place = folders / (f"claim-{claim}" if claim else f"{name}-{volume['name']}")
        if "emptyDir" in volume and place.exists():
            shutil.rmtree(place)
        place.mkdir(parents=True, exist_ok=True)
        if place.stat().st_gid != group:
            os.chown(place, 0, group)
            place.chmod(0o2777 if "emptyDir" in volume else 0o2775)
        for file, octets in secrets.get(volume.get("secret", {}).get("secretName"), {}).items():
            (place / file).write_bytes(octets)
            os.chown(place / file, 0, group)
            (place / file).chmod(0o440)
        for other in ("emptyDir", "secret", "persistentVolumeClaim"):
            volume.pop(other, None)
        volume["hostPath"] = {"path": str(place)}
    spec["volumes"].append({"name": "hosts", "hostPath": {"path": str(hosts), "type": "File"}})
    for container in all_of(spec):
        container["volumeMounts"].append({"name": "hosts", "mountPath": "/etc/hosts", "readOnly": True})
        ports = {p["name"]: p["containerPort"] for p in container.pop("ports", [])}
        # Podman knows no `sleep` here.
        container.pop("lifecycle", None)
        for which in ("startupProbe", "readinessProbe", "livenessProbe"):
            probe = container.pop(which, None)
            if probe is not None:
                if "tcpSocket" in probe:
                    probe["tcpSocket"]["port"] = ports[probe["tcpSocket"]["port"]]
                probes.setdefault(container["name"], []).append(probe)
        for variable in container.get("env", []):
            of = variable.pop("valueFrom", {}).get("secretKeyRef")
            if of is not None:
                variable["value"] = secrets[of["name"]][of["key"]].decode()
    metadata = {"name": name, "labels": template(thing)["metadata"]["labels"]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    return [*wanted, pod], probes


def written(objects):
    """The objects as one YAML document stream."""
    return yaml.safe_dump_all(objects, sort_keys=False)
