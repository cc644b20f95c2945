"""Text that must arrive as it was written, though something on its way would expand it."""

from __future__ import annotations

import re

__all__ = ["DOLLAR_ENV", "TICK_ENV", "kubelet_literal", "submitter_literal"]

DOLLAR_ENV = "SIFLOW_DOLLAR"
TICK_ENV = "SIFLOW_BACKTICK"
_EXPANDED = re.compile(
    r"""
      \$\$                                             # becomes one dollar
    | \$ (?= [^\x00-\x7f] )                            # may tear the character apart
    | \$\( (?= [-.\w]* \) )                            # a variable's name
    | \$\( (?= [^)]*? \$ (?: [$(] | [^\x00-\x7f] ) )   # left alone up to the next `)`, so what is inside must not be
    """,
    re.VERBOSE,
)


def kubelet_literal(text: str) -> str:
    """Return `text` so that the kubelet, which turns `$$` into `$` and expands `$(NAME)`, gives it back unchanged.

    Only what it would change is doubled, so that a command reads in a manifest as it was written. A kubelet without
    the fix that came in 1.36 tears apart a character outside ASCII behind a `$`; with 1.34 the container then never
    starts.

    source: Kubernetes v1.36 third_party/forked/golang/expansion/expand.go; kubernetes/kubernetes#136323, #136325

    Example:
        >>> kubelet_literal("a $HOME $(date +%F) $(NAME) $$")
        'a $HOME $(date +%F) $$(NAME) $$$$'
    """
    return _EXPANDED.sub(lambda match: match[0].replace("$", "$$"), text)


def submitter_literal(text: str) -> str:
    r"""Return `text` so that it survives the double quotes of KubeRay's submit line.

    KubeRay escapes `"` and `\` there and nothing else, and it re-encodes the text first, so no escape of ours gets
    through; the two characters that bash expands come from variables of the submitter instead.

    source: KubeRay v1.6.0 controllers/ray/common/job.go (BuildJobSubmitCommand)
    """
    return text.replace("$", f"${{{DOLLAR_ENV}}}").replace("`", f"${{{TICK_ENV}}}")
