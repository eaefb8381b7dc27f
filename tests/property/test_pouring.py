"""Distribution of an amount on top of an existing load, compared with every possible distribution."""

from itertools import combinations_with_replacement, pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from rackspan.core.placement.engine.weighted_choice import poured

STRETCHES = st.lists(
    st.tuples(st.lists(st.tuples(st.integers(0, 4), st.booleans()), min_size=1, max_size=4), st.integers(0, 4)),
    min_size=1,
    max_size=3,
)


@given(STRETCHES)
def test_poured_makes_each_stretch_as_even_as_any_distribution(stretches):
    lies = np.array([load for candidates, _ in stretches for load, _ in candidates])
    able = np.array([may for candidates, _ in stretches for _, may in candidates])
    bounds = np.cumsum([0, *(len(candidates) for candidates, _ in stretches)])
    given_to = poured(lies, able, bounds, np.array([amount for _, amount in stretches]))
    assert (given_to >= 0).all()
    for (start, stop), (_, amount) in zip(pairwise(bounds), stretches, strict=True):
        own, may = given_to[start:stop], np.flatnonzero(able[start:stop])
        assert own[~able[start:stop]].sum() == 0
        assert own.sum() == (amount if len(may) else 0)
        ways = (
            sorted(lies[start:stop] + np.bincount(np.array(way, dtype=int), minlength=stop - start))
            for way in combinations_with_replacement(may, amount)
        )
        if len(may):
            squares = min(sum(load * load for load in way) for way in ways)
            assert sum((lies[start:stop] + own) ** 2) == squares
