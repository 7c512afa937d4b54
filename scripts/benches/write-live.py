#!/usr/bin/env python3
"""Writes a scan of frames of a sample dataset while it is followed. Usage: write-live.py DATASET DIRECTORY FILES FRAMES RATE

FILES files of FRAMES frames each, RATE frames a second: chunks are copied as they are stored, so that the writer takes little of the
CPU. A line on stdout for each file that is closed: its path, its first frame, and seconds since 1970. Ends with status 1 where it
could not keep the rate."""
import glob
import os
import sys
import time

import h5py

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../../tests/integration/pipe"))
import live  # noqa: E402

dataset, directory = sys.argv[1:3]
files, frames, rate = (int(number) for number in sys.argv[3:])
with h5py.File(glob.glob(f"{dataset}/RAW_DATA/*/*/scan0001/*_0000.h5")[0], "r", locking=False) as file:
    data = file["/entry_0000/measurement/data"]
    shape, dtype = data.shape[1:], data.dtype
    filters = data.id.get_create_plist().copy()
    chunks = [data.id.read_direct_chunk((frame, 0, 0))[1] for frame in range(len(data))]

os.makedirs(f"{directory}/live/scan0001")
master = live.begin(f"{directory}/live/live.h5", files, frames)
names = [f"scan0001/pilatus_{number:04d}.h5" for number in range(files)]
start = time.monotonic()
late = 0.0
for number, name in enumerate(names):
    path = f"{directory}/live/{name}"
    with h5py.File(path, "w") as file:
        entry = live.group(file, "entry_0000", "NXentry")
        live.group(entry, "measurement", "NXcollection")
        space = h5py.h5s.create_simple((frames, *shape))
        written = h5py.h5d.create(entry["measurement"].id, b"data", h5py.h5t.py_create(dtype, logical=True), space, filters)
        for frame in range(frames):
            due = start + (number * frames + frame + 1) / rate - time.monotonic()
            if due > 0:
                time.sleep(due)
            late = max(late, -due)
            written.write_direct_chunk((frame, 0, 0), chunks[(number * frames + frame) % len(chunks)])
        live.text(entry, "end_time", "2026-03-04T10:20:31")
        del written
    print(path, number * frames, time.time(), flush=True)
live.end(master, names, frames, shape, dtype)
print(f"the writer was {late:.3f} s late at most", file=sys.stderr)
sys.exit(late > 0.5)
