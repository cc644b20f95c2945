from __future__ import annotations

import subprocess
import sys

CODE = """
import sys
sys.modules["httpx"] = None
from siflow_provider.backends import make_backend
from siflow_provider.backends.settings import Settings
from siflow_provider.errors import UsageError
try:
    make_backend(Settings(backend="platform"))
except UsageError as error:
    print(error)
"""


def test_a_backend_whose_package_is_missing_says_what_to_install() -> None:
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)
    assert "'httpx', which is not installed" in done.stdout
    assert 'pip install "airflow-provider-siflow[platform]"' in done.stdout
