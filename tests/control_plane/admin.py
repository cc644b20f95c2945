"""An admin's hands in the cluster: a small blocking client that shares nothing with the code under test."""

from __future__ import annotations

import base64
import ssl
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx
import yaml

Object = dict[str, Any]

_PLURALS = {
    "ClusterQueue": "clusterqueues",
    "Cohort": "cohorts",
    "LocalQueue": "localqueues",
    "ResourceFlavor": "resourceflavors",
    "Workload": "workloads",
    "WorkloadPriorityClass": "workloadpriorityclasses",
}
_WITHOUT_NAMESPACE = {
    "ClusterQueue",
    "ClusterRole",
    "ClusterRoleBinding",
    "Cohort",
    "CustomResourceDefinition",
    "Namespace",
    "Node",
    "PersistentVolume",
    "PriorityClass",
    "ResourceFlavor",
    "WorkloadPriorityClass",
}


class Refused(AssertionError):
    """The API server's answer to a test's own request was an error.

    Attributes:
        status: HTTP status.
    """

    def __init__(self, what: str, answer: httpx.Response) -> None:
        self.status = answer.status_code
        super().__init__(f"{what}: {answer.status_code} {answer.text[:2000]}")


def _context(kubeconfig: Path) -> tuple[str, ssl.SSLContext]:
    config = yaml.safe_load(kubeconfig.read_text())
    cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
    context = ssl.create_default_context(cadata=authority)
    with TemporaryDirectory() as folder:  # ssl reads a client's certificate from files only
        certificate, key = Path(folder, "crt"), Path(folder, "key")
        certificate.write_bytes(base64.b64decode(user["client-certificate-data"]))
        key.write_bytes(base64.b64decode(user["client-key-data"]))
        context.load_cert_chain(certificate, key)
    return cluster["server"], context


class Admin:
    """Makes, reads and removes objects; one per process, safe to use from several threads.

    A path is what the API server calls it ("/api/v1/nodes/gpu-0"); `path` makes it from an object's own words.

    Attributes:
        server: Address of the API server.
        tls: The admin's certificate, for a test's own client.
    """

    def __init__(self, kubeconfig: Path) -> None:
        self.server, self.tls = _context(kubeconfig)
        self._http = httpx.Client(
            base_url=self.server, verify=self.tls, timeout=30, trust_env=False, headers={"User-Agent": "test-admin"}
        )

    def path(self, kind: str, name: str = "", namespace: str = "", version: str = "") -> str:
        """Return the path of an object, or without a name of the whole collection.

        `version` is the apiVersion ("v1", "kubeflow.org/v1"); without it Kueue's is meant for Kueue's kinds, else "v1".
        """
        version = version or ("kueue.x-k8s.io/v1beta2" if kind in _PLURALS else "v1")
        plural = _PLURALS.get(kind) or kind.lower() + ("es" if kind.endswith("s") else "s")
        if kind.endswith("Policy"):
            plural = kind.lower().removesuffix("y") + "ies"
        root = "/apis/" if "/" in version else "/api/"
        place = "" if kind in _WITHOUT_NAMESPACE else f"/namespaces/{namespace or 'default'}"
        return root + version + place + "/" + plural + (f"/{name}" if name else "")

    def path_of(self, obj: Object) -> str:
        """Return the path of an object that is at hand."""
        meta = obj["metadata"]
        return self.path(obj["kind"], meta["name"], meta.get("namespace", ""), obj["apiVersion"])

    def request(self, method: str, path: str, body: object = None, **options: Any) -> Any:
        """Send one request; a status of 400 and above raises Refused."""
        answer = self._http.request(method, path, json=body, **options)
        if answer.is_error:
            raise Refused(f"{method} {path}", answer)
        return answer.json() if "json" in answer.headers.get("content-type", "") else answer.text

    def find(self, path: str) -> Object | None:
        """Return an object, or None when there is none."""
        try:
            found: Object = self.request("GET", path)
        except Refused as refused:
            if refused.status == httpx.codes.NOT_FOUND:
                return None
            raise
        return found

    def items(self, path: str, **params: str) -> list[Object]:
        """Return all objects of a collection; params: labelSelector, fieldSelector."""
        found: list[Object] = self.request("GET", path, params=params)["items"]
        return found

    def create(self, obj: Object) -> Object:
        """Create an object; an unknown field is refused."""
        path = self.path_of(obj).rpartition("/")[0]
        made: Object = self.request("POST", path, obj, params={"fieldValidation": "Strict"})
        return made

    def apply(self, text: str, namespace: str = "") -> list[Object]:
        """Create every object of a YAML text, in the namespace where one has none."""
        made = []
        for obj in yaml.safe_load_all(text):
            if obj["kind"] not in _WITHOUT_NAMESPACE:
                obj["metadata"].setdefault("namespace", namespace or "default")
            made.append(self.create(obj))
        return made

    def patch(self, path: str, body: Object, *, sub: str = "") -> Object:
        """Merge a patch into an object, or into its subresource ("status")."""
        changed: Object = self.request(
            "PATCH",
            path + (f"/{sub}" if sub else ""),
            body,
            headers={"Content-Type": "application/merge-patch+json"},
        )
        return changed

    def annotate(self, path: str, **annotations: str | None) -> Object:
        """Set the annotations that drive a fake pod (None removes one): duration="3", exit_code="1"."""
        words = {f"fakepod.test/{name.replace('_', '-')}": value for name, value in annotations.items()}
        return self.patch(path, {"metadata": {"annotations": words}})

    def delete(self, path: str, **params: str) -> None:
        """Delete an object, in the background; one that is gone is fine."""
        try:
            self.request("DELETE", path, params={"propagationPolicy": "Background", **params})
        except Refused as refused:
            if refused.status != httpx.codes.NOT_FOUND:
                raise

    def wait(
        self, path: str, wanted: Callable[[Object | None], object], what: str = "", seconds: float = 60
    ) -> Object | None:
        """Return an object once it is as wanted (None while there is none); says how it was, when it never is."""
        end = time.monotonic() + seconds
        while True:
            found = self.find(path)
            if wanted(found):
                return found
            if time.monotonic() > end:
                raise AssertionError(f"{path} is not as wanted after {seconds:g} s ({what}): {yaml.safe_dump(found)}")
            time.sleep(0.1)

    def answers(self) -> bool:
        """Return whether the API server is ready."""
        try:
            return bool(self.request("GET", "/readyz"))
        except (Refused, httpx.TransportError):
            return False

    def wait_until_it_answers(self, seconds: float = 120) -> None:
        """Return once the API server is ready, after a restart."""
        end = time.monotonic() + seconds
        while not self.answers():
            if time.monotonic() > end:
                raise AssertionError(f"the API server {self.server} is not back after {seconds:g} s")
            time.sleep(0.2)

    def close(self) -> None:
        """Close the connections."""
        self._http.close()


def condition(obj: Object | None, kind: str) -> str:
    """Return the status of one of an object's conditions ("True", "False", "Unknown"), "" when it has none."""
    conditions = ((obj or {}).get("status") or {}).get("conditions") or []
    return next((str(one["status"]) for one in conditions if one["type"] == kind), "")
