"""Every rule of the task form, row by row: what is wrong, where it is said, and what is said."""

from __future__ import annotations

from typing import Any

import pytest

from siflow_provider.spec import Catalog, check, load_catalog
from tests.unit.spec.forms import BASES, CATALOG, DROP, changed


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    return load_catalog(CATALOG)


Row = tuple[str, str, dict[Any, Any], str, list[str]]
P, R = "PyTorchJob", "RayJob"
IDLE = {"type": "idle", "instances": ["gpu.a100-8"], "stability": "low"}
RESERVED = {"type": "reserved", "pool": "shared", "instance": "gpu.h100-8"}
SCALES = {"min_workers": 2, "max_workers": 8}
VOLUME = {"name": "team-data", "mount_path": "/volume/data"}
IN_PLACE = {"cpu": 4, "memory": "16Gi"}

WRONG: list[Row] = [
    # basics
    ("kind is required", P, {"kind": DROP}, "kind", ["is required", "PyTorchJob", "RayJob"]),
    ("kind is one of two", P, {"kind": "PytorchJob"}, "kind", ["'PytorchJob'", "did you mean 'PyTorchJob'?"]),
    ("kind is written out", P, {"kind": "{{ params.kind }}"}, "kind", ["decides which fields exist"]),
    ("a RayJob field on a PyTorchJob", P, {"ray": {}}, "ray", ["RayJob only", "PyTorchJob"]),
    ("a field of ray at the top", R, {"autoscaling": SCALES}, "autoscaling", ["did you mean 'ray.autoscaling'?"]),
    ("an unknown key", P, {"wrokers": 1}, "wrokers", ["unknown key", "did you mean 'workers'?"]),
    (
        "an unknown key deep down",
        P,
        {"volumes": [VOLUME | {"mountPath": "/x"}]},
        "volumes[0].mountPath",
        ["mount_path"],
    ),
    ("resources is called compute", P, {"resources": {}}, "resources", ["did you mean compute?"]),
    ("a key that is no text", P, {("labels",): {7: "x", "team": "nlp"}}, "labels.7", ["must be text"]),
    ("region in the catalog", P, {"region": "cn-eats"}, "region", ["'cn-eats'", "did you mean 'cn-east'?"]),
    ("cluster in the catalog", P, {"cluster": "alhpa"}, "cluster", ["'alhpa'", "did you mean 'alpha'?"]),
    ("cluster in its region", P, {"region": "cn-west", "cluster": "alpha"}, "cluster", ["not in the region", "gamma"]),
    ("project group in the catalog", P, {"project_group": "nlpp"}, "project_group", ["did you mean 'nlp'?"]),
    ("name prefix in lower case", P, {"name_prefix": "Bert_Tune"}, "name_prefix", ["'Bert_Tune'", "'bert-tune'"]),
    ("name prefix ends with a letter", P, {"name_prefix": "bert-"}, "name_prefix", ["did you mean 'bert'?"]),
    ("name prefix of 36 characters", P, {"name_prefix": "a" * 36}, "name_prefix", ["at most 35"]),
    ("name prefix of dashes alone", P, {"name_prefix": "---"}, "name_prefix", ["letter or digit at both ends"]),
    ("name prefix in unicode", P, {"name_prefix": "señal"}, "name_prefix", ["lower-case letters"]),
    ("name prefix ends in a line end", P, {"name_prefix": "bert\n"}, "name_prefix", ["is no name prefix"]),
    ("visible_in_group is a boolean", P, {"visible_in_group": "yes"}, "visible_in_group", ["'yes'", "true nor false"]),
    ("timezone in the tz database", P, {"timezone": "Asia/Shanghia"}, "timezone", ["did you mean 'Asia/Shanghai'?"]),
    ("timezone that leaves the database", P, {"timezone": "../etc/passwd"}, "timezone", ["tz database"]),
    ("label key", P, {("labels", "-a"): "x"}, "labels.-a", ["label key", "did you mean 'a'?"]),
    ("label key of 64 characters", P, {("labels", "a" * 64): "x"}, f"labels.{'a' * 64}", ["at most 63"]),
    ("label key with a bad prefix", P, {("labels", "A_b/c"): "x"}, "labels.A_b/c", ["DNS name"]),
    ("label key of ours", P, {("labels", "siflow-provider/run"): "x"}, "labels.siflow-provider/run", ["another key"]),
    ("label value", P, {("labels", "x"): "a b"}, "labels.x", ["'a b'", "label value", "did you mean 'a-b'?"]),
    ("label value of a wrong type", P, {("labels", "x"): ["a"]}, "labels.x", ["must be text, not a list"]),
    ("required label", P, {"labels": {}}, "labels.team", ["is required by the catalog", "nlp, vision"]),
    ("label value from the allowed set", P, {"labels.stage": "prd"}, "labels.stage", ["'prd'", "did you mean 'prod'?"]),
    # environment
    ("image is required", P, {"image": DROP}, "image", ["is required"]),
    ("image with a scheme", P, {"image": "https://r.example/a"}, "image", ["scheme", "did you mean 'r.example/a'?"]),
    ("image in upper case", P, {"image": "r.example/Team/a"}, "image", ["'Team'", "did you mean 'r.example/team/a'?"]),
    ("image tag", P, {"image": "r.example/a:-x"}, "image", ["tag '-x'"]),
    ("image digest", P, {"image": "r.example/a@sha256:12"}, "image", ["digest", "64"]),
    ("image registry", P, {"image": "r_x.example:5000/a"}, "image", ["registry 'r_x.example:5000'"]),
    ("image with a blank", P, {"image": "a b"}, "image", ["blank"]),
    ("image is blank", P, {"image": " "}, "image", ["must not be blank"]),
    ("image of a wrong type", P, {"image": 5}, "image", ["{preset: NAME, version: V}", "not a number"]),
    ("image with both names", P, {"image": {"preset": "pytorch", "custom": "x", "version": "1"}}, "image", ["both"]),
    ("image with neither name", P, {"image": {"version": "1"}}, "image", ["neither"]),
    ("image version is required", P, {"image": {"preset": "pytorch"}}, "image.version", ["is required"]),
    ("image version as YAML float", P, {"image": {"preset": "ray", "version": 2.60}}, "image.version", ["in quotes"]),
    ("preset image in the catalog", P, {"image": {"preset": "pytroch", "version": "1"}}, "image.preset", ["'pytorch'"]),
    (
        "image version in the catalog",
        P,
        {"image": {"preset": "pytorch", "version": "2.9"}},
        "image.version",
        ["2.9-cuda12"],
    ),
    (
        "a custom image named as preset",
        P,
        {"image": {"preset": "nlp-train", "version": "7"}},
        "image.preset",
        ["custom"],
    ),
    (
        "a custom image of another group",
        P,
        {"image": {"custom": "nlp-train", "version": "7"}, "project_group": "vision", "labels.team": "vision"},
        "image.custom",
        ["is not for project_group 'vision'", "nlp"],
    ),
    (
        "RayJob on an image without Ray",
        R,
        {"image": {"preset": "pytorch", "version": "2.9-cuda12"}},
        "image",
        ["has no Ray", "ray"],
    ),
    ("env is a mapping", P, {"env": ["A=1"]}, "env", ["mapping of name: value"]),
    ("env name with a digit first", P, {"env": {"1A": "x"}}, "env.1A", ["no digit first", "did you mean '_1A'?"]),
    ("env name with a dash", P, {"env": {"A-B": "x"}}, "env.A-B", ["letters, digits and _", "did you mean 'A_B'?"]),
    ("env name that is no text", P, {"env": {1: "x"}}, "env", ["must be text, not a number"]),
    ("env name of Kubernetes", P, {"env": {"KUBERNETES_X": "x"}}, "env.KUBERNETES_X", ["KUBERNETES_", "another name"]),
    ("env name of the platform", P, {"env": {"X_USER_NAME": "x"}}, "env.X_USER_NAME", ["set by the platform"]),
    ("env name of Airflow", P, {"env": {"AIRFLOW_CTX_DAG_ID": "x"}}, "env.AIRFLOW_CTX_DAG_ID", ["set by the platform"]),
    ("env name of the rendezvous", P, {"env": {"MASTER_ADDR": "x"}}, "env.MASTER_ADDR", ["set by the platform"]),
    ("env name of torch's operator", P, {"env": {"PET_NNODES": "x"}}, "env.PET_NNODES", ["PET_"]),
    ("env name of KubeRay", R, {"env": {"RAY_ADDRESS": "x"}}, "env.RAY_ADDRESS", ["RayJob"]),
    ("env name of the provider", P, {"env": {"SIFLOW_RESULTS": "x"}}, "env.SIFLOW_RESULTS", ["set by the platform"]),
    ("env null", P, {"env": {"X": None}}, "env.X", ["null is no value", '""']),
    ("env list", P, {"env": {"X": [1]}}, "env.X", ["a list is no value"]),
    ("env mapping with an unknown key", P, {"env": {"X": {"value": "v", "hiden": True}}}, "env.X.hiden", ["'hidden'"]),
    ("env mapping without a value", P, {"env": {"X": {"hidden": True}}}, "env.X.value", ["is required"]),
    (
        "env hidden is a boolean",
        P,
        {"env": {"X": {"value": "v", "hidden": "maybe"}}},
        "env.X.hidden",
        ["true or false"],
    ),
    ("env hidden null", P, {"env": {"X": {"value": None, "hidden": True}}}, "env.X", ["null is no value"]),
    ("env with NUL", P, {"env": {"X": "a\0b"}}, "env.X", ["NUL"]),
    ("volume name is required", P, {"volumes": [{"mount_path": "/volume/a"}]}, "volumes[0].name", ["is required"]),
    ("volume path is required", P, {"volumes": [{"name": "team-data"}]}, "volumes[0].mount_path", ["is required"]),
    ("volumes is a list", P, {"volumes": VOLUME}, "volumes", ["must be a list, not a mapping"]),
    ("a volume is a mapping", P, {"volumes": ["team-data"]}, "volumes[0]", ["must be a mapping, not text"]),
    ("volume in the catalog", P, {"volumes": [VOLUME | {"name": "team-dat"}]}, "volumes[0].name", ["'team-data'"]),
    ("volume of another group", P, {"volumes": [VOLUME | {"name": "vision-data"}]}, "volumes[0].name", ["is not for"]),
    (
        "claim name",
        P,
        {"volumes": [VOLUME | {"name": "pvc:Team_Data"}]},
        "volumes[0].name",
        ["no name of a Kubernetes"],
    ),
    ("the same volume twice at one path", P, {"volumes": [VOLUME, VOLUME]}, "volumes[1].mount_path", ["mounted twice"]),
    (
        "two mounts at one path",
        P,
        {"volumes": [VOLUME], "datasets": [{"name": "imagenet", "mount_path": "/volume/data"}]},
        "datasets[0].mount_path",
        ["volumes[0] (team-data) is already mounted at /volume/data"],
    ),
    ("mount path absolute", P, {"volumes": [VOLUME | {"mount_path": "data/"}]}, "volumes[0].mount_path", ["'/data'"]),
    (
        "mount path normalised",
        P,
        {"volumes": [VOLUME | {"mount_path": "/mnt//a/"}]},
        "volumes[0].mount_path",
        ["'/mnt/a'"],
    ),
    ("mount path with ..", P, {"volumes": [VOLUME | {"mount_path": "/mnt/../etc"}]}, "volumes[0].mount_path", ["'..'"]),
    (
        "mount path with a colon",
        P,
        {"volumes": [VOLUME | {"mount_path": "/mnt/a:b"}]},
        "volumes[0].mount_path",
        ["colon"],
    ),
    *[
        (f"mount in {path}", P, {"volumes": [VOLUME | {"mount_path": path}]}, "volumes[0].mount_path", ["the system"])
        for path in ("/proc", "/sys/x", "/dev/shm", "/etc")
    ],
    ("sub path absolute", P, {"volumes": [VOLUME | {"sub_path": "/a"}]}, "volumes[0].sub_path", ["relative"]),
    ("sub path with ..", P, {"volumes": [VOLUME | {"sub_path": "a/../../b"}]}, "volumes[0].sub_path", ["without '..'"]),
    ("sub path placeholder", P, {"volumes": [VOLUME | {"sub_path": "{group}"}]}, "volumes[0].sub_path", ["{user}"]),
    (
        "dataset in the catalog",
        P,
        {"datasets": [{"name": "imagent", "mount_path": "/mnt/a"}]},
        "datasets[0].name",
        ["'imagenet'"],
    ),
    (
        "dataset version",
        P,
        {"datasets": [{"name": "imagenet", "version": "2013", "mount_path": "/mnt/a"}]},
        "datasets[0].version",
        ["'2013' is no version", "'2012'"],
    ),
    (
        "dataset version missing",
        P,
        {"datasets": [{"name": "corpus", "mount_path": "/mnt/a"}]},
        "datasets[0].version",
        ["1, 2"],
    ),
    (
        "dataset written to",
        P,
        {"datasets": [{"name": "imagenet", "mount_path": "/mnt/a", "read_only": False}]},
        "datasets[0].read_only",
        ["always read-only"],
    ),
    (
        "model in the catalog",
        P,
        {"models": [{"name": "llama", "mount_path": "/mnt/a"}]},
        "models[0].name",
        ["llama-8b"],
    ),
    ("command is required", P, {"command": DROP}, "command", ["is required"]),
    ("command is blank", P, {"command": " \n"}, "command", ["must not be blank"]),
    ("command as a list", P, {"command": ["python", "x.py"]}, "command", ["shlex.join"]),
    ("command with NUL", P, {"command": "a\0"}, "command", ["NUL"]),
    ("shm_size is a quantity", P, {"shm_size": "2 GB"}, "shm_size", ["'2 GB' is not a quantity", "16Gi"]),
    ("shm_size more than 0", P, {"shm_size": 0}, "shm_size", ["not more than 0"]),
    # compute
    ("compute is required", P, {"compute": DROP}, "compute", ["is required"]),
    ("compute is a mapping", P, {"compute": "gpu"}, "compute", ["must be a mapping"]),
    ("compute type is required", P, {"compute.type": DROP}, "compute.type", ["reserved, on_demand, spot, idle"]),
    ("compute type", P, {"compute.type": "ondemand"}, "compute.type", ["'ondemand'", "did you mean 'on_demand'?"]),
    (
        "a field of another type",
        P,
        {"compute": RESERVED | {"guarantee": True}},
        "compute.guarantee",
        ["on_demand, spot"],
    ),
    ("a field of reserved", P, {"compute.accept_idle": True}, "compute.accept_idle", ["is a field of reserved"]),
    ("a list on reserved", P, {"compute": RESERVED | {"instances": ["x"]}}, "compute.instances", ["one `instance`"]),
    ("one instance on on_demand", P, {"compute.instance": "x"}, "compute.instance", ["a list, `instances`"]),
    (
        "pool is required",
        P,
        {"compute": {"type": "reserved", "instance": "gpu.h100-8"}},
        "compute.pool",
        ["is required"],
    ),
    (
        "pool of the catalog",
        P,
        {"compute": RESERVED | {"pool": "shard"}},
        "compute",
        ["'shard'", "did you mean 'shared'?"],
    ),
    (
        "pool of another group",
        P,
        {"compute": {"type": "reserved", "pool": "vision-only", "instance": "gpu.a100-8"}},
        "compute",
        ["'vision-only' is no pool for you", "shared"],
    ),
    (
        "prefer_idle alone",
        P,
        {"compute": RESERVED | {"prefer_idle": True}},
        "compute.prefer_idle",
        ["needs accept_idle: true"],
    ),
    (
        "idle_stability alone",
        P,
        {"compute": RESERVED | {"idle_stability": "low"}},
        "compute.idle_stability",
        ["accept_idle"],
    ),
    (
        "idle_stability that no queue gives",
        P,
        {"compute": RESERVED | {"accept_idle": True, "idle_stability": "low"}},
        "compute",
        ["stability low", "stability high/medium"],
    ),
    ("instances is required", P, {"compute.instances": DROP}, "compute.instances", ["is required"]),
    ("instances is empty", P, {"compute.instances": []}, "compute.instances", ["one instance or more"]),
    (
        "instances is a list",
        P,
        {"compute.instances": "gpu.h100-8"},
        "compute.instances",
        ["a list", "write [gpu.h100-8]"],
    ),
    (
        "instance in the catalog",
        P,
        {"compute.instances": ["gpu.h100-9"]},
        "compute.instances[0]",
        ["did you mean 'gpu.h100-8'?"],
    ),
    ("instance of another region", P, {"compute.instances": ["west.1"]}, "compute.instances[0]", ["region 'cn-east'"]),
    ("instance of a wrong type", P, {"compute.instances": [5]}, "compute.instances[0]", ["catalog name or amounts"]),
    ("instances repeated", P, {"compute.instances": ["gpu.h100-8"] * 2}, "compute.instances[1]", ["listed twice"]),
    ("instances of two kinds", P, {"compute.instances": ["gpu.h100-8", "cpu.16"]}, "compute.instances[1]", ["mixed"]),
    (
        "in-place instances of two kinds",
        P,
        {"compute.instances": [IN_PLACE, IN_PLACE | {"gpu": 1}]},
        "compute.instances[1]",
        ["GPU and CPU"],
    ),
    ("in-place without memory", P, {"compute.instances": [{"cpu": 4}]}, "compute.instances[0].memory", ["is required"]),
    (
        "in-place quantity",
        P,
        {"compute.instances": [{"cpu": "4 cores", "memory": "1Gi"}]},
        "compute.instances[0].cpu",
        ["500m"],
    ),
    ("in-place GPUs", P, {"compute.instances": [IN_PLACE | {"gpu": -1}]}, "compute.instances[0].gpu", ["at least 0"]),
    (
        "in-place unknown key",
        P,
        {"compute.instances": [IN_PLACE | {"gpus": 1}]},
        "compute.instances[0].gpus",
        ["'gpu'"],
    ),
    (
        "no queue for the instance",
        P,
        {"compute": {"type": "spot", "instances": ["gpu.h100-8"]}},
        "compute",
        ["no queue", "on_demand"],
    ),
    (
        "no queue with the guarantee",
        P,
        {"compute": {"type": "spot", "instances": ["gpu.a100-8"], "guarantee": True}},
        "compute",
        ["guarantee: true"],
    ),
    (
        "no queue with the stability",
        P,
        {"compute": IDLE | {"stability": "high"}},
        "compute",
        ["stability high", "low/medium"],
    ),
    ("no queue in this cluster", P, {"compute": {"type": "spot", "instances": ["cpu.16"]}}, "compute", ["no queue"]),
    ("units at least 1", P, {"compute.units_per_replica": 0}, "compute.units_per_replica", ["at least 1"]),
    ("units whole", P, {"compute.units_per_replica": 1.5}, "compute.units_per_replica", ["not a whole number"]),
    (
        "fallback_after",
        P,
        {"compute.fallback_after": "soon"},
        "compute.fallback_after",
        ["'soon'", "90s, 15m or 1h30m"],
    ),
    ("priority on idle", P, {"compute": IDLE, "priority": "low"}, "priority", ["idle compute has no priority"]),
    ("guarantee on idle", P, {"compute": IDLE | {"guarantee": True}}, "compute.guarantee", ["can't be guaranteed"]),
    (
        "idle stability is required",
        P,
        {"compute": {"type": "idle", "instances": ["gpu.a100-8"]}},
        "compute.stability",
        ["is required"],
    ),
    ("idle stability", P, {"compute": IDLE | {"stability": "hgh"}}, "compute.stability", ["did you mean 'high'?"]),
    (
        "node in both lists",
        P,
        {"compute.nodes": {"only": ["a"], "exclude": ["a"]}},
        "compute.nodes.only[0]",
        ["also excluded"],
    ),
    ("node rule key", P, {"compute.nodes": {"include": ["a"]}}, "compute.nodes.include", ["unknown key"]),
    ("workers 1.5", P, {"workers": 1.5}, "workers", ["1.5 is not a whole number"]),
    ("workers 2.0", P, {"workers": 2.0}, "workers", ["2.0 is not a whole number"]),
    ("workers true", P, {"workers": True}, "workers", ["true is not a whole number"]),
    ("workers negative", P, {"workers": -1}, "workers", ["-1 is too small", "at least 0"]),
    ("workers without measure", P, {"workers": 10**5000}, "workers", ["a huge number is too large"]),
    ("workers text", P, {"workers": "two"}, "workers", ["'two' is not a whole number"]),
    ("priority", P, {"priority": "hihg"}, "priority", ["'hihg'", "did you mean 'high'?"]),
    # advanced
    *[
        (f"{field} {value!r}", P, {field: value}, field, ["more than 0"])
        for field in ("queue_timeout", "start_timeout", "fault_tolerance.hang_timeout")
        for value in (0, -5, "0s")
    ],
    ("queue_timeout text", P, {"queue_timeout": "1w"}, "queue_timeout", ["'1w' is no duration", "1h30m"]),
    ("queue_timeout true", P, {"queue_timeout": True}, "queue_timeout", ["is no duration"]),
    ("start_timeout without end", P, {"start_timeout": float("inf")}, "start_timeout", ["finite"]),
    ("start_timeout too long", P, {"start_timeout": 1e12}, "start_timeout", ["ten years"]),
    ("max_retries", P, {"fault_tolerance": {"max_retries": -1}}, "fault_tolerance.max_retries", ["at least 0"]),
    (
        "retry_on",
        P,
        {"fault_tolerance": {"max_retries": 1, "retry_on": ["node-lst"]}},
        "fault_tolerance.retry_on[0]",
        ["did you mean 'node-lost'?"],
    ),
    ("monitoring port 0", P, {"monitoring": {"port": 0}}, "monitoring.port", ["1 to 65535"]),
    ("monitoring port 65536", P, {"monitoring": {"port": 65536}}, "monitoring.port", ["1 to 65535"]),
    ("monitoring port is required", P, {"monitoring": {}}, "monitoring.port", ["is required"]),
    (
        "monitoring path",
        P,
        {"monitoring": {"port": 1, "path": "metrics"}},
        "monitoring.path",
        ["did you mean '/metrics'?"],
    ),
    ("image_pull_retries", P, {"image_pull_retries": -2}, "image_pull_retries", ["at least -1", "never give up"]),
    ("ssh", P, {"ssh": 1}, "ssh", ["neither true nor false"]),
    ("alert to is required", P, {"alerts": [{"events": ["failed"]}]}, "alerts[0].to", ["is required"]),
    ("alert to is empty", P, {"alerts": [{"events": ["failed"], "to": []}]}, "alerts[0].to", ["must not be empty"]),
    ("alert events is empty", P, {"alerts": [{"events": [], "to": ["x"]}]}, "alerts[0].events", ["must not be empty"]),
    (
        "alert event",
        P,
        {"alerts": [{"events": ["faild"], "to": ["x"]}]},
        "alerts[0].events[0]",
        ["did you mean 'failed'?"],
    ),
    ("alert event twice", P, {"alerts": [{"events": ["hang", "hang"], "to": ["x"]}]}, "alerts[0].events[1]", ["twice"]),
    (
        "alert queued_too_long alone",
        P,
        {"alerts": [{"events": ["queued_too_long"], "to": ["x"]}]},
        "alerts[0].events[0]",
        ["30m"],
    ),
    (
        "alert queued_too_long of nothing",
        P,
        {"alerts": [{"events": [{"queued_too_long": 0}], "to": ["x"]}]},
        "alerts[0].events[0].queued_too_long",
        ["more than 0"],
    ),
    (
        "alert event with an unknown key",
        P,
        {"alerts": [{"events": [{"queued_too_long": "5m", "queued_to_long": "5m"}], "to": ["x"]}]},
        "alerts[0].events[0].queued_to_long",
        ["did you mean 'queued_too_long'?"],
    ),
    (
        "patch of the name",
        P,
        {"kubernetes.patch": {"metadata": {"name": "x"}}},
        "kubernetes.patch.metadata.name",
        ["name_prefix"],
    ),
    ("patch of the kind", P, {"kubernetes.patch": {"kind": "Pod"}}, "kubernetes.patch.kind", ["may not be patched"]),
    ("patch with an object", P, {"kubernetes.patch": {"a": [object()]}}, "kubernetes.patch.a[0]", ["can't be sent"]),
    ("service account", P, {"kubernetes.service_account": "A_b"}, "kubernetes.service_account", ["Kubernetes"]),
    (
        "toleration key",
        P,
        {"kubernetes.tolerations": [{"efect": "NoSchedule"}]},
        "kubernetes.tolerations[0].efect",
        ["'effect'"],
    ),
    (
        "toleration effect",
        P,
        {"kubernetes.tolerations": [{"key": "a", "effect": "NoShedule"}]},
        "kubernetes.tolerations[0].effect",
        ["did you mean 'NoSchedule'?"],
    ),
    ("node selector", P, {"kubernetes.node_selector": {"-": "x"}}, "kubernetes.node_selector.-", ["label key"]),
    # ray
    ("head instance is required", R, {"ray.head": {"units": 2}}, "ray.head.instance", ["is required"]),
    ("head instance in the catalog", R, {"ray.head": {"instance": "cpu.61"}}, "ray.head.instance", ["'cpu.16'"]),
    ("head units", R, {"ray.head": {"instance": "cpu.16", "units": 0}}, "ray.head.units", ["at least 1"]),
    ("runtime_env key", R, {"ray.runtime_env": {"pips": []}}, "ray.runtime_env.pips", ["did you mean 'pip'?"]),
    (
        "runtime_env type",
        R,
        {"ray.runtime_env": {"env_vars": {"A": 1}}},
        "ray.runtime_env.env_vars.A",
        ["must be text"],
    ),
    ("runtime_env list", R, {"ray.runtime_env": {"pip": 5}}, "ray.runtime_env.pip", ["list of texts"]),
    (
        "runtime_env pip mapping",
        R,
        {"ray.runtime_env": {"pip": {"pip_check": True}}},
        "ray.runtime_env.pip.packages",
        ["required"],
    ),
    (
        "runtime_env config",
        R,
        {"ray.runtime_env": {"config": {"setup_timeout_seconds": 0}}},
        "ray.runtime_env.config.setup_timeout_seconds",
        ["-1"],
    ),
    (
        "runtime_env excludes",
        R,
        {"ray.runtime_env": {"pip": ["a"], "conda": "b"}},
        "ray.runtime_env",
        ["exclude each other"],
    ),
    (
        "runtime_env with an object",
        R,
        {"ray.runtime_env": {"conda": {"a": object()}}},
        "ray.runtime_env.conda.a",
        ["can't be sent"],
    ),
    (
        "runtime_env alone",
        R,
        {"ray.runtime_env": {"image_uri": "a", "pip": ["a"]}},
        "ray.runtime_env.image_uri",
        ["pip"],
    ),
    ("runtime_env text", R, {"ray.runtime_env": "pip: [a"}, "ray.runtime_env", ["not valid YAML"]),
    ("runtime_env of a wrong type", R, {"ray.runtime_env": 5}, "ray.runtime_env", ["must be a mapping"]),
    ("shared storage volume", R, {"ray.shared_storage": {}}, "ray.shared_storage.volume", ["is required"]),
    (
        "shared storage for one node",
        R,
        {"ray.shared_storage": {"volume": "scratch"}},
        "ray.shared_storage.volume",
        ["ReadWriteMany", "team-data"],
    ),
    (
        "shared storage read-only",
        R,
        {"ray.shared_storage": {"volume": "archive"}},
        "ray.shared_storage.volume",
        ["ReadOnlyMany"],
    ),
    (
        "a mount where shared storage stands",
        R,
        {"ray.shared_storage": {"volume": "team-data"}, "volumes": [VOLUME | {"mount_path": "/tmp/ray"}]},
        "volumes[0].mount_path",
        ["ray.shared_storage", "/tmp/ray"],
    ),
    ("keep_seconds", R, {"ray.debug": {"keep_seconds": -1}}, "ray.debug.keep_seconds", ["0 or more"]),
    ("fewer workers than the minimum", R, {"workers": 1, "ray.autoscaling": SCALES}, "workers", ["1 is less", "(2)"]),
    ("more workers than the maximum", R, {"workers": 9, "ray.autoscaling": SCALES}, "workers", ["9 is more", "(8)"]),
    (
        "minimum above maximum",
        R,
        {"ray.autoscaling": {"min_workers": 5, "max_workers": 4}},
        "ray.autoscaling.max_workers",
        ["less than min_workers (5)"],
    ),
    (
        "upscaling mode",
        R,
        {"ray.autoscaling": SCALES | {"upscaling_mode": "fast"}},
        "ray.autoscaling.upscaling_mode",
        ["conservative"],
    ),
    (
        "max_workers is required",
        R,
        {"ray.autoscaling": {"min_workers": 1}},
        "ray.autoscaling.max_workers",
        ["is required"],
    ),
]


@pytest.mark.parametrize("row", WRONG, ids=[row[0] for row in WRONG])
def test_wrong_form_names_path_value_rule_and_choice(row: Row, catalog: Catalog) -> None:
    _, kind, changes, path, fragments = row
    checked = check(changed(BASES[kind], changes), catalog=catalog)
    assert checked.task is None
    assert [problem.path for problem in checked.errors] == [path], checked.errors
    for fragment in fragments:
        assert fragment in checked.errors[0].message


DOUBTFUL: list[Row] = [
    *[
        (f"mount at {path}", P, {"volumes": [VOLUME | {"mount_path": path}]}, "volumes[0].mount_path", ["hides", part])
        for path, part in (
            ("/opt", "installed software"),
            ("/workspace", "working folder"),
            ("/usr", "programs"),
            ("/", "the whole image"),
            ("/root", "home folder"),
            ("/tmp", "temporary files"),
            ("/usr/local/x", "/usr/local/x"),
        )
    ],
    (
        "a mount inside another",
        P,
        {"volumes": [VOLUME, VOLUME | {"mount_path": "/volume/data/inner"}]},
        "volumes[1].mount_path",
        ["lies inside the mount of volumes[0] (team-data)"],
    ),
    ("a short hidden value", P, {"env": {"X": {"value": "abcd", "hidden": True}}}, "env.X", ["under 5 characters"]),
    ("Ray without dashboard", R, {"image": {"preset": "ray-slim", "version": "2.60"}}, "image", ["dashboard"]),
    (
        "a volume for one node",
        P,
        {"volumes": [VOLUME | {"name": "scratch"}], "workers": 1},
        "volumes[0].name",
        ["one node"],
    ),
    (
        "retry_on without retries",
        P,
        {"fault_tolerance": {"retry_on": ["code"]}},
        "fault_tolerance.retry_on",
        ["no effect"],
    ),
    ("TZ by hand", P, {"env": {"TZ": "UTC"}}, "env.TZ", ["timezone"]),
    (
        "a channel misspelt",
        P,
        {"alerts": [{"events": ["hang"], "to": ["nlp-onkall"]}]},
        "alerts[0].to[0]",
        ["nlp-oncall"],
    ),
    (
        "shared memory above the memory",
        P,
        {"compute.instances": [IN_PLACE], "shm_size": "17Gi"},
        "shm_size",
        ["more than the replica's memory"],
    ),
    (
        "ssh with a mount at /root",
        P,
        {"ssh": True, "volumes": [VOLUME | {"mount_path": "/root"}]},
        "volumes[0].mount_path",
        [],
    ),
]


@pytest.mark.parametrize("row", DOUBTFUL, ids=[row[0] for row in DOUBTFUL])
def test_doubtful_form_is_accepted_with_a_warning(row: Row, catalog: Catalog) -> None:
    _, kind, changes, path, fragments = row
    checked = check(changed(BASES[kind], changes), catalog=catalog)
    assert checked.errors == ()
    assert checked.task is not None
    assert {problem.path for problem in checked.warnings} == {path}
    for fragment in fragments:
        assert any(fragment in problem.message for problem in checked.warnings)


RIGHT: list[tuple[str, str, dict[Any, Any], str, Any]] = [
    ("workers 0 is the default", P, {}, "workers", 0),
    ("workers null is the default", P, {"workers": None}, "workers", 0),
    ("workers as rendered digits", P, {"workers": "2"}, "workers", 2),
    ("units as rendered digits", P, {"compute.units_per_replica": "4"}, "compute.units_per_replica", 4),
    ("boolean as rendered text", P, {"ssh": "true"}, "ssh", True),
    ("boolean as Python's text", P, {"visible_in_group": "False"}, "visible_in_group", False),
    ("duration as rendered digits", P, {"queue_timeout": "90"}, "queue_timeout", 90.0),
    ("duration in hours", P, {"start_timeout": "1h30m"}, "start_timeout", 5400.0),
    ("duration as a number", P, {"start_timeout": 0.5}, "start_timeout", 0.5),
    (
        "list as rendered text",
        P,
        {"compute.instances": "['gpu.h100-8', 'gpu.a100-8']"},
        "compute.instances",
        ("gpu.h100-8", "gpu.a100-8"),
    ),
    ("env numbers become text", P, {"env": {"A": 3}}, "env", {"A": "3"}),
    ("env booleans become text", P, {"env": {"A": True, "B": False}}, "env", {"A": "true", "B": "false"}),
    ("env floats lose nothing", P, {"env": {"A": 0.1 + 0.2}}, "env", {"A": "0.30000000000000004"}),
    ("env plain mapping", P, {"env": {"A": {"value": 1}}}, "env", {"A": "1"}),
    ("env not hidden", P, {"env": {"A": {"value": "x", "hidden": False}}}, "env", {"A": "x"}),
    ("label in unicode", P, {("labels", "who"): "数据组"}, "labels", {"team": "nlp", "who": "数据组"}),
    ("label of 200 characters", P, {("labels", "who"): "x y " * 50}, "labels", {"team": "nlp", "who": "x y " * 50}),
    ("label number", P, {("labels", "n"): 7}, "labels", {"team": "nlp", "n": "7"}),
    (
        "quantity in place",
        P,
        {"compute.instances": [{"cpu": "500m", "memory": "1.5Gi"}]},
        "compute.units_per_replica",
        1,
    ),
    ("image digest", P, {"image": "a/b:1@sha256:" + "0" * 64}, "image", "a/b:1@sha256:" + "0" * 64),
    ("image registry port", P, {"image": "localhost:5000/a"}, "image", "localhost:5000/a"),
    ("name prefix of 35", P, {"name_prefix": "a" * 35}, "name_prefix", "a" * 35),
    ("name prefix of digits", P, {"name_prefix": "7b"}, "name_prefix", "7b"),
    (
        "bash braces are no template",
        P,
        {"command": 'echo "${#list[@]}" "${x%%.*}"'},
        "command",
        'echo "${#list[@]}" "${x%%.*}"',
    ),
    ("runtime_env as text", R, {"ray.runtime_env": "pip: [optuna]\n"}, "ray.runtime_env", {"pip": ["optuna"]}),
    ("idle without priority", P, {"compute": IDLE}, "priority", "medium"),
    ("mount under /volume is silent", P, {"volumes": [VOLUME]}, "volumes.0.mount_path", "/volume/data"),
    ("image pulls for ever", P, {"image_pull_retries": -1}, "image_pull_retries", -1),
    (
        "model writable by choice",
        P,
        {"models": [{"name": "llama-8b", "mount_path": "/mnt/m", "read_only": False}]},
        "models.0.read_only",
        False,
    ),
]


@pytest.mark.parametrize("row", RIGHT, ids=[row[0] for row in RIGHT])
def test_right_form_is_read_without_a_word(row: tuple[str, str, dict[Any, Any], str, Any], catalog: Catalog) -> None:
    _, kind, changes, path, expected = row
    checked = check(changed(BASES[kind], changes), catalog=catalog)
    assert checked.errors == ()
    assert checked.warnings == ()
    value: Any = checked.task
    for part in path.split("."):
        value = value[int(part)] if part.isdigit() else getattr(value, part)
    assert value == expected
    assert type(value) is type(expected)


def test_all_errors_of_a_form_are_told_at_once(catalog: Catalog) -> None:
    form = changed(
        BASES[P],
        {
            "wrokers": 1,
            "workers": 1.5,
            "priority": "hihg",
            "env": {"RANK": "1", "X": None},
            "volumes": [VOLUME, VOLUME | {"name": "team-dat"}],
            "compute": {
                "type": "idle",
                "instances": ["gpu.a100-8", "gpu.a100-8"],
                "guarantee": True,
                "stability": "low",
            },
            "labels": {"team": "nlpp"},
            "region": "cn-eats",
        },
    )
    found = {problem.path for problem in check(form, catalog=catalog).errors}
    assert found == {
        "wrokers",
        "workers",
        "priority",
        "env.RANK",
        "env.X",
        "volumes[1].mount_path",
        "volumes[1].name",
        "compute.guarantee",
        "compute.instances[1]",
        "labels.team",
        "region",
    }
