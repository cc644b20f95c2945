"""Airflow provider for AI training jobs.

Public names are resolved on use: importing this package loads neither Airflow nor a client library.
"""

from __future__ import annotations

__version__ = "0.1.0"
