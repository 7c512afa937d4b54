#!/usr/bin/env python3
"""Opens each Lima file below a directory with h5py and reads its chunk index. Usage: open-files.py DIRECTORY"""
import os
import sys

import h5py

chunks = 0


def count(_chunk):
    global chunks
    chunks += 1


for directory, _, names in os.walk(sys.argv[1]):
    if not os.path.basename(directory).startswith("scan"):
        continue
    for name in sorted(names):
        with h5py.File(os.path.join(directory, name), "r", locking=False) as file:
            file["/entry_0000/measurement/data"].id.chunk_iter(count)
print(chunks)
