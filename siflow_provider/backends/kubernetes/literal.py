"""Text that must arrive as it was written, though something on its way would expand it."""

from __future__ import annotations

import re

__all__ = ["DOLLAR_ENV", "TICK_ENV", "kubelet_literal", "submitter_literal"]

DOLLAR_ENV = "SIFLOW_DOLLAR"
TICK_ENV = "SIFLOW_BACKTICK"
_RUN_OF_DOLLARS = re.compile(r"\$+(\()?")


def kubelet_literal(text: str) -> str:
    """Return `text` so that the kubelet, which turns `$$` into `$` and expands `$(NAME)`, gives it back unchanged.

    source: Kubernetes v1.36 third_party/forked/golang/expansion/expand.go

    Example:
        >>> kubelet_literal("a $HOME $(date) $$")
        'a $HOME $$(date) $$$$'
    """

    def double(match: re.Match[str]) -> str:
        run = match[0].rstrip("(")
        return match[0] if len(run) == 1 and match[1] is None else run + match[0]

    return _RUN_OF_DOLLARS.sub(double, text)


def submitter_literal(text: str) -> str:
    r"""Return `text` so that it survives the double quotes of KubeRay's submit line.

    KubeRay escapes `"` and `\` there and nothing else, and it re-encodes the text first, so no escape of ours gets
    through; the two characters that bash expands come from variables of the submitter instead.

    source: KubeRay v1.6.0 controllers/ray/common/job.go (BuildJobSubmitCommand)
    """
    return text.replace("$", f"${{{DOLLAR_ENV}}}").replace("`", f"${{{TICK_ENV}}}")
