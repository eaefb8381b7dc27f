"""Pseudo-random choices that are the same on every machine.

The plan that a user applies must be the plan that the user has reviewed. So there is no random generator: every
arbitrary choice is a hash of the seed, the purpose of the choice and the candidate. The hashes are MurmurHash3's 32-bit
finaliser and BLAKE2; neither depends on the version of Python or numpy.
"""

from hashlib import blake2b

import numpy as np
import numpy.typing as npt

_GOLDEN = 0x9E3779B1
_MASK = 0xFFFFFFFF


def seed_for(topic_name: str) -> int:
    """Return the default seed of a topic: 63 bits of the hash of its name."""
    return int.from_bytes(blake2b(topic_name.encode(), digest_size=8).digest(), "big") >> 1


def scrambled(seed: int, purpose: int, values: npt.NDArray[np.integer]) -> npt.NDArray[np.uint32]:
    """Return hashes of `values`, in the same shape, independent between seeds and between purposes."""
    key = _mixed((seed ^ (seed >> 32)) + _GOLDEN * (purpose + 1))
    mixed = values.astype(np.uint32)
    mixed *= np.uint32(_GOLDEN)
    mixed += np.uint32(key)
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        mixed ^= mixed >> np.uint32(shift)
        mixed *= np.uint32(factor)
    mixed ^= mixed >> np.uint32(16)
    return mixed


def _mixed(value: int) -> int:
    value &= _MASK
    value = ((value ^ (value >> 16)) * 0x85EBCA6B) & _MASK
    value = ((value ^ (value >> 13)) * 0xC2B2AE35) & _MASK
    return value ^ (value >> 16)
