"""Human-readable numbers."""

from rackspan.core.text import plural, size


def test_plural_uses_the_singular_only_for_one():
    assert [plural(number, "topic") for number in (0, 1, 2_000)] == ["0 topics", "1 topic", "2,000 topics"]
    assert [plural(number, "replica is", "replicas are") for number in (1, 2)] == ["1 replica is", "2 replicas are"]


def test_size_uses_binary_units():
    assert [size(number) for number in (None, 512, 1536, 3 * 2**40)] == ["unknown", "512 B", "1.5 KiB", "3.0 TiB"]
    assert size(None, "?") == "?"
