"""Human-readable numbers."""

from rackspan.core.text import few, plural, size


def test_plural_uses_the_singular_only_for_one():
    assert [plural(number, "topic") for number in (0, 1, 2_000)] == ["0 topics", "1 topic", "2,000 topics"]
    assert [plural(number, "replica is", "replicas are") for number in (1, 2)] == ["1 replica is", "2 replicas are"]


def test_size_uses_binary_units():
    assert [size(number) for number in (None, 512, 1536, 3 * 2**40)] == ["unknown", "512 B", "1.5 KiB", "3.0 TiB"]
    assert size(None, "?") == "?"


def test_size_that_is_rounded_up_to_a_unit_has_that_unit():
    sizes = (1023, 1023.7, 2**20 - 1, 2**30 - 1)
    assert [size(number) for number in sizes] == ["1,023 B", "1.0 KiB", "1.0 MiB", "1.0 GiB"]


def test_number_of_names_left_out_has_separators():
    assert few([*map(str, range(5_000))]).endswith(" and 4,990 more")
