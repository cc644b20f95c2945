"""Writes a docker-archive image from layers, without docker and without a registry.

usage: image.py NAME:TAG OUT.tar CONFIG LAYER...

CONFIG is the image's own configuration as JSON ({"Env": [...], "Cmd": [...]}). A LAYER is a .tar file or a folder; the
marks that overlayfs leaves for deleted files are translated.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import stat
import sys
import tarfile
import tempfile
from pathlib import Path


def _is_whiteout(found: os.stat_result) -> bool:
    return stat.S_ISCHR(found.st_mode) and found.st_rdev == 0


def _add(tar: tarfile.TarFile, path: Path, inside: Path) -> None:
    found = path.lstat()
    if _is_whiteout(found):
        tar.addfile(tarfile.TarInfo(str(inside.parent / f".wh.{inside.name}")))
    elif not stat.S_ISSOCK(found.st_mode):
        tar.add(path, str(inside), recursive=False)
        if stat.S_ISDIR(found.st_mode) and "trusted.overlay.opaque" in os.listxattr(path):
            tar.addfile(tarfile.TarInfo(str(inside / ".wh..wh..opq")))


def _folder_as_tar(folder: Path) -> Path:
    with tempfile.NamedTemporaryFile(dir=folder.parent, suffix=".tar", delete=False) as out:
        with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as tar:
            for parent, folders, files in os.walk(folder):
                for name in sorted(folders + files):
                    path = Path(parent, name)
                    _add(tar, path, path.relative_to(folder))
        return Path(out.name)


def _layer(source: Path) -> tuple[Path, str]:
    path = _folder_as_tar(source) if source.is_dir() else source
    with path.open("rb") as file:
        return path, hashlib.file_digest(file, "sha256").hexdigest()


def _put(tar: tarfile.TarFile, name: str, data: bytes) -> None:
    info = tarfile.TarInfo(name)
    info.size = len(data)
    tar.addfile(info, io.BytesIO(data))


def write_image(name: str, out: Path, config: object, sources: list[Path]) -> None:
    layers = [_layer(source) for source in sources]
    image = {
        "architecture": "amd64",
        "os": "linux",
        "config": config,
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}" for _, digest in layers]},
    }
    encoded = json.dumps(image).encode()
    config_name = f"{hashlib.sha256(encoded).hexdigest()}.json"
    with tarfile.open(out, "w") as tar:
        for path, digest in layers:
            tar.add(path, f"{digest}.tar")
        _put(tar, config_name, encoded)
        names = [f"{digest}.tar" for _, digest in layers]
        manifest = [{"Config": config_name, "RepoTags": [name], "Layers": names}]
        _put(tar, "manifest.json", json.dumps(manifest).encode())


if __name__ == "__main__":
    write_image(sys.argv[1], Path(sys.argv[2]), json.loads(sys.argv[3]), [Path(layer) for layer in sys.argv[4:]])
