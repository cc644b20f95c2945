"""The SSH key of a run: made when it is submitted, and kept in the Secret of its hidden variables, with the job."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from siflow_provider.backends.kubernetes.metadata import object_metadata
from siflow_provider.backends.kubernetes.names import SSH_KEYS, env_secret

if TYPE_CHECKING:
    from siflow_provider.core.protocol import Manifest

__all__ = ["with_key"]


def with_key(documents: list[dict[str, Any]], manifest: Manifest) -> list[dict[str, Any]]:
    """Return the objects of a run with a fresh ed25519 key pair, as OpenSSH writes it, in the run's Secret."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

    key = Ed25519PrivateKey.generate()
    private = key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())
    public = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
    name = env_secret(manifest.name)
    pair = dict(zip(SSH_KEYS, (private.decode(), f"{public.decode()} {manifest.name}\n"), strict=True))
    rest = [each for each in documents if each["kind"] != "Secret"]
    made: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": object_metadata(manifest.task, manifest.context, name),
        "type": "Opaque",
    }
    secret = next((each for each in documents if each["kind"] == "Secret"), made)
    return [*rest, {**secret, "stringData": {**secret.get("stringData", {}), **pair}}]
