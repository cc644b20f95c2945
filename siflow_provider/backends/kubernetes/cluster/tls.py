"""Certificates of a kubeconfig -> a TLS context. Blocks, so it is called in a thread.

The client library leaves keys in the folder for temporary files until the process ends well; here the one that OpenSSL
insists on is gone before the context is used.
"""

from __future__ import annotations

import ssl
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from siflow_provider.errors import UsageError

__all__ = ["Certificates", "make_tls"]


@dataclass(frozen=True)
class Certificates:
    """Whom to trust and what to show, in PEM.

    Attributes:
        authority: certificates of authorities; "" for the system's own.
        client: the client's certificate; "" for none.
        key: its key.
        verify: check the server.
    """

    authority: str = ""
    client: str = field(default="", repr=False)
    key: str = field(default="", repr=False)
    verify: bool = True


def make_tls(certificates: Certificates) -> ssl.SSLContext:
    """Return the TLS context.

    Raises:
        UsageError: a certificate or key is none.
    """
    try:
        context = ssl.create_default_context(cadata=certificates.authority or None)
        # clusters' own authorities often lack what strict mode (Python 3.13's default) and nobody else asks for
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        if certificates.client:
            _show(context, certificates)
    except (ssl.SSLError, ValueError) as error:
        raise UsageError(f"a certificate or key of the kubeconfig can't be used: {type(error).__name__}.") from None
    if not certificates.verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _show(context: ssl.SSLContext, certificates: Certificates) -> None:
    with tempfile.TemporaryDirectory(prefix="siflow-tls-") as folder:  # readable by its owner only
        client = Path(folder) / "client.pem"
        client.write_text(f"{certificates.client}\n{certificates.key}\n", encoding="ascii")
        context.load_cert_chain(client)
