"""The places where the contract is checked: one module a backend, each with a class that is a `World`.

A new backend adds its module here and one line in `conftest.py`; the tests stay as they are.
"""
