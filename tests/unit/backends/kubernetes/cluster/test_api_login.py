"""A login that the server refuses is renewed, once for all who wait; TLS is checked both ways."""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
from base64 import b64encode
from dataclasses import replace
from pathlib import Path

import pytest
from aiohttp import web

from siflow_provider.backends.kubernetes.cluster.api import Api
from siflow_provider.backends.kubernetes.cluster.errors import Denied, Unavailable
from siflow_provider.backends.kubernetes.cluster.pace import Pace
from siflow_provider.backends.kubernetes.cluster.tls import Certificates, make_tls
from siflow_provider.backends.settings import Settings
from siflow_provider.errors import AccessDenied
from tests.unit.backends.kubernetes.cluster.certificates import Authority
from tests.unit.backends.kubernetes.cluster.conftest import connection, kubeconfig
from tests.unit.backends.kubernetes.cluster.fake_server import FakeServer, serving
from tests.unit.backends.kubernetes.cluster.fake_server import status as answer_of
from tests.unit.backends.kubernetes.cluster.things import PATH, THINGS, thing

ONE = THINGS.path("ml", "one")
CANARY = "canary-51be-token"


COUNTS = """
import json, sys
with open(sys.argv[1], "a+") as file:
    file.write("x")
    file.seek(0)
    token = f"token-{len(file.read())}"
version = "client.authentication.k8s.io/v1"
print(json.dumps({"apiVersion": version, "kind": "ExecCredential", "status": {"token": token}}))
"""


async def test_a_token_that_was_rotated_is_asked_for_once_for_all_who_wait(
    server: FakeServer, pace: Pace, tmp_path: Path
) -> None:
    server.put(PATH, thing("one"))
    server.token = "token-1"
    version = "client.authentication.k8s.io/v1"
    plugin = {"apiVersion": version, "command": sys.executable, "args": ["-c", COUNTS, str(tmp_path / "count")]}
    async with Api(connection(server.url, exec=plugin), pace=pace) as api:
        await api.get(ONE)
        server.token = "token-2"
        await asyncio.gather(*(api.get(ONE) for _ in range(20)))
    used = {request.headers["Authorization"] for request in server.requests}
    assert used == {"Bearer token-1", "Bearer token-2"}


async def test_who_hears_late_that_a_token_was_refused_uses_the_one_that_is_there_by_then(
    server: FakeServer, pace: Pace, tmp_path: Path
) -> None:
    renewed = asyncio.Event()

    async def refuses_late(_request: web.Request) -> web.StreamResponse:
        await renewed.wait()
        return answer_of(401, "Unauthorized", "Unauthorized")

    server.put(PATH, thing("one"))
    server.token = "token-1"
    version = "client.authentication.k8s.io/v1"
    plugin = {"apiVersion": version, "command": sys.executable, "args": ["-c", COUNTS, str(tmp_path / "count")]}
    async with Api(connection(server.url, exec=plugin), pace=pace) as api:
        server.faults["get"].append(refuses_late)
        late = asyncio.create_task(api.get(ONE))
        await server.came("get", 1)
        server.token = "token-2"
        await api.get(ONE)
        renewed.set()
        await late
    assert (tmp_path / "count").read_text() == "xx"


async def test_a_login_that_stays_refused_is_an_error_without_the_token(server: FakeServer, pace: Pace) -> None:
    server.token = "another"
    async with Api(connection(server.url, token=CANARY), pace=pace) as api:
        with pytest.raises(AccessDenied, match="Log in again") as raised:
            await api.get(ONE)
    assert server.count("get") == 2
    assert isinstance(raised.value, Denied)
    assert raised.value.__cause__ is None
    assert CANARY not in f"{raised.value!r} {raised.value} {raised.value.detail}"


async def test_a_token_with_an_end_is_renewed_before_the_server_refuses_it(
    server: FakeServer, pace: Pace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.put(PATH, thing("one"))
    token = tmp_path / "token"
    token.write_text("first")
    async with Api(connection(server.url, tokenFile=str(token)), pace=pace) as api:
        token.write_text("second")
        loop = asyncio.get_running_loop()
        later = loop.time() + 61
        monkeypatch.setattr(loop, "time", lambda: later)
        await api.get(ONE)
    assert server.requests[-1].headers["Authorization"] == "Bearer second"


async def test_a_file_that_is_gone_for_a_moment_leaves_the_old_token_in_use(
    server: FakeServer, pace: Pace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.put(PATH, thing("one"))
    token = tmp_path / "token"
    token.write_text("first")
    async with Api(connection(server.url, tokenFile=str(token)), pace=pace) as api:
        token.unlink()
        loop = asyncio.get_running_loop()
        later = loop.time() + 61
        monkeypatch.setattr(loop, "time", lambda: later)
        await api.get(ONE)
    assert server.requests[-1].headers["Authorization"] == "Bearer first"


def settings_of(url: str, authority: str, **user: str) -> Settings:
    config = kubeconfig(url, **{f"{name}-data": b64encode(pem.encode()).decode() for name, pem in user.items()})
    config["clusters"][0]["cluster"]["certificate-authority-data"] = b64encode(authority.encode()).decode()
    return Settings(backend="kubernetes", kubernetes={"kube_config": json.dumps(config)})


async def test_client_and_server_show_certificates(signer: Authority, pace: Pace, tmp_path: Path) -> None:
    mine = signer.sign("me")
    async with serving(tls=signer.server_context(tmp_path)) as server:
        server.put(PATH, thing("one"))
        user = {"client-certificate": mine.certificate, "client-key": mine.key}
        async with Api(settings_of(server.url, signer.pem, **user), pace=pace) as api:
            assert (await api.get(ONE))["metadata"]["name"] == "one"


def test_no_key_is_left_in_a_file(signer: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    mine = signer.sign("me")
    make_tls(Certificates(authority=signer.pem, client=mine.certificate, key=mine.key))
    assert list(tmp_path.iterdir()) == []


async def test_a_server_of_another_authority_is_not_trusted_unless_told_so(
    signer: Authority, pace: Pace, tmp_path: Path
) -> None:
    mine, other = signer.sign("me"), Authority()
    user = {"client-certificate": mine.certificate, "client-key": mine.key}
    async with serving(tls=signer.server_context(tmp_path)) as server:
        server.put(PATH, thing("one"))
        settings = settings_of(server.url, other.pem, **user)
        async with Api(settings, pace=replace(pace, tries=0)) as api:
            with pytest.raises(Unavailable, match="certificate that can't be trusted"):
                await api.get(ONE)
        trusting = settings.model_copy(update={"kubernetes": {**settings.kubernetes, "disable_verify_ssl": True}})
        async with Api(trusting, pace=pace) as api:
            assert (await api.get(ONE))["metadata"]["name"] == "one"


async def test_a_proxy_of_the_kubeconfig_is_used(pace: Pace) -> None:
    seen: list[str] = []

    async def through(request: web.Request) -> web.StreamResponse:
        seen.append(str(request.url))
        return web.json_response(thing("one"))

    async with serving() as proxy:
        proxy.faults["get"].append(through)
        config = kubeconfig("http://far.example:6443")
        config["clusters"][0]["cluster"]["proxy-url"] = proxy.url
        settings = Settings(backend="kubernetes", kubernetes={"kube_config": json.dumps(config)})
        async with Api(settings, pace=pace) as api:
            await api.get(ONE)
    assert seen == [f"http://far.example:6443{ONE}"]
