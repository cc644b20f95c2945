"""Where things may be mounted, and what a mount would hide (docs/reference/form.md, Environment)."""

from __future__ import annotations

import posixpath
import re

__all__ = ["FORBIDDEN", "RAY_FOLDER", "hidden_by", "is_inside", "mount_path", "sub_path"]

FORBIDDEN = ("/proc", "/sys", "/dev", "/etc")
"""The kernel's and the container's own folders: nothing can be mounted there."""
RAY_FOLDER = "/tmp/ray"
"""Where a RayJob's shared storage stands."""
_IMAGE_FOLDERS = {
    "/opt": "installed software, often Python or CUDA itself",
    "/workspace": "the image's own working folder",
    "/usr": "the system's programs and libraries",
    "/root": "the home folder with its settings, caches and SSH keys",
    "/home": "the home folders with their settings and caches",
    "/tmp": "temporary files of every program",
    "/var": "the system's state and logs",
    "/bin": "the system's programs",
    "/sbin": "the system's programs",
    "/lib": "the system's libraries",
    "/lib64": "the system's libraries",
    "/run": "sockets and process files, mounted secrets among them",
    "/boot": "boot files",
    "/srv": "served files",
    "/app": "the image's own application",
}
_PLACEHOLDER = re.compile(r"\{([^{}]*)\}")


def mount_path(path: str) -> str:
    """Return the path when something may be mounted there.

    Raises:
        ValueError: not absolute, not normalised, with `..` or `:`, or in a folder of the kernel.
    """
    if not path.startswith("/"):
        raise ValueError(f"{path!r} is not absolute; did you mean {_normal('/' + path)!r}?")
    if ".." in path.split("/"):
        raise ValueError(f"{path!r} holds '..'; write the path that it means, such as {_normal(path)!r}")
    if path != _normal(path):
        raise ValueError(f"{path!r} is not normalised; did you mean {_normal(path)!r}?")
    if any(char in path for char in ":\n\r"):
        raise ValueError(f"{path!r} holds a colon or a line end, which no mount path may")
    for folder in FORBIDDEN:
        if is_inside(path, folder):
            raise ValueError(f"{path!r} is in {folder}, which belongs to the system; mount it under /volume or /mnt")
    return path


def sub_path(path: str) -> str:
    """Return the path inside a volume when it is one: relative, normalised, without `..`.

    Raises:
        ValueError: it is not, or it holds a placeholder other than `{user}`.
    """
    if path.startswith("/"):
        raise ValueError(f"{path!r} is absolute; a path inside a volume is relative, such as {path.strip('/')!r}")
    if not path or ".." in path.split("/") or posixpath.normpath(path) != path or path == ".":
        raise ValueError(f"{path!r} is not a normalised relative path without '..', such as 'runs/2024'")
    for name in _PLACEHOLDER.findall(path):
        if name != "user":
            raise ValueError(f"{path!r} holds {{{name}}}; the only placeholder is {{user}}")
    return path


def hidden_by(path: str) -> str | None:
    """Return what of the image a mount at `path` would hide; None when it hides nothing that images usually have."""
    if path == "/":
        return "it hides the whole image"
    for folder, content in _IMAGE_FOLDERS.items():
        if path == folder:
            return f"it hides {content}"
        if is_inside(path, folder):
            return f"it hides what the image has in {path} ({folder}: {content})"
    return None


def is_inside(path: str, folder: str) -> bool:
    """Say whether `path` is `folder` or lies below it."""
    return folder in (path, "/") or path.startswith(folder + "/")


def _normal(path: str) -> str:
    normal = posixpath.normpath(path)
    return normal[1:] if normal.startswith("//") else normal
