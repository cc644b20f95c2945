"""A container's argv and environment as the form writes them: Kubernetes' own expansion undone, words quoted for bash.

source: Kubernetes v1.36 third_party/forked/golang/expansion/expand.go
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from siflow_provider.backends.kubernetes.importing_parts import Notes, Placeholder
from siflow_provider.spec.base import is_template

__all__ = ["ENTRYPOINT", "INJECTED", "Argv", "before", "command_of", "expanded", "kept"]

ENTRYPOINT = Placeholder("{{ params.entrypoint }}")
"""Stands for the image's own entrypoint, which no manifest holds."""
_REFERENCE = re.compile(r"\$(\$|\([^)]*\)|.)?", re.DOTALL)
_SHELLS = {"bash": "bash", "/bin/bash": "bash", "/usr/bin/bash": "bash", "sh": "sh", "/bin/sh": "sh"}
_FIRST_OF_BASH = """
    ! . : [ [[ { } alias bg bind break builtin caller case cd command compgen complete compopt continue
    coproc declare dirs disown do done echo elif else enable esac eval exec exit export false fc fg fi
    for function getopts hash help history if in jobs kill let local logout mapfile popd printf pushd
    pwd read readarray readonly return select set shift shopt source suspend test then time times trap
    true type typeset ulimit umask unalias unset until wait while
"""
_OF_BASH = frozenset(_FIRST_OF_BASH.split())
"""Words that bash, standing first, would not look for as a program."""
INJECTED = ("MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "RANK")
"""What the training operator adds to a container's environment, so that `$(NAME)` of them is expanded."""


@dataclass(slots=True)
class Argv:
    """What a container starts.

    Attributes:
        path: where the container stands.
        command: its own entrypoint; empty where the image's is used.
        args: what follows.
        known: names of environment variables that Kubernetes would expand in it -> the value, where it is plain text.
        folder: the working folder; None for the image's own.
    """

    path: str
    command: list[str]
    args: list[str]
    known: Mapping[str, str | None] = field(default_factory=dict)
    folder: str | None = None


def expanded(text: str, look_up: Callable[[str], str | None]) -> str:
    """Return `text` as the kubelet gives it to the container; `look_up` returns None for a name that is not there.

    Example:
        >>> expanded("$$HOME $(A) $(B)", {"A": "1"}.get)
        '$HOME 1 $(B)'
    """
    return "".join(piece for piece, _ in _pieces(text, look_up))


def kept(text: str) -> str:
    """Return `text` so that Airflow's templates leave it alone: braces of the manifest are the author's own.

    Example:
        >>> kept("--format {{.Name}}")
        '{% raw %}--format {{.Name}}{% endraw %}'
    """
    if isinstance(text, Placeholder) or not is_template(text):
        return text
    if "endraw" in text:
        return Placeholder(f"{{{{ {json.dumps(text, ensure_ascii=False)} }}}}")
    return Placeholder(f"{{% raw %}}{text}{{% endraw %}}")


def command_of(argv: Argv, notes: Notes) -> str:
    """Return one bash command that starts exactly this argv, or the script itself where the argv is a shell and it."""
    script = _script(argv, notes)
    return script if argv.folder is None else before(f"cd -- {shlex.quote(argv.folder)} || exit", script)


def before(line: str, script: str) -> str:
    """Return the script with a line in front, templates in it left to who puts the form together."""
    return Placeholder(f"{kept(line)}\n{script}") if isinstance(script, Placeholder) else f"{line}\n{script}"


def _script(argv: Argv, notes: Notes) -> str:
    words = [*argv.command, *argv.args]
    if not argv.command and words[:1] and words[0] in _SHELLS:
        why = "the image's own entrypoint, where it has one, is passed over, since a shell stands first in `args`"
        notes.say(f"{argv.path}.args", why)
    elif not argv.command:
        why = f"the image's own entrypoint is started, and no manifest holds it: write it in place of {ENTRYPOINT}"
        notes.say(f"{argv.path}.command", why)
        return Placeholder(" ".join([ENTRYPOINT, *(kept(_word(word, argv)) for word in words)]))
    shell = _SHELLS.get(words[0])
    if shell is not None and words[1:-1] == ["-c"] and words[-1].strip():
        if shell == "sh":
            notes.say(f"{argv.path}.command", f"bash runs the script here, and not {words[0]}")
        return _shell_text(words[-1], argv, notes)
    first = _word(words[0], argv)
    own = words[0] in _OF_BASH or "=" in words[0]
    return " ".join(["exec " + first if own else first, *(_word(word, argv) for word in words[1:])])


def _shell_text(text: str, argv: Argv, notes: Notes) -> str:
    """Return a script, plain values of `$(NAME)` put into it; others are bash's to look up."""
    at_start = [name for _, name in _pieces(text, lambda name: name if name in argv.known else None) if name]
    for name in dict.fromkeys(name for name in at_start if argv.known[name] is None):
        why = f"$({name}) was put in by Kubernetes and is ${{{name}}} of bash here; mind the quotes around it"
        notes.say(f"{argv.path}.command", why)

    def look_up(name: str) -> str | None:
        if name not in argv.known:
            return None
        value = argv.known[name]
        return f"${{{name}}}" if value is None else value

    return expanded(text, look_up)


def _word(word: str, argv: Argv) -> str:
    """Return one word of the argv, quoted; `$(NAME)` that Kubernetes would expand becomes bash's own variable."""
    out, plain = [], ""
    for piece, name in _pieces(word, lambda name: name if name in argv.known else None):
        if name is None:
            plain += piece
            continue
        out += [shlex.quote(plain)] if plain else []
        out.append(f'"${{{name}}}"')
        plain = ""
    if plain or not out:
        out.append(shlex.quote(plain))
    return "".join(out)


def _pieces(text: str, look_up: Callable[[str], Any]) -> Iterator[tuple[str, str | None]]:
    """Yield the text in pieces, each with the name of the variable that it is the value of, else None."""
    at = 0
    for match in _REFERENCE.finditer(text):
        yield text[at : match.start()], None
        at = match.end()
        what = match[1] or ""
        if what == "$":
            yield "$", None
        elif what.startswith("(") and len(what) > 1:
            value = look_up(what[1:-1])
            yield (match[0], None) if value is None else (value, what[1:-1])
        else:
            yield match[0], None
    yield text[at:], None
