#!/usr/bin/env python3
"""Tells when frames become readable in a final. Usage: watch-final.py OUTPUT-ROOT FRAMES WRITER-LOG SECONDS

The log has a line for each file of frames: its path, its first frame, and when it was closed. Prints how many files' patterns could be
read, the median, 99th percentile and longest time from a file's closing until then, and how often the final was made."""
import math
import pathlib
import sys
import time

import h5py

root, frames, log, patience = pathlib.Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3], float(sys.argv[4])
readable, final, known, made = {}, None, None, 0
until = time.monotonic() + patience
while len(readable) < frames and time.monotonic() < until:
    final = final or next(iter(path for path in root.rglob("*.h5") if ".azpipe" not in path.parts), None)
    stat = final.stat() if final else None
    state = stat and (stat.st_ino, stat.st_mtime_ns)
    if state == known:
        time.sleep(0.005)
        continue
    known, made = state, made + 1
    with h5py.File(final, "r", locking=False) as file:
        found = []
        file.visititems(lambda name, item: found.append(item) if name.endswith("/frame_status") else None)
        status = found[0][()]
    now = time.time()
    for frame in (status == 0).nonzero()[0]:
        readable.setdefault(int(frame), now)

closed = [line.rsplit(" ", 2) for line in open(log, encoding="utf-8")]
taken = sorted(readable[int(first)] - float(when) for _, first, when in closed if int(first) in readable)
print(f"{len(taken)} of {len(closed)} files, the final made {made} times")
if taken:
    median, most = taken[len(taken) // 2], taken[math.ceil(0.99 * len(taken)) - 1]
    print(f"from close to readable: median {median:.2f} s, p99 {most:.2f} s, longest {taken[-1]:.2f} s")
sys.exit(len(taken) != len(closed) or not taken or most >= 1)
