"""Chunks behind HDF5's Fletcher-32, and whether the library still reads them once they are damaged.

A line a chunk: pixel type, filters (id:value,value;...), pixels and stored bytes in hex, and one digit a variant of the stored bytes:
each byte ^ 1, then each byte ^ 255, then the checksum's halves swapped as HDF5 before 1.6.3 stored them; 1 where h5py reads it.
"""

import sys

import h5py
import numpy

rng = numpy.random.default_rng(1)
file = h5py.File("in memory", "w", driver="core", backing_store=False)


def reads(dataset, stored):
    dataset.id.write_direct_chunk((0,), stored)
    try:
        dataset[()]
    except OSError:
        return "0"
    return "1"


def variants(stored):
    for flip in (1, 255):
        for at in range(len(stored)):
            yield stored[:at] + bytes([stored[at] ^ flip]) + stored[at + 1 :]
    yield stored[:-4] + bytes(stored[at] for at in (-3, -4, -1, -2))


number = 0
for dtype in ("u1", "i1", "u2", "i2", "u4", "i4", "u8", "f4", "f8"):
    for pixels in (1, 2, 7, 361, 1457):
        for options in ({}, {"compression": "gzip"}, {"compression": "gzip", "shuffle": True}):
            if pixels * numpy.dtype(dtype).itemsize > 3000 and options:
                continue
            values = rng.integers(0, 120, pixels).astype("<" + dtype)
            if pixels == 7:
                # Sums that are 0 and 65535 in ones' complement.
                values[:] = 0 if options else numpy.frombuffer(b"\xff" * values.nbytes, values.dtype)
            name = str(number)
            number += 1
            dataset = file.create_dataset(name, data=values, chunks=(pixels,), fletcher32=True, **options)
            plist = dataset.id.get_create_plist()
            filters = [plist.get_filter(index) for index in range(plist.get_nfilters())]
            shown = ";".join(f"{f[0]}:{','.join(map(str, f[2]))}" for f in filters)
            file.flush()
            mask, stored = dataset.id.read_direct_chunk((0,))
            assert mask == 0
            verdicts = "".join(reads(dataset, variant) for variant in variants(stored))
            assert reads(dataset, stored) == "1"
            sys.stdout.write(f"{dtype} {shown} {values.tobytes().hex()} {stored.hex()} {verdicts}\n")
