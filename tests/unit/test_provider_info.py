"""What Airflow's provider manager reads is true: valid by Airflow's own schema, and every name in it exists."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import airflow
import jsonschema  # type: ignore[import-untyped]  # no types in the dev environment
import pytest
from airflow.plugins_manager import AirflowPlugin
from airflow.triggers.base import BaseTrigger

from siflow_provider.links import LINKS
from siflow_provider.plugin import SiflowPlugin
from siflow_provider.provider_info import get_provider_info

INFO = get_provider_info()
SCHEMA = Path(airflow.__file__).with_name("provider_info.schema.json")


def class_paths() -> Iterator[str]:
    yield from INFO["extra-links"]
    yield from INFO["notifications"]
    yield from (each["class-name"] for each in INFO["task-decorators"])
    yield from (each["hook-class-name"] for each in INFO["connection-types"])
    yield from (each["plugin-class"] for each in INFO["plugins"])


def modules(key: str) -> list[str]:
    return [name for each in INFO[key] for name in each["python-modules"]]


def test_the_description_is_valid_by_airflows_schema_and_uses_only_keys_that_it_knows() -> None:
    schema = json.loads(SCHEMA.read_text())
    jsonschema.validate(INFO, schema)
    assert set(INFO) <= set(schema["properties"])


@pytest.mark.parametrize("path", list(class_paths()))
def test_every_class_it_names_can_be_imported(path: str) -> None:
    module, _, name = path.rpartition(".")
    assert callable(getattr(import_module(module), name))


@pytest.mark.parametrize("key", ["operators", "sensors", "hooks", "triggers"])
def test_every_module_it_names_can_be_imported(key: str) -> None:
    assert all(import_module(name).__all__ for name in modules(key))


def test_every_trigger_that_we_ship_is_named() -> None:
    import siflow_provider.triggers

    folder = Path(siflow_provider.triggers.__file__).parent
    found = {f"siflow_provider.triggers.{path.stem}" for path in folder.glob("[!_]*.py")}
    holding = {name for name in found if any(map(is_trigger, vars(import_module(name)).items()))}
    assert {name for name in holding if has_own_trigger(name)} == set(modules("triggers"))


def is_trigger(item: tuple[str, Any]) -> bool:
    return isinstance(item[1], type) and issubclass(item[1], BaseTrigger)


def has_own_trigger(name: str) -> bool:
    return any(is_trigger(item) and item[1].__module__ == name for item in vars(import_module(name)).items())


def test_reading_it_imports_nothing() -> None:
    code = (
        "import json, sys; before = set(sys.modules); "
        "from siflow_provider.provider_info import get_provider_info; get_provider_info(); "
        "print(json.dumps(sorted(set(sys.modules) - before)))"
    )
    done = subprocess.run([sys.executable, "-S", "-c", code], capture_output=True, text=True, check=True)

    heavy = {"airflow", "pydantic", "yaml", "asyncio"}
    assert not heavy & set(json.loads(done.stdout))


def test_the_plugin_registers_every_link_of_the_operators() -> None:
    assert issubclass(SiflowPlugin, AirflowPlugin)
    assert SiflowPlugin.operator_extra_links == list(LINKS)
    assert SiflowPlugin.name == INFO["plugins"][0]["name"]
