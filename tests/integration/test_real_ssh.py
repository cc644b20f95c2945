"""SSH between real pods: every replica reaches every other with the one key of its job."""

from __future__ import annotations

import asyncio
import base64
from pathlib import Path

from siflow_provider.core.outcome import OutcomeKind
from tests.contract.life import Told, run_to_end, texts
from tests.control_plane.admin import Admin
from tests.control_plane.plane import ControlPlane
from tests.control_plane.queues import Queues
from tests.control_plane.volumes import claim
from tests.integration.kubernetes_tasks import opened
from tests.integration.real_tasks import real_task

ROUND = """
[ "$RANK" = 0 ] || sleep 600
mapfile -t hosts < /root/hostfile.hostname
cat /root/hostfile
for host in "${hosts[@]}"; do ssh "$host" 'hostname; cut -d" " -f2 /run/siflow/ssh/authorized_keys'; done
ssh "${hosts[1]}" ssh "${hosts[2]}" ssh "${hosts[0]}" hostname
"""


async def test_every_replica_reaches_every_other_and_an_image_without_openssh_is_told_what_it_lacks(
    admin: Admin, control_plane: ControlPlane, namespace: str, queues: Queues, tmp_path: Path
) -> None:
    """Both at the same time. An empty folder over the one where Debian keeps sshd makes an image without it."""
    queue, good, bad = queues.queue("real"), Told(), Told()
    with claim(admin, namespace, tmp_path) as empty:
        hidden = [{"name": f"pvc:{empty}", "mount_path": "/usr/sbin"}]
        async with opened(control_plane.kubeconfig, namespace) as backend:
            (ended, (ref,)), (failed, _) = await asyncio.gather(
                run_to_end(backend, real_task(ROUND, queue=queue, workers=2, ssh=True), good),
                run_to_end(backend, real_task("echo never", queue=queue, workers=1, ssh=True, volumes=hidden), bad),
            )
    assert ended.outcome.kind is OutcomeKind.SUCCEEDED, good.everything
    hosts = [f"{ref.name}-{role}" for role in ("master-0", "worker-0", "worker-1")]
    secret = admin.find(admin.path("Secret", f"{ref.name}-env", namespace))
    assert secret is not None
    kind, key, _ = base64.b64decode(secret["data"]["ssh-key.pub"]).decode().split()
    assert kind == "ssh-ed25519"
    reached = [line for host in hosts for line in (host, key)]
    assert texts(good.lines, "master-0") == [*(f"{host} slots=1" for host in hosts), *reached, hosts[0]]
    failure = failed.outcome.failure
    assert failure is not None
    assert failure.last_lines[-1].startswith("siflow: ssh: the image has no sshd; install OpenSSH's server and client")
    assert "never" not in bad.everything
