"""Write the golden manifests anew: `scripts/golden`. The difference is for a person to read."""

from __future__ import annotations

import sys

from tests.golden.manifests import (
    FORMS,
    GOLDEN,
    TRAINJOB_FORMS,
    golden,
    golden_trainjob,
    rendered,
    rendered_trainjob,
    written,
)
from tests.golden.platform import bodies


def main() -> None:
    """Write one file per form, and remove those that no form has any more."""
    kept = {golden(form) for form in FORMS}
    for stale in set(GOLDEN.glob("*.yaml")) - kept:
        stale.unlink()
    for form in FORMS:
        golden(form).write_text(written(rendered(form)), encoding="utf-8")
        sys.stdout.write(f"{golden(form).name}\n")
    for form in TRAINJOB_FORMS:
        golden_trainjob(form).write_text(written(rendered_trainjob(form)), encoding="utf-8")
        sys.stdout.write(f"trainjob/{form.stem}.yaml\n")
    for form in bodies.FORMS:
        bodies.golden(form).write_text(bodies.written(form), encoding="utf-8")
        sys.stdout.write(f"platform/{bodies.golden(form).name}\n")


if __name__ == "__main__":
    main()
