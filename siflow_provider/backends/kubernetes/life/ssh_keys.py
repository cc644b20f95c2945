"""The SSH key of a run: made when it is submitted, and kept in a Secret that goes with the job."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from siflow_provider.backends.kubernetes.metadata import object_metadata
from siflow_provider.backends.kubernetes.names import ssh_secret

if TYPE_CHECKING:
    from siflow_provider.core.protocol import Manifest

__all__ = ["key_secret"]


def key_secret(manifest: Manifest) -> dict[str, Any]:
    """Return a Secret with a fresh ed25519 key pair, as OpenSSH writes it."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

    key = Ed25519PrivateKey.generate()
    private = key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())
    public = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": object_metadata(manifest.task, manifest.context, ssh_secret(manifest.name)),
        "type": "Opaque",
        "stringData": {
            "id_ed25519": private.decode(),
            "id_ed25519.pub": f"{public.decode()} {manifest.name}\n",
        },
    }
