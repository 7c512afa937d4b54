#!/usr/bin/env python3
"""Tells when frames become readable in a final. Usage: watch-final.py OUTPUT-ROOT FRAMES WRITER-LOG SECONDS

The log has a line for each file, all of as many frames: its path, its first frame, and when it was closed. Prints how many frames' patterns
could be read, the median, the 99th and 99.9th percentile and the longest time from a file's closing until then, and how often the final was
made. Ends with status 1 where a pattern was not to be read, or the 99th percentile is a second or longer."""
import math
import pathlib
import sys
import time

import h5py
import numpy

root, frames, log, patience = pathlib.Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3], float(sys.argv[4])
readable, final, known, made = {}, None, None, 0
seen = numpy.zeros(frames, bool)
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
    new = (status[:frames] == 0) & ~seen[: len(status)]
    seen[: len(status)] |= new
    readable.update((int(frame), now) for frame in new.nonzero()[0])

closed = [float(line.rsplit(" ", 1)[1]) for line in open(log, encoding="utf-8")]
per_file = frames // len(closed) if closed else frames
taken = sorted(when - closed[frame // per_file] for frame, when in readable.items() if frame // per_file < len(closed))
print(f"{len(taken)} of {frames} frames, the final made {made} times")
if taken:
    percentile = {part: taken[math.ceil(part * len(taken)) - 1] for part in (0.5, 0.99, 0.999, 1)}
    print("from close to readable: p50 {:.3f} s, p99 {:.3f} s, p99.9 {:.3f} s, longest {:.3f} s".format(*percentile.values()))
sys.exit(len(taken) != frames or percentile[0.99] >= 1)
