"""What a pod finds in itself to log in with. Blocks, so it is called in a thread.

source: https://kubernetes.io/docs/tasks/run-application/access-api-from-pod/
"""

from __future__ import annotations

import os
from pathlib import Path

from siflow_provider.backends.kubernetes.cluster.kubeconfig import FILE_LIFETIME, Credentials
from siflow_provider.backends.kubernetes.cluster.tls import Certificates
from siflow_provider.errors import UsageError

__all__ = ["FOLDER", "credentials_of_pod", "is_in_pod"]

FOLDER = Path("/var/run/secrets/kubernetes.io/serviceaccount")


def is_in_pod() -> bool:
    """Say whether this process runs in a pod with a service account."""
    return bool(os.environ.get("KUBERNETES_SERVICE_HOST")) and (FOLDER / "token").is_file()


def credentials_of_pod() -> Credentials:
    """Return the service account's; its token changes about every hour, so it is read again each minute.

    Raises:
        UsageError: this process does not run in a pod, or its pod has no service account.
    """
    host, port = os.environ.get("KUBERNETES_SERVICE_HOST", ""), os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    try:
        token = (FOLDER / "token").read_text(encoding="utf-8").strip() if host else ""
        authority = (FOLDER / "ca.crt").read_text(encoding="ascii") if token else ""
    except (OSError, UnicodeDecodeError):
        token = ""
    if not token:
        raise UsageError(
            "the connection says `in_cluster`, but this process finds no service account to log in with.",
            hint="Run it in a pod with a service account, or give the connection a kubeconfig.",
        )
    namespace = FOLDER / "namespace"
    return Credentials(
        server=f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}",
        namespace=namespace.read_text(encoding="utf-8").strip() if namespace.is_file() else "",
        authorization=f"Bearer {token}",
        certificates=Certificates(authority=authority),
        lifetime=FILE_LIFETIME,
    )
