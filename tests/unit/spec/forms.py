"""Forms and a catalog to test with, and the means to change one place of them."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from siflow_provider.spec import Catalog, check

P, R = "PyTorchJob", "RayJob"
Row = tuple[str, str, dict[Any, Any], str, list[str]]
"""What the row is about, the kind, the changes, the path of the one problem, and parts of its message."""

DROP = object()
"""As a value: take the key out."""

CATALOG: dict[str, Any] = {
    "clusters": [
        {
            "region": "cn-east",
            "cluster": "alpha",
            "context": "alpha-admin",
            "dashboards": {"job": "https://grafana.example/d/job?var-job={name}&var-ns={namespace}"},
        },
        {"region": "cn-east", "cluster": "beta", "context": "beta-admin", "namespace": "beta-default"},
        {"region": "cn-west", "cluster": "gamma"},
    ],
    "identity": {"org": "example-org", "tenant": "t-0001"},
    "defaults": {
        "region": "cn-east",
        "cluster": "alpha",
        "project_group": "nlp",
        "timezone": "Asia/Shanghai",
        "image_pull_retries": 3,
        "default_queue": "anything",
    },
    "project_groups": {
        "nlp": {"namespace": "team-nlp", "owner": "nlp-leads"},
        "vision": {"namespace": "team-vision"},
        "guests": {},
    },
    "instances": {
        "gpu.h100-8": {
            "accelerator": "gpu",
            "resources": {"cpu": 96, "memory": "960Gi", "nvidia.com/gpu": 8},
            "node_selector": {"gpu-model": "h100"},
        },
        "gpu.a100-8": {
            "accelerator": "gpu",
            "resources": {"cpu": 64, "memory": "720Gi", "nvidia.com/gpu": 8},
            "node_selector": {"gpu-model": "a100"},
            "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
        },
        "cpu.16": {"accelerator": "cpu", "resources": {"cpu": 16, "memory": "64Gi"}},
        "west.1": {"resources": {"cpu": 1, "memory": "1Gi"}, "regions": ["cn-west"]},
    },
    "queues": [
        {"type": "reserved", "pool": "shared", "instance": "gpu.h100-8", "queue": "reserved-shared-h100"},
        {
            "type": "reserved",
            "pool": "vision-only",
            "instance": "gpu.a100-8",
            "queue": "reserved-vision-a100",
            "project_groups": ["vision"],
        },
        {
            "type": "reserved",
            "pool": "shared",
            "instance": "gpu.h100-8",
            "accept_idle": True,
            "stability": ["high", "medium"],
            "queue": "reserved-shared-h100-idle",
        },
        {"type": "on_demand", "instance": "gpu.h100-8", "queue": "od-h100", "resource_pool": "platform-pool"},
        {"type": "on_demand", "instance": "gpu.h100-8", "guarantee": True, "queue": "od-h100-guaranteed"},
        {"type": "on_demand", "instance": "gpu.a100-8", "queue": "od-a100"},
        {"type": "on_demand", "instance": "cpu.16", "queue": "od-cpu"},
        {"type": "spot", "instance": "gpu.a100-8", "queue": "spot-a100"},
        {"type": "idle", "instance": "gpu.a100-8", "stability": ["low", "medium"], "queue": "idle-a100"},
        {"type": "spot", "instance": "cpu.16", "queue": "spot-cpu-beta", "clusters": ["beta"]},
    ],
    "priorities": {"high": "wpc-high", "medium": "wpc-medium", "low": "wpc-low"},
    "images": {
        "preset": {
            "pytorch": {"versions": {"2.9-cuda12": "registry.example/ai/pytorch:2.9-cuda12"}},
            "ray": {"ray": True, "versions": {"2.60": "registry.example/ai/ray:2.60-gpu"}},
            "ray-slim": {"ray": True, "ray_dashboard": False, "versions": {"2.60": "registry.example/ai/ray:slim"}},
        },
        "custom": {"nlp-train": {"project_groups": ["nlp"], "versions": {"7": "registry.example/nlp/train:7"}}},
    },
    "volumes": {
        "team-data": {"pvc": "team-data", "access": "ReadWriteMany", "local": "~/siflow/team-data"},
        "scratch": {"pvc": "scratch-fast", "sub_path": "users/{user}", "access": "ReadWriteOnce"},
        "archive": {"pvc": "archive", "access": "ReadOnlyMany"},
        "vision-data": {"pvc": "vision-data", "project_groups": ["vision"]},
    },
    "datasets": {
        "imagenet": {"versions": {"2012": {"pvc": "datasets", "sub_path": "imagenet/2012"}}},
        "corpus": {"versions": {"1": {"pvc": "corpus"}, "2": {"pvc": "corpus", "sub_path": "v2"}}},
        "digits": {"local": "~/digits"},
    },
    "models": {"llama-8b": {"versions": {"3.1": {"pvc": "models", "sub_path": "llama/8b-3.1"}}}},
    "labels": {"required": ["team"], "allowed": {"team": ["nlp", "vision"], "stage": ["dev", "prod"]}},
    "persistent_env": [
        {"project_groups": ["nlp"], "env": {"HF_HOME": "/volume/data/hf", "WANDB_MODE": "offline"}},
        {"users": ["ann"], "env": {"EDITOR": "vi", "TOKEN": {"value": "anns-own-token", "hidden": True}}},
    ],
    "alerts": {"channels": {"nlp-oncall": {"connection": "apprise_nlp"}}},
}

PYTORCH: dict[str, Any] = {
    "kind": "PyTorchJob",
    "labels": {"team": "nlp"},
    "image": "registry.example/ai/pytorch:2.9",
    "command": "torchrun train.py",
    "compute": {"type": "on_demand", "instances": ["gpu.h100-8"]},
}
RAY: dict[str, Any] = {
    "kind": "RayJob",
    "labels": {"team": "nlp"},
    "image": "registry.example/ai/ray:2.60",
    "command": "python main.py",
    "compute": {"type": "spot", "instances": ["gpu.a100-8"]},
    "workers": 4,
}
BASES = {"PyTorchJob": PYTORCH, "RayJob": RAY}


def changed(base: dict[str, Any], changes: dict[Any, Any]) -> dict[str, Any]:
    """Return a copy of `base` with each `a.b` of `changes` set (numbers are places in lists), or taken out by DROP."""
    out = deepcopy(base)
    for path, value in changes.items():
        steps = path if isinstance(path, tuple) else tuple(int(p) if p.isdigit() else p for p in path.split("."))
        *parents, last = steps
        place: Any = out
        for part in parents:
            place = place.setdefault(part, {}) if isinstance(place, dict) else place[part]
        if value is DROP:
            del place[last]
        else:
            place[last] = value
    return out


def assert_wrong(row: Row, catalog: Catalog) -> None:
    """Assert that the changed form has the row's one problem, at its path, with all its parts in the message."""
    _, kind, changes, path, fragments = row
    checked = check(changed(BASES[kind], changes), catalog=catalog)
    assert checked.task is None
    assert [problem.path for problem in checked.errors] == [path], checked.errors
    for fragment in fragments:
        assert fragment in checked.errors[0].message
