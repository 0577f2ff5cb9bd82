"""A program in a container with 4,096 MiB of a card: NVIDIA's cuda-bindings and nvidia-ml-py, with the libraries of
plugin/share in the places of libcuda.so.1 and libnvidia-ml.so.1, over the fake machine. share_client.py NVML, where NVML
is the machine's own, which tells what the card really shows. Each step ends at the limit, as on a card of this size."""

import ctypes
import sys

import pynvml
from cuda.bindings import driver as cuda

MIB = 1 << 20
LIMIT, CONTEXT = 4096, 528
card, outside, outside_card, before = None, None, ctypes.c_void_p(), 0


class Memory(ctypes.Structure):
    _fields_ = [("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong)]


def value(result):
    """What a function returns beside its result, which is a success."""
    if result[0] != cuda.CUresult.CUDA_SUCCESS:
        raise AssertionError(f"the result is {result[0].name}, expected CUDA_SUCCESS")
    return result[1] if len(result) == 2 else result[1:]


def equal(found, expected, what):
    if found != expected:
        raise AssertionError(f"{what} is {found}, expected {expected}")


def on_card():
    memory = Memory()
    assert outside.nvmlDeviceGetMemoryInfo(outside_card, ctypes.byref(memory)) == 0
    return memory.used / MIB


def agreed():
    """CUDA and NVML of the share say the same, and the card shows no more. Returns the free MiB."""
    free, total = (x / MIB for x in value(cuda.cuMemGetInfo()))
    equal(total, LIMIT, "CUDA's total")
    first = pynvml.nvmlDeviceGetMemoryInfo(card)
    second = pynvml.nvmlDeviceGetMemoryInfo(card, pynvml.nvmlMemory_v2)
    for memory in first, second:
        equal((memory.total / MIB, memory.free / MIB, memory.used / MIB), (LIMIT, free, LIMIT - free), "NVML")
    equal(second.reserved, 0, "what NVML calls reserved")
    if on_card() - before > LIMIT - free:
        raise AssertionError(f"the card shows {on_card() - before} MiB, and the share {LIMIT - free}")
    return free


def until_refused(take, step):
    taken = []
    while True:
        result = take()
        if result[0] == cuda.CUresult.CUDA_ERROR_OUT_OF_MEMORY:
            break
        taken.append(value(result))
        agreed()
    if not 0 <= agreed() < step:
        raise AssertionError(f"{agreed()} MiB are free at the end")
    return taken


def all_free():
    value(cuda.cuCtxSynchronize())
    equal(agreed(), LIMIT - CONTEXT, "what is free afterwards")


def linear():
    for pointer in until_refused(lambda: cuda.cuMemAlloc(64 * MIB), 64):
        value(cuda.cuMemFree(pointer))


def pool():
    for pointer in until_refused(lambda: cuda.cuMemAllocAsync(100 * MIB, 0), 132):
        value(cuda.cuMemFreeAsync(pointer, 0))


def handles():
    properties = cuda.CUmemAllocationProp()
    properties.type = cuda.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
    properties.location.type = cuda.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
    properties.location.id = 0
    for handle in until_refused(lambda: cuda.cuMemCreate(256 * MIB, properties, 0), 256):
        value(cuda.cuMemRelease(handle))


def captured():
    """Memory of a captured stream is taken when its graph is launched."""
    stream = value(cuda.cuStreamCreate(1))
    relaxed = cuda.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
    instantiate = getattr(cuda, "cuGraphInstantiateWithFlags", None) or cuda.cuGraphInstantiate
    before_capture = agreed()
    for mib, expected in (1024, "CUDA_SUCCESS"), (LIMIT, "CUDA_ERROR_OUT_OF_MEMORY"):
        value(cuda.cuStreamBeginCapture(stream, relaxed))
        pointer = value(cuda.cuMemAllocAsync(mib * MIB, stream))
        value(cuda.cuMemFreeAsync(pointer, stream))
        graph = value(cuda.cuStreamEndCapture(stream))
        equal(agreed(), before_capture, "what is free after the capture")
        instance = value(instantiate(graph, 0))
        equal(cuda.cuGraphLaunch(instance, 0)[0].name, expected, f"the launch of {mib} MiB")
        value(cuda.cuGraphExecDestroy(instance))
        value(cuda.cuDeviceGraphMemTrim(0))
    value(cuda.cuStreamDestroy(stream))


def main():
    global card, outside, before
    value(cuda.cuInit(0))
    pynvml.nvmlInit()
    # After both: the loader takes the first library of a name that is loaded, also by a path.
    outside = ctypes.CDLL(sys.argv[1])
    assert outside.nvmlInit_v2() == 0 and outside.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(outside_card)) == 0
    before = on_card()
    card = pynvml.nvmlDeviceGetHandleByIndex(0)
    equal(pynvml.nvmlDeviceGetMemoryInfo(card).used, 0, "what is used before a context")
    equal(value(cuda.cuDeviceTotalMem(0)) / MIB, LIMIT, "the memory of the device")
    value(cuda.cuCtxSetCurrent(value(cuda.cuDevicePrimaryCtxRetain(0))))
    failed = 0
    steps = (all_free, linear, pool, handles, captured)
    for step in steps:
        try:
            step()
            all_free()
        except AssertionError as error:
            print(f"{step.__name__}: {error}")
            failed += 1
    print(f"{len(steps) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
