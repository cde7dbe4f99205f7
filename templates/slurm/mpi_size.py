"""One MPI rank with no compiler: prints its rank, the size of the world, how many ranks answered, and its node."""

import ctypes
import socket

mpi = ctypes.CDLL("libmpi.so.40", mode=ctypes.RTLD_GLOBAL)
mpi.MPI_Init(None, None)


def constant(name: str) -> object:
    """Open MPI's constants are addresses of its own variables."""
    return ctypes.byref(ctypes.c_char.in_dll(mpi, "ompi_mpi_" + name))


world = constant("comm_world")
rank, size, answered = ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
mpi.MPI_Comm_rank(world, ctypes.byref(rank))
mpi.MPI_Comm_size(world, ctypes.byref(size))
mpi.MPI_Allreduce(ctypes.byref(ctypes.c_int(1)), ctypes.byref(answered), 1, constant("int"), constant("op_sum"), world)
print("mpi", rank.value, size.value, answered.value, socket.gethostname(), flush=True)
mpi.MPI_Finalize()
