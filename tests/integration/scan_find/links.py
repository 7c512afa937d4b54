"""Makes random chains of links and virtual datasets in a directory, and says which of them h5py can read frames of."""

import json
import os
import random
import sys

import h5py
import numpy as np

root, seed = sys.argv[1], int(sys.argv[2])
rng = random.Random(seed)
FILES = ["a.h5", "b.h5", "sub/c.h5", "sub/d.h5"]
os.makedirs(root + "/sub", exist_ok=True)
files = {name: h5py.File(f"{root}/{name}", "w", libver=rng.choice(["earliest", "latest"])) for name in FILES}
nodes = []  # (file, path)
for index in range(3):
    name = rng.choice(FILES)
    path = rng.choice(["/raw%d", "/g%d/raw", "/g%d/deep/raw"]) % index
    files[name].create_dataset(path, data=np.full((3, 4, 5), index + 1, "u2"), chunks=(1, 4, 5))
    nodes.append((name, path))
def relative(holder, name):
    return os.path.relpath(name, os.path.dirname(holder) or ".")
for index in range(14):
    name = rng.choice(FILES)
    group = rng.choice(["", "/x", "/x/y"])
    f = files[name]
    path = f"{group}/l{index}"
    parent = f.require_group(group or "/")
    kind = rng.choice(["soft", "soft_relative", "external", "group_external", "virtual", "dangling"])
    other, target = rng.choice(nodes)
    if kind == "soft":
        same = [node for node in nodes if node[0] == name]
        if not same:
            continue
        parent[f"l{index}"] = h5py.SoftLink(rng.choice(same)[1]); nodes.append((name, path))
    elif kind == "soft_relative":
        near = [p for n, p in nodes if n == name and p.startswith(group + "/")]
        if not near:
            continue
        parent[f"l{index}"] = h5py.SoftLink(rng.choice(near)[len(group) + 1:]); nodes.append((name, path))
    elif kind == "external":
        parent[f"l{index}"] = h5py.ExternalLink(relative(name, other), target); nodes.append((name, path))
    elif kind == "group_external":
        up, last = target.rsplit("/", 1)
        parent[f"l{index}"] = h5py.ExternalLink(relative(name, other), up or "/"); nodes.append((name, f"{path}/{last}"))
    elif kind == "virtual":
        layout = h5py.VirtualLayout((3, 4, 5), "u2")
        source = "." if other == name else relative(name, other)
        layout[...] = h5py.VirtualSource(source, target, (3, 4, 5))
        f.create_virtual_dataset(path, layout); nodes.append((name, path))
    else:
        parent[f"l{index}"] = h5py.SoftLink("/nowhere") if rng.random() < 0.5 else h5py.ExternalLink("gone.h5", "/raw")
        nodes.append((name, path))
for f in files.values():
    f.close()
os.chdir("/")
out = []
for name, path in nodes:
    with h5py.File(f"{root}/{name}", "r") as f:
        try:
            data = f[path][...]
            value = int(data[0, 0, 0]) if data.shape == (3, 4, 5) and (data == data[0, 0, 0]).all() else 0
        except (KeyError, OSError):
            value = 0
    out.append([f"{root}/{name}::{path}", value])
print(json.dumps(out))
