"""A program with numba-cuda in a container with 4,096 MiB of a card, of which a context has 528, over the fake machine. It
sees its share, ends at the limit with the error of a full card, and has the memory again after it has freed it."""

import sys

import numpy
from numba import cuda
from numba.cuda.cudadrv.driver import CudaAPIError

MIB = 1 << 20
LIMIT, CONTEXT, STEP = 4096, 528, 64


def mib(context):
    """The free and total MiB."""
    memory = context.get_memory_info()
    return memory.free / MIB, memory.total / MIB


def until_refused():
    """Takes arrays of STEP MiB until there is no memory, and returns them with the error."""
    arrays = []
    while True:
        try:
            arrays.append(cuda.device_array(STEP * MIB, dtype=numpy.uint8))
        except CudaAPIError as error:
            return arrays, str(error)


def main():
    context = cuda.current_context()
    problems = []
    if mib(context) != (LIMIT - CONTEXT, LIMIT):
        problems.append(f"at the start {mib(context)} MiB are free and in all")
    arrays, error = until_refused()
    if "CUDA_ERROR_OUT_OF_MEMORY" not in error or len(arrays) != (LIMIT - CONTEXT) // STEP:
        problems.append(f"after {len(arrays)} arrays: {error}")
    arrays.clear()
    context.deallocations.clear()
    if mib(context) != (LIMIT - CONTEXT, LIMIT):
        problems.append(f"at the end {mib(context)} MiB are free and in all")
    print("; ".join(problems))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
