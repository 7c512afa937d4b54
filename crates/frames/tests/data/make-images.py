#!/usr/bin/env python3
"""Writes the small images beside this file with fabio and NumPy, as users' programs write theirs."""
import os

import fabio
import numpy

os.chdir(os.path.dirname(os.path.abspath(__file__)))

# Differences that need one, two and four bytes in a CBF, and both of the Pilatus' invalid values.
counts = numpy.array([[-2, -1, 0, 1, 126], [127, 255, -1, 32767, 0], [65536, 2147483647, 0, 3, -2]], dtype="int32")
unsigned = numpy.arange(15, dtype="uint16").reshape(3, 5) * 4369
real = (numpy.arange(15, dtype="float32").reshape(3, 5) - 7) / 8

fabio.cbfimage.CbfImage(data=counts).write("counts.cbf")
fabio.tifimage.TifImage(data=counts).write("counts.tif")
fabio.tifimage.TifImage(data=unsigned).write("unsigned.tif")
fabio.tifimage.TifImage(data=real).write("real.tif")
stack = fabio.edfimage.EdfImage(data=counts)
stack.append_frame(data=counts[::-1])
stack.write("stack.edf")
fabio.edfimage.EdfImage(data=real).write("real.edf")
numpy.save("unsigned.npy", unsigned)
numpy.save("fortran.npy", numpy.asfortranarray(real))
numpy.save("big-endian.npy", counts.astype(">i4"))
numpy.save("mask.npy", counts < 0)
numpy.save("stack.npy", numpy.stack([counts, counts[::-1]]))
# 35 columns: rows of two integers with bits to spare.
wide = (numpy.arange(3 * 35).reshape(3, 35) * 7 % 5 == 0).astype("uint8")
fabio.fit2dmaskimage.Fit2dMaskImage(data=wide).write("wide.msk")
