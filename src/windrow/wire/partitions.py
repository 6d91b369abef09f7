"""Which partition a key belongs to: murmur2, as JVM producers choose it."""

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

_SEED: Final = 0x9747B28C
_MIX: Final = 0x5BD1E995
_POSITIVE: Final = 0x7FFFFFFF
_BITS: Final = 0xFFFFFFFF


def murmur2(key: bytes) -> int:
    """The hash of one key, without its sign."""
    whole = len(key) & ~3
    state = _SEED ^ len(key)
    for at in range(0, whole, 4):
        block = int.from_bytes(key[at : at + 4], "little") * _MIX & _BITS
        block = (block ^ block >> 24) * _MIX & _BITS
        state = state * _MIX & _BITS ^ block
    if whole < len(key):
        state = (state ^ int.from_bytes(key[whole:], "little")) * _MIX & _BITS
    state = (state ^ state >> 13) * _MIX & _BITS
    return (state ^ state >> 15) & _POSITIVE


def murmur2_of_all(keys: pa.Array) -> npt.NDArray[np.uint32]:
    """The hashes of binary keys, of which none is null."""
    _, offsets, data = keys.buffers()
    places = np.frombuffer(offsets, np.int32)[keys.offset : keys.offset + len(keys) + 1].astype(np.int64)
    content = np.zeros(len(data) + 4 if data else 4, np.uint8)  # the last block may reach beyond the end
    if data:
        content[:-4] = np.frombuffer(data, np.uint8)
    starts, lengths = places[:-1], np.diff(places)
    mix, state = np.uint32(_MIX), np.uint32(_SEED) ^ lengths.astype(np.uint32)
    blocks = lengths // 4
    for number in range(int(blocks.max(initial=0))):
        among = np.nonzero(blocks > number)[0]
        block = _block(content, starts[among] + 4 * number) * mix
        block = (block ^ block >> np.uint32(24)) * mix
        state[among] = state[among] * mix ^ block
    among = np.nonzero(lengths % 4)[0]
    rest = (lengths[among] % 4).astype(np.uint32)
    block = _block(content, starts[among] + 4 * blocks[among]) & ((np.uint32(1) << rest * np.uint32(8)) - np.uint32(1))
    state[among] = (state[among] ^ block) * mix
    state = (state ^ state >> np.uint32(13)) * mix
    result: npt.NDArray[np.uint32] = (state ^ state >> np.uint32(15)) & np.uint32(_POSITIVE)
    return result


def _block(content: npt.NDArray[np.uint8], at: npt.NDArray[np.int64]) -> npt.NDArray[np.uint32]:
    """Four bytes from each place on, as a number."""
    block = np.zeros(len(at), np.uint32)
    for place in range(4):
        block |= content[at + place].astype(np.uint32) << np.uint32(8 * place)
    return block
