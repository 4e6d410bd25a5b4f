"""Broadcasts buffers, numpy arrays and pickled objects, from every rank, over communicators of several
makings. Rank 0 prints what mpi4py says of its MPI and "CHECKED values are right"."""
import sys

import numpy
from mpi4py import MPI

world = MPI.COMM_WORLD
checked = 0


def check(got, expected, what):
    global checked
    same = numpy.array_equal(got, expected) if isinstance(expected, numpy.ndarray) else got == expected
    if not same:
        print(f"rank {world.rank}: {what}: wrong", file=sys.stderr, flush=True)
        world.Abort(1)
    checked += 1


def from_every_root(comm):
    for root in range(comm.size):
        is_root = comm.rank == root
        for count in (0, 1, 100, 3000, 20000):
            for kind in "bifd":
                expected = ((numpy.arange(count) * 7 + root) % 120).astype(kind)
                array = expected.copy() if is_root else numpy.full(count, -1, kind)
                comm.Bcast(array, root)
                check(array, expected, f"{count} of {kind}")
        data = bytearray(range(256)) if is_root else bytearray(256)
        comm.Bcast([data, MPI.BYTE], root)
        check(data, bytearray(range(256)), "bytes")
        table = numpy.full((50, 8), -1, "i")
        if is_root:
            table[:, 0] = numpy.arange(50)
        column = MPI.INT.Create_vector(50, 1, 8).Commit()
        comm.Bcast([table, 1, column], root)
        column.Free()
        check(table[:, 0], numpy.arange(50, dtype="i"), "a column")
        for thing in (None, 5, "text", {"a": [1, 2.5], "b": (root, "x")}, list(range(5000)), b"y" * 70000):
            check(comm.bcast(thing if is_root else None, root), thing, "an object")
        check(comm.bcast(numpy.arange(9000) if is_root else None, root), numpy.arange(9000), "a pickled array")


from_every_root(world)
with_copy = world.Dup()
from_every_root(with_copy)
with_copy.Free()
part = world.Split(world.rank % 2, -world.rank)
from_every_root(part)
part.Free()
total = world.reduce(checked)
if world.rank == 0:
    print(MPI.Get_library_version().split(",")[0].split("\n")[0])
    print(f"{total} values are right", flush=True)
