from __future__ import annotations

from siflow_provider.backends.platform.signing import sign, signed_headers


def test_the_recipe_gives_the_known_signature() -> None:
    known = "48b9f7e19cd67ae3307b3ebb16120fc6ae6494bbe4c6aaf1194370455924af5c"
    assert sign("sk-test", "0123456789", "1700000000") == known


def test_each_attempt_has_headers_of_its_own() -> None:
    first, second = signed_headers("ak", "sk-test"), signed_headers("ak", "sk-test")
    assert first["Randstr"] != second["Randstr"]
    assert first["Signature"] != second["Signature"]
    assert set(first) == {"AppID", "Timestamp", "Randstr", "Signature"}
    assert len(first["Randstr"]) == 10
    assert "sk-test" not in str(first)
