#!/usr/bin/env python3
"""Writes a golden chunk: the frame of golden.rs, stored by the HDF5 library and the plugins of hdf5plugin.

    golden.py NAME DTYPE FILTER[:VALUE,...]...

NAME is that of the file in golden/. A NAME with `_be_` is stored in big-endian order; one with `_large` has eight times the rows, so
that codecs divide it into several blocks. Prints the row for golden.rs, whose client
values are those that the filter wrote into the file. Needs numpy, h5py and hdf5plugin.
"""
import sys
from pathlib import Path

import h5py
import hdf5plugin  # noqa: F401  registers the filters
import numpy as np

ROWS, COLUMNS = 61, 43


def frame(rows, dtype):
    values = np.arange(rows * COLUMNS, dtype=np.uint64) * np.uint64(2654435761) % np.uint64(1 << 32)
    values = np.where(values % np.uint64(17) == 0, values, values % np.uint64(5))
    if dtype.kind == "f":
        values = (values / 8).astype(dtype)
    return values.astype(dtype).reshape(rows, COLUMNS)


def main():
    name, kind, *filters = sys.argv[1:]
    dtype = np.dtype(kind)
    if "_be_" in name:
        dtype = dtype.newbyteorder(">")
    rows = ROWS * (8 if "_large" in name else 1)
    creation = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    creation.set_chunk((rows, COLUMNS))
    for given in filters:
        number, _, values = given.partition(":")
        creation.set_filter(int(number), 0, tuple(int(value) for value in values.split(",") if value))
    with h5py.File.in_memory() as file:
        space = h5py.h5s.create_simple((rows, COLUMNS))
        stored_type = h5py.h5t.py_create(dtype, logical=False)
        dataset = h5py.Dataset(h5py.h5d.create(file.id, b"frame", stored_type, space, creation))
        dataset[...] = frame(rows, dtype)
        file.flush()
        mask, chunk = dataset.id.read_direct_chunk((0, 0))
        assert mask == 0, "the filter refused the chunk"
        written = dataset.id.get_create_plist()
        filters = [written.get_filter(index) for index in range(written.get_nfilters())]
    (Path(__file__).parent / "golden" / f"{name}.bin").write_bytes(chunk)
    steps = ", ".join(f"({number}, &{list(values)})" for number, _, values, _ in filters)
    letter = {"u": "U", "i": "I", "f": "F"}[dtype.kind]
    print(f"    {name}: {letter}{dtype.itemsize * 8}, [{steps}];")


main()
