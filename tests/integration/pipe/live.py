"""Writes scans as a beamline does while somebody follows: a master without SWMR that is kept open, and Lima files that grow.

    live.py DIRECTORY NAME --files N --frames N [--pause SECONDS] [--end whole|killed|dead] [--unflushed]

A line on stdout for each file that is closed: its path, its first frame, and seconds since 1970.
"""

import argparse
import os
import signal
import time

import h5py
import numpy

SHAPE = (195, 487)


def text(group, name, value):
    group.create_dataset(name, data=value, dtype=h5py.string_dtype())


def group(parent, name, kind):
    made = parent.create_group(name)
    made.attrs["NX_class"] = kind
    return made


def begin(path, files, frames):
    """A master with one scan that runs."""
    master = h5py.File(path, "w")
    master.attrs["NX_class"] = "NXroot"
    entry = group(master, "1.1", "NXentry")
    text(entry, "title", "timescan")
    text(entry, "start_time", f"2026-03-04T10:20:30.{os.path.basename(path).__hash__() % 1000:03d}")
    detector = group(group(entry, "instrument", "NXinstrument"), "pilatus", "NXdetector")
    text(detector, "type", "lima")
    parameters = group(detector, "acq_parameters", "NXcollection")
    parameters["acq_nb_frames"] = files * frames
    text(parameters, "saving_prefix", "pilatus_")
    group(entry, "measurement", "NXcollection")
    master.flush()
    return master


def end(master, names, frames, shape=SHAPE, dtype="i4"):
    """The scan has ended: the virtual dataset over its files."""
    entry = master["1.1"]
    layout = h5py.VirtualLayout(shape=(len(names) * frames, *shape), dtype=dtype)
    for index, name in enumerate(names):
        source = h5py.VirtualSource(name, "/entry_0000/measurement/data", shape=(frames, *shape))
        layout[index * frames : (index + 1) * frames] = source
    image = entry["instrument/pilatus"].create_virtual_dataset("image", layout)
    image.attrs["interpretation"] = "image"
    entry["instrument/pilatus/data"] = h5py.SoftLink("/1.1/instrument/pilatus/image")
    text(entry, "end_time", "2026-03-04T10:30:30")
    text(entry, "end_reason", "SUCCESS")
    master.close()


def write_file(path, first, frames, pause, dies_in_the_middle, unflushed):
    """A Lima file: it grows frame by frame, and says when it is closed. Without flushes, HDF5 writes what the file holds as it closes it, and
    until then the file looks damaged."""
    with h5py.File(path, "w") as file:
        entry = group(file, "entry_0000", "NXentry")
        measurement = group(entry, "measurement", "NXcollection")
        data = measurement.create_dataset(
            "data", (0, *SHAPE), maxshape=(None, *SHAPE), chunks=(1, *SHAPE), dtype="i4", compression="gzip", compression_opts=1
        )
        for frame in range(frames):
            if dies_in_the_middle and frame == frames // 2:
                file.flush()
                os.kill(os.getpid(), signal.SIGKILL)
            data.resize(frame + 1, axis=0)
            data[frame] = numpy.full(SHAPE, 1 + first + frame, "i4")
            if not unflushed:
                file.flush()
            time.sleep(pause / frames / 2)
        text(entry, "end_time", "2026-03-04T10:20:31")
        if not unflushed:
            file.flush()
        # It says that it is closed, and is not yet.
        time.sleep(min(0.1, pause / 4))
        entry.attrs["default"] = "measurement"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("directory")
    parser.add_argument("name")
    parser.add_argument("--files", type=int, required=True)
    parser.add_argument("--frames", type=int, required=True)
    parser.add_argument("--pause", type=float, default=0.0)
    parser.add_argument("--end", choices=["whole", "killed", "dead"], default="whole")
    parser.add_argument("--unflushed", action="store_true")
    args = parser.parse_args()
    scan = os.path.join(args.directory, args.name, "scan0001")
    os.makedirs(scan)
    master = begin(os.path.join(args.directory, args.name, f"{args.name}.h5"), args.files, args.frames)
    names = [f"scan0001/pilatus_{number:04d}.h5" for number in range(args.files)]
    for number, name in enumerate(names):
        path = os.path.join(args.directory, args.name, name)
        is_last = number == args.files - 1
        write_file(path, number * args.frames, args.frames, args.pause, is_last and args.end == "killed", args.unflushed)
        print(path, number * args.frames, time.time(), flush=True)
        time.sleep(args.pause / 2)
    if args.end == "dead":
        os.kill(os.getpid(), signal.SIGKILL)
    end(master, names, args.frames)


if __name__ == "__main__":
    main()
