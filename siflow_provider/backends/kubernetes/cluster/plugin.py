"""Runs a kubeconfig's exec plugin: a command that prints credentials. Blocks, so it is called in a thread.

The client library's own runner waits for ever, reads from the terminal and logs what the plugin wrote.
source: https://kubernetes.io/docs/reference/access-authn-authz/authentication/#client-go-credential-plugins
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from siflow_provider.errors import BackendError, BackendUnavailable

__all__ = ["run_plugin"]

_LONGEST_RUN = 60.0


def run_plugin(spec: Mapping[str, Any], *, folder: Path, cluster: Mapping[str, Any]) -> dict[str, Any]:
    """Return the `status` of the ExecCredential that the plugin prints.

    Args:
        spec: the `exec` part of a kubeconfig's user.
        folder: the kubeconfig's own: a command with a `/` in it counts from there, any other is looked for in `PATH`.
        cluster: what a plugin that asks for it (`provideClusterInfo`) is told about the cluster.

    Raises:
        BackendError: the plugin is not there, wants a terminal, or printed no ExecCredential; never quotes its output.
        BackendUnavailable: the plugin failed or did not end in time.
    """
    command = str(spec.get("command") or "")
    if spec.get("interactiveMode") == "Always":
        raise BackendError(
            f"the exec plugin {command!r} of the kubeconfig wants a terminal (`interactiveMode: Always`).",
            hint="There is none here: use a login that asks nobody, such as the token of a service account.",
        )
    argv = [str(folder / command) if os.sep in command else command, *map(str, spec.get("args") or [])]
    try:
        done = subprocess.run(
            argv, env=_environment(spec, cluster), stdin=subprocess.DEVNULL,
            capture_output=True, timeout=_LONGEST_RUN, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise BackendUnavailable(f"the exec plugin {command!r} gave no credentials in {_LONGEST_RUN:g} s.") from None
    except OSError as error:
        hint = str(spec.get("installHint") or "Install it where this process runs, or use another way to log in.")
        raise BackendError(
            f"the exec plugin {command!r} of the kubeconfig can't be run: {error.strerror}.", hint=hint
        ) from None
    if done.returncode != 0:
        raise BackendUnavailable(
            f"the exec plugin {command!r} ended with exit code {done.returncode}.",
            hint="Run it by hand: it may want you to log in.",
        )
    return _status(command, spec.get("apiVersion"), done.stdout)


def _environment(spec: Mapping[str, Any], cluster: Mapping[str, Any]) -> dict[str, str]:
    own = {str(item["name"]): str(item["value"]) for item in spec.get("env") or []}
    told = {"interactive": False, **({"cluster": cluster} if spec.get("provideClusterInfo") else {})}
    info = {"apiVersion": spec.get("apiVersion"), "kind": "ExecCredential", "spec": told}
    return {**os.environ, **own, "KUBERNETES_EXEC_INFO": json.dumps(info)}


def _status(command: str, api_version: Any, printed: bytes) -> dict[str, Any]:
    try:
        credential = json.loads(printed)
        status = credential["status"]
        if credential["kind"] == "ExecCredential" and credential["apiVersion"] == api_version:
            return dict(status)
        said = f"{credential['apiVersion']} {credential['kind']}"
    except (ValueError, KeyError, TypeError):
        said = "something else"
    raise BackendError(f"the exec plugin {command!r} must print an ExecCredential of {api_version}, not {said}.")
