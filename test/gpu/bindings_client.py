"""Uses the driver through NVIDIA's own cuda-bindings, as a program with a card does: allocates, copies, launches a
kernel, fails at the end of memory and frees. Each step is a fact of an H200; a step that differs ends the program."""

import sys

from cuda.bindings import driver as cuda

MIB = 1 << 20
PTX = b""".version 6.3
.target sm_70
.address_size 64
.visible .global .align 4 .b8 g[104857600];
.visible .entry k() { ret; }
\0"""


def value(result):
    """What a function returns beside its result, which is a success."""
    if result[0] != cuda.CUresult.CUDA_SUCCESS:
        raise AssertionError(f"the result is {result[0].name}, expected CUDA_SUCCESS")
    return result[1] if len(result) == 2 else result[1:]


def equal(found, expected, what):
    if found != expected:
        raise AssertionError(f"{what} is {found}, expected {expected}")


def fails(result, name):
    equal(result[0].name, name, "the result")


def free():
    return value(cuda.cuMemGetInfo())[0]


def takes(mib, run):
    before = free()
    result = run()
    equal((before - free()) / MIB, mib, "the memory that it takes, in MiB,")
    return result


def devices():
    equal(value(cuda.cuDeviceGetCount()), 1, "the number of devices")
    equal(value(cuda.cuDeviceGetName(64, 0)).split(b"\0")[0], b"NVIDIA H200", "the name")
    equal(value(cuda.cuDeviceTotalMem(0)) / MIB, 143155.9375, "the memory in MiB")
    attribute = cuda.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT
    equal(value(cuda.cuDeviceGetAttribute(attribute, 0)), 132, "the number of multiprocessors")
    equal(bytes(value(cuda.cuDeviceGetUuid(0)).bytes)[0], 0x6D, "the first byte of the UUID")


def allocations():
    pointer = takes(2, lambda: value(cuda.cuMemAlloc(1)))
    takes(0, lambda: value(cuda.cuMemAlloc(700 << 10)))
    takes(34, lambda: value(cuda.cuMemAlloc(33 * MIB + 5)))
    value(cuda.cuMemFree(pointer))
    fails(cuda.cuMemFree(12345), "CUDA_ERROR_INVALID_VALUE")
    fails(cuda.cuMemAlloc(0), "CUDA_ERROR_INVALID_VALUE")


def copies():
    pointer = value(cuda.cuMemAlloc(4096))
    back = bytearray(9)
    value(cuda.cuMemcpyHtoD(pointer, b"some data", 9))
    value(cuda.cuMemcpyDtoH(back, pointer, 9))
    equal(bytes(back), b"some data", "what was copied")
    value(cuda.cuMemsetD8(pointer, 65, 9))
    value(cuda.cuMemcpyDtoH(back, pointer, 9))
    equal(bytes(back), b"A" * 9, "what was filled")
    value(cuda.cuMemFree(pointer))


def launches():
    module = takes(100, lambda: value(cuda.cuModuleLoadData(PTX)))
    function = value(cuda.cuModuleGetFunction(module, b"k"))
    stream = value(cuda.cuStreamCreate(0))
    begin, end = value(cuda.cuEventCreate(0)), value(cuda.cuEventCreate(0))
    value(cuda.cuEventRecord(begin, stream))
    value(cuda.cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, stream, 0, 0))
    value(cuda.cuEventRecord(end, stream))
    value(cuda.cuStreamSynchronize(stream))
    value(cuda.cuEventElapsedTime(begin, end))
    fails(cuda.cuModuleGetFunction(module, b"other"), "CUDA_ERROR_NOT_FOUND")
    value(cuda.cuStreamDestroy(stream))
    takes(-100, lambda: value(cuda.cuModuleUnload(module)))


def location(properties):
    properties.location.type = cuda.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
    properties.location.id = 0


def virtual_memory():
    properties = cuda.CUmemAllocationProp()
    properties.type = cuda.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
    location(properties)
    fails(cuda.cuMemCreate(1, properties, 0), "CUDA_ERROR_INVALID_VALUE")
    handle = takes(64, lambda: value(cuda.cuMemCreate(64 * MIB, properties, 0)))
    pointer = takes(0, lambda: value(cuda.cuMemAddressReserve(128 * MIB, 0, 0, 0)))
    access = cuda.CUmemAccessDesc()
    location(access)
    access.flags = cuda.CUmemAccess_flags.CU_MEM_ACCESS_FLAGS_PROT_READWRITE
    takes(0, lambda: value(cuda.cuMemMap(pointer, 64 * MIB, 0, handle, 0)))
    takes(0, lambda: value(cuda.cuMemSetAccess(pointer, 64 * MIB, [access], 1)))
    takes(0, lambda: value(cuda.cuMemRelease(handle)))
    fails(cuda.cuMemUnmap(pointer, 32 * MIB), "CUDA_ERROR_INVALID_VALUE")
    takes(-64, lambda: value(cuda.cuMemUnmap(pointer, 64 * MIB)))
    value(cuda.cuMemAddressFree(pointer, 128 * MIB))


def pools():
    pool = value(cuda.cuDeviceGetDefaultMemPool(0))
    reserved = cuda.CUmemPool_attribute.CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT
    pointer = takes(32, lambda: value(cuda.cuMemAllocAsync(1, 0)))
    equal(int(value(cuda.cuMemPoolGetAttribute(pool, reserved))), 32 * MIB, "what is reserved")
    takes(0, lambda: value(cuda.cuMemFreeAsync(pointer, 0)))
    takes(-32, lambda: value(cuda.cuCtxSynchronize()))


def graphs():
    parameters = cuda.CUDA_MEM_ALLOC_NODE_PARAMS()
    parameters.poolProps = cuda.CUmemPoolProps()
    parameters.poolProps.allocType = cuda.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
    parameters.poolProps.location.type = cuda.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
    parameters.poolProps.location.id = 0
    parameters.bytesize = 256 * MIB
    graph = value(cuda.cuGraphCreate(0))
    node = takes(0, lambda: value(cuda.cuGraphAddMemAllocNode(graph, None, 0, parameters)))
    value(cuda.cuGraphAddMemFreeNode(graph, [node], 1, parameters.dptr))
    # The name has changed with version 12.
    instantiate = getattr(cuda, "cuGraphInstantiateWithFlags", None) or cuda.cuGraphInstantiate
    instance = takes(0, lambda: value(instantiate(graph, 0)))
    takes(256, lambda: value(cuda.cuGraphLaunch(instance, 0)))
    value(cuda.cuGraphExecDestroy(instance))
    takes(-256, lambda: value(cuda.cuDeviceGraphMemTrim(0)))


def end_of_memory():
    fails(cuda.cuMemAlloc(200 << 30), "CUDA_ERROR_OUT_OF_MEMORY")
    pointer = value(cuda.cuMemAlloc(free() // (2 * MIB) * (2 * MIB)))
    fails(cuda.cuMemAlloc(3 * MIB), "CUDA_ERROR_OUT_OF_MEMORY")
    fails(cuda.cuMemAllocAsync(64 * MIB, 0), "CUDA_ERROR_OUT_OF_MEMORY")
    fails(cuda.cuMemAlloc(2**63), "CUDA_ERROR_OUT_OF_MEMORY")
    value(cuda.cuMemFree(pointer))


def main():
    value(cuda.cuInit(0))
    value(cuda.cuCtxSetCurrent(value(cuda.cuDevicePrimaryCtxRetain(0))))
    equal(free() / MIB, 142629.125, "the free memory in MiB")
    failed = 0
    steps = (devices, allocations, copies, launches, virtual_memory, pools, graphs, end_of_memory)
    for step in steps:
        try:
            step()
        except AssertionError as error:
            print(f"{step.__name__}: {error}")
            failed += 1
    print(f"{len(steps) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
