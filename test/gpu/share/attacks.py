#!/usr/bin/env python3
"""Small programs that try to get more memory of a card than their share: attacks.py CASE LIMIT_MIB, or: list

Each allocates in one way until the driver refuses, and compares the memory that NVML shows in use with that before.
It prints the case, the MiB on the card, the limit, and pass or fail.
"""

import ctypes
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time

MIB = 1 << 20
OUT_OF_MEMORY = 2
cu = None


class Location(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int), ("id", ctypes.c_int)]


class Properties(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int), ("handles", ctypes.c_int), ("location", Location),
                ("metadata", ctypes.c_void_p), ("flags", ctypes.c_ubyte * 8)]


class Pool(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int), ("handles", ctypes.c_int), ("location", Location),
                ("attributes", ctypes.c_void_p), ("most", ctypes.c_size_t), ("rest", ctypes.c_ubyte * 56)]


class Access(ctypes.Structure):
    _fields_ = [("location", Location), ("flags", ctypes.c_int)]


class Node(ctypes.Structure):
    _fields_ = [("pool", Pool), ("access", ctypes.c_void_p), ("count", ctypes.c_size_t),
                ("bytes", ctypes.c_size_t), ("address", ctypes.c_uint64)]


class Array(ctypes.Structure):
    _fields_ = [("width", ctypes.c_size_t), ("height", ctypes.c_size_t), ("depth", ctypes.c_size_t),
                ("format", ctypes.c_int), ("channels", ctypes.c_uint), ("flags", ctypes.c_uint)]


def size(value):
    return ctypes.c_size_t(value)


def pointer():
    return ctypes.c_uint64()


def on_card():
    out = subprocess.run(["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits", "-i", "0"],
                         capture_output=True, text=True, check=True).stdout
    return int(out)


def start():
    """CUDA with the primary context of the first card."""
    global cu
    cu = ctypes.CDLL("libcuda.so.1")
    check(cu.cuInit(0), "cuInit")
    context = ctypes.c_void_p()
    check(cu.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0), "retain")
    check(cu.cuCtxSetCurrent(context), "current")


def check(result, what):
    if result != 0:
        raise SystemExit(f"{what}: error {result}")


def info():
    free, total = size(0), size(0)
    check(cu.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total)), "info")
    return free.value // MIB, total.value // MIB


def until_refused(allocate, most=2_000_000):
    for done in range(most):
        result = allocate()
        if result != 0:
            return f"{done} granted, then {result}, free {info()[0]}"
    return f"{most} granted, never refused, free {info()[0]}"


def linear():
    return until_refused(lambda: cu.cuMemAlloc_v2(ctypes.byref(pointer()), size(64 * MIB)))


def rain():
    return until_refused(lambda: cu.cuMemAlloc_v2(ctypes.byref(pointer()), size(4096)))


def pieces():
    return until_refused(lambda: cu.cuMemAlloc_v2(ctypes.byref(pointer()), size(700 << 10)))


def odd_pieces():
    sizes = [513, 5000, 70_000, 300_000, 600_000, 1_100_000, 2_200_000]
    turn = [0]

    def one():
        turn[0] += 1
        return cu.cuMemAlloc_v2(ctypes.byref(pointer()), size(sizes[turn[0] % len(sizes)]))
    return until_refused(one)


def holes():
    """Frees all but one piece of each chunk, and begins again."""
    kept = []
    for piece in (4096, 16384, 65536, 262144):
        addresses = []
        for _ in range(1024 * MIB // piece):
            address = pointer()
            if cu.cuMemAlloc_v2(ctypes.byref(address), size(piece)) != 0:
                break
            addresses.append(address.value)
        per_chunk = 2 * MIB // piece
        for at, address in enumerate(addresses):
            if at % per_chunk:
                cu.cuMemFree_v2(ctypes.c_uint64(address))
            else:
                kept.append(address)
    return f"{len(kept)} pieces kept, " + linear()


def managed():
    def one():
        address = pointer()
        result = cu.cuMemAllocManaged(ctypes.byref(address), size(256 * MIB), 1)
        if result == 0:
            check(cu.cuMemsetD8_v2(address, 1, size(256 * MIB)), "memset")
            check(cu.cuCtxSynchronize(), "synchronize")
        return result
    return until_refused(one)


def pitch():
    return until_refused(lambda: cu.cuMemAllocPitch_v2(ctypes.byref(pointer()), ctypes.byref(size(0)), size(1000),
                                                       size(10000), 4))


def arrays():
    array = ctypes.c_void_p()
    shapes = [Array(1000, 1000, 0, 0x20, 1, 0), Array(100, 100, 100, 0x20, 1, 0), Array(1, 1, 0, 1, 1, 0),
              Array(4097, 4097, 0, 0x20, 4, 0), Array(33, 1000, 33, 0x10, 2, 0), Array(65000, 0, 0, 0x20, 4, 0)]
    turn = [0]

    def one():
        turn[0] += 1
        return cu.cuArray3DCreate_v2(ctypes.byref(array), ctypes.byref(shapes[turn[0] % len(shapes)]))
    return until_refused(one)


def mipmaps():
    array = ctypes.c_void_p()
    shape = Array(1024, 1024, 0, 0x20, 1, 0)
    return until_refused(lambda: cu.cuMipmappedArrayCreate(ctypes.byref(array), ctypes.byref(shape), 11))


def mapped():
    """Virtual memory whose handle is released after it is mapped."""
    bytes_, properties = 256 * MIB, Properties(1, 0, Location(1, 0), None)
    access = Access(Location(1, 0), 3)

    def one():
        handle, address = pointer(), pointer()
        result = cu.cuMemCreate(ctypes.byref(handle), size(bytes_), ctypes.byref(properties), ctypes.c_uint64(0))
        if result != 0:
            return result
        check(cu.cuMemAddressReserve(ctypes.byref(address), size(bytes_), size(0), ctypes.c_uint64(0),
                                     ctypes.c_uint64(0)), "reserve")
        check(cu.cuMemMap(address, size(bytes_), size(0), handle, ctypes.c_uint64(0)), "map")
        check(cu.cuMemSetAccess(address, size(bytes_), ctypes.byref(access), size(1)), "access")
        check(cu.cuMemRelease(handle), "release")
        return 0
    return until_refused(one)


def pool():
    handle = ctypes.c_void_p()
    properties = Pool(1, 0, Location(1, 0), None, 0)
    check(cu.cuMemPoolCreate(ctypes.byref(handle), ctypes.byref(properties)), "pool")
    return until_refused(lambda: cu.cuMemAllocFromPoolAsync(ctypes.byref(pointer()), size(100 * MIB), handle, None))


def default_pool():
    return until_refused(lambda: cu.cuMemAllocAsync(ctypes.byref(pointer()), size(100 * MIB), None))


def pool_reuse():
    """Allocates and frees 2 GiB in turn from a pool and directly."""
    for _ in range(20):
        address = pointer()
        check(cu.cuMemAllocAsync(ctypes.byref(address), size(2048 * MIB), None), "from the pool")
        check(cu.cuMemFreeAsync(address, None), "free")
        check(cu.cuCtxSynchronize(), "synchronize")
        check(cu.cuMemAlloc_v2(ctypes.byref(address), size(3000 * MIB)), "directly")
        check(cu.cuMemFree_v2(address), "free")
    return f"20 turns, free {info()[0]}"


def graph_of(mib):
    graph, node, exec_ = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
    access = Access(Location(1, 0), 3)
    what = Node(Pool(1, 0, Location(1, 0), None, 0), ctypes.addressof(access), 1, mib * MIB, 0)
    check(cu.cuGraphCreate(ctypes.byref(graph), 0), "graph")
    check(cu.cuGraphAddMemAllocNode(ctypes.byref(node), graph, None, size(0), ctypes.byref(what)), "node")
    check(cu.cuGraphInstantiateWithFlags(ctypes.byref(exec_), graph, ctypes.c_uint64(1)), "instantiate")
    return exec_


def graph():
    large, small = graph_of(5000), graph_of(3000)
    refused = cu.cuGraphLaunch(large, None)
    after = info()[0]
    results = [cu.cuGraphLaunch(small, None) for _ in range(3)]
    check(cu.cuCtxSynchronize(), "synchronize")
    return ("" if not any(results) else "FAIL: ") + f"5000 MiB: {refused}, free {after}; 3000 MiB: {results}, free {info()[0]}"


def stack():
    results = [cu.cuCtxSetLimit(0, size(kib << 10)) for kib in (8, 16, 64)]
    return f"8, 16, 64 KiB: {results}, free {info()[0]}"


def contexts():
    return until_refused(lambda: cu.cuCtxCreate_v2(ctypes.byref(ctypes.c_void_p()), 0, 0))


def forked():
    check(cu.cuMemAlloc_v2(ctypes.byref(pointer()), size(2048 * MIB)), "allocate")
    child = os.fork()
    if child == 0:
        os._exit(cu.cuMemAlloc_v2(ctypes.byref(pointer()), size(3000 * MIB)))
    return f"the child gets {os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])}, " + linear()


def holder(mib):
    """Another process that holds this much until it is killed."""
    return subprocess.Popen([sys.executable, __file__, f"hold-{mib}", "0"], stdout=subprocess.PIPE, text=True)


def killed():
    other = holder(2500)
    said = other.stdout.readline().strip()
    before = linear()
    other.send_signal(signal.SIGKILL)
    other.wait()
    return f"the other {said}; {before}; after the kill {linear()}"


def processes():
    others = [holder(64) for _ in range(64)]
    said = [other.stdout.readline().strip() for other in others]
    result = f"{said.count('holds')} of 64 hold 64 MiB; " + linear()
    return result, others


def hold(mib):
    try:
        start()
        check(cu.cuMemAlloc_v2(ctypes.byref(pointer()), size(mib * MIB)), "allocate")
        print("holds", flush=True)
    except SystemExit as error:
        print(f"does not hold: {error}", flush=True)
        return
    signal.pause()


def rain_freed():
    addresses = []
    while True:
        address = pointer()
        if cu.cuMemAlloc_v2(ctypes.byref(address), size(4096)) != 0:
            break
        addresses.append(address)
    frames = len({address.value >> 21 for address in addresses})
    full = on_card()
    for address in addresses:
        check(cu.cuMemFree_v2(address), "free")
    return f"{len(addresses)} pieces in {frames} chunks, {full} MiB on the card, after free {on_card()}; " + linear()


def handles():
    """Physical memory that is never mapped."""
    properties = Properties(1, 0, Location(1, 0), None)
    return until_refused(lambda: cu.cuMemCreate(ctypes.byref(pointer()), size(2 * MIB), ctypes.byref(properties),
                                                ctypes.c_uint64(0)))


def streams():
    for _ in range(64):
        check(cu.cuStreamCreate(ctypes.byref(ctypes.c_void_p()), 0), "stream")
    return linear()


def churn(seconds, seed):
    """Allocates and frees at random in all ways."""
    random_ = random.Random(seed)
    held, end, granted = [], time.monotonic() + seconds, 0
    properties = Properties(1, 0, Location(1, 0), None)
    while time.monotonic() < end:
        if held and random_.random() < 0.5:
            free, handle = held.pop(random_.randrange(len(held)))
            free(handle)
            continue
        address, way = pointer(), random_.randrange(4)
        much = random_.choice([4096, 70_000, 3 * MIB, 40 * MIB, 300 * MIB, 900 * MIB])
        if way == 0:
            result, free = cu.cuMemAlloc_v2(ctypes.byref(address), size(much)), cu.cuMemFree_v2
        elif way == 1:
            result = cu.cuMemAllocAsync(ctypes.byref(address), size(much), None)
            free = lambda handle: (cu.cuMemFreeAsync(handle, None), cu.cuStreamSynchronize(None))
        elif way == 2:
            result = cu.cuMemCreate(ctypes.byref(address), size((much + 2 * MIB) // (2 * MIB) * 2 * MIB),
                                    ctypes.byref(properties), ctypes.c_uint64(0))
            free = cu.cuMemRelease
        else:
            result = cu.cuMemAllocManaged(ctypes.byref(address), size(much), 1)
            free = cu.cuMemFree_v2
            if result == 0:
                cu.cuMemsetD8_v2(address, 1, size(much))
        if result == 0:
            granted += 1
            held.append((free, address))
        elif result != OUT_OF_MEMORY:
            raise SystemExit(f"way {way}: error {result}")
    return granted


def threads():
    context = ctypes.c_void_p()
    check(cu.cuCtxGetCurrent(ctypes.byref(context)), "current")
    granted = []

    def one(seed):
        cu.cuCtxSetCurrent(context)
        granted.append(churn(10, seed))
    running = [threading.Thread(target=one, args=(seed,)) for seed in range(8)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    return f"{granted} granted; " + linear()


def mixed():
    """Four processes at once, two of them killed and started again, with the most that was ever on the card."""
    def begin(seed):
        return subprocess.Popen([sys.executable, __file__, f"churn-{seed}", "0"])
    others, most, base = [begin(seed) for seed in range(4)], 0, on_card()
    for turn in range(60):
        most = max(most, on_card())
        if turn % 10 == 9:
            others[turn // 10 % 2].kill()
            others[turn // 10 % 2].wait()
            others[turn // 10 % 2] = begin(turn)
    for other in others:
        other.kill()
        other.wait()
    time.sleep(0.2)
    return f"at most {most} MiB on the card ({base} before the others); " + linear()


def executed():
    check(cu.cuMemAlloc_v2(ctypes.byref(pointer()), size(3000 * MIB)), "allocate")
    os.environ["ATTACK_BEFORE"] = os.environ["ATTACK_BASE"]
    os.execv(sys.executable, [sys.executable, __file__, "linear", sys.argv[2]])


def empty_environment():
    out = subprocess.run(["env", "-i", sys.executable, __file__, "hold-5000", "0"], stdout=subprocess.PIPE, text=True,
                         check=False).stdout.strip()
    return f"5000 MiB with no environment: {out}; " + linear()


def deep():
    global cu
    cu = ctypes.CDLL("libcuda.so.1", mode=os.RTLD_DEEPBIND | os.RTLD_LOCAL | os.RTLD_NOW)
    return linear()


def kernel(local, variable):
    """PTX of a kernel k with local memory for each thread and a variable x of this many bytes."""
    lines = [".version 7.0\n.target sm_52\n.address_size 64"]
    if variable:
        lines.append(f".visible .global .align 4 .b8 x[{variable}];")
    lines.append(".visible .entry k(.param .u64 p, .param .u32 n) {\n.reg .b32 %r<6>;\n.reg .b64 %d<8>;")
    if local:
        lines.append(f".local .align 4 .b8 stack[{local}];")
    lines.append("ld.param.u64 %d1, [p];\nld.param.u32 %r1, [n];\nmov.u32 %r3, %r1;")
    if local:
        lines.append("mov.u64 %d2, stack;\ncvt.u64.u32 %d3, %r1;\nadd.s64 %d4, %d2, %d3;\nst.local.u32 [%d4], %r1;\n"
                     "st.local.u32 [%d4+64], %r1;\nld.local.u32 %r3, [%d4+64];")
    if variable:
        lines.append("mov.u64 %d7, x;\ncvta.global.u64 %d7, %d7;\nst.u32 [%d7], %r3;")
    lines.append("cvta.to.global.u64 %d1, %d1;\nst.global.u32 [%d1], %r3;\nret;\n}")
    return "\n".join(lines).encode() + b"\0"


def launch(function):
    out, number = pointer(), ctypes.c_uint(0)
    check(cu.cuMemAlloc_v2(ctypes.byref(out), size(4)), "out")
    arguments = (ctypes.c_void_p * 2)(ctypes.addressof(out), ctypes.addressof(number))
    result = cu.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, None, arguments, None)
    return result or cu.cuCtxSynchronize()


def library(image):
    handle = ctypes.c_void_p()
    check(cu.cuLibraryLoadData(ctypes.byref(handle), image, None, None, 0, None, None, 0), "library")
    return handle


def globals_of_a_module():
    module = ctypes.c_void_p()
    image = kernel(0, 1024 * MIB)
    said = until_refused(lambda: cu.cuModuleLoadData(ctypes.byref(module), image))
    return f"modules of 1 GiB: {said}; " + linear()


def globals_of_libraries():
    """Their variables are taken when they are used first, by a question or by a launch."""
    image = kernel(0, 1024 * MIB)

    def ask():
        return cu.cuLibraryGetGlobal(ctypes.byref(pointer()), ctypes.byref(size(0)), library(image), b"x")

    def look_up_and_launch():
        function = ctypes.c_void_p()
        return cu.cuLibraryGetKernel(ctypes.byref(function), library(image), b"k") or launch(function)
    check(ask(), "ask")
    return "libraries of 1 GiB: " + until_refused(look_up_and_launch) + "; " + linear()


def globals_in_a_namespace():
    """The same in a PID namespace, where the process has another ID."""
    command = ["unshare", "-pf", "--mount-proc", sys.executable, __file__, "globals_of_a_module", sys.argv[2]]
    return "inside: " + subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False).stdout.strip()


def local_memory():
    """A launch takes local memory for all threads that the card can have."""
    results = []
    for local in (512, 4096, 65536):
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        check(cu.cuModuleLoadData(ctypes.byref(module), kernel(local, 0)), "module")
        result = cu.cuModuleGetFunction(ctypes.byref(function), module, b"k")
        results.append((local, result, launch(function) if result == 0 else "not launched", info()[0]))
    return f"{results}; " + linear()


def many_streams():
    return until_refused(lambda: cu.cuStreamCreate(ctypes.byref(ctypes.c_void_p()), 1), 20_000)


def exported():
    """A file keeps memory after its handle was released."""
    properties, files = Properties(1, 1, Location(1, 0), None), []

    def one():
        handle, file = pointer(), ctypes.c_int()
        result = cu.cuMemCreate(ctypes.byref(handle), size(256 * MIB), ctypes.byref(properties), ctypes.c_uint64(0))
        if result != 0:
            return result
        check(cu.cuMemExportToShareableHandle(ctypes.byref(file), handle, 1, ctypes.c_uint64(0)), "export")
        files.append(file)
        return cu.cuMemRelease(handle)
    return until_refused(one, 100)


class Tiles(ctypes.Structure):
    _fields_ = [("resource", ctypes.c_int), ("array", ctypes.c_void_p), ("part", ctypes.c_int), ("pad", ctypes.c_int),
                ("place", ctypes.c_uint * 8), ("operation", ctypes.c_int), ("handle_type", ctypes.c_int),
                ("handle", ctypes.c_uint64), ("offset", ctypes.c_ulonglong), ("mask", ctypes.c_uint),
                ("flags", ctypes.c_uint), ("reserved", ctypes.c_uint * 2)]


def tiles():
    """A sparse array keeps memory after its handle was released."""
    properties = Properties(1, 0, Location(1, 0), None)
    properties.flags[2] = 1  # CU_MEM_CREATE_USAGE_TILE_POOL
    shape = Array(4096, 4096, 0, 0x20, 4, 0x40)

    def one():
        handle, array = pointer(), ctypes.c_void_p()
        check(cu.cuArray3DCreate_v2(ctypes.byref(array), ctypes.byref(shape)), "array")
        result = cu.cuMemCreate(ctypes.byref(handle), size(256 * MIB), ctypes.byref(properties), ctypes.c_uint64(0))
        if result != 0:
            return result
        entry = Tiles(array=array.value, operation=1, handle=handle.value, mask=1)
        entry.place[5] = entry.place[6] = 4096
        entry.place[7] = 1
        check(cu.cuMemMapArrayAsync(ctypes.byref(entry), 1, None), "map")
        check(cu.cuCtxSynchronize(), "synchronize")
        return cu.cuMemRelease(handle)
    return until_refused(one, 100)


def freed_in_order():
    """Memory that is not of a pool, freed as if it were: all of it must come back."""
    for _ in range(20):
        address = pointer()
        check(cu.cuMemAlloc_v2(ctypes.byref(address), size(2048 * MIB)), "allocate")
        check(cu.cuMemFreeAsync(address, None), "free")
    return linear()


def reused_in_order():
    """What was freed in the order of a stream can be had again at once, as without the library."""
    results = []
    for _ in range(10):
        address = pointer()
        results.append(cu.cuMemAllocAsync(ctypes.byref(address), size(2048 * MIB), None))
        if results[-1] == 0:
            check(cu.cuMemFreeAsync(address, None), "free")
    check(cu.cuCtxSynchronize(), "synchronize")
    return ("" if not any(results) else "FAIL: ") + f"{results}; " + linear()


def import_by_descriptor():
    """The exporter has freed what the importer keeps."""
    ours, theirs = socket.socketpair()
    child = subprocess.Popen([sys.executable, __file__, f"import-{theirs.fileno()}", "0"], pass_fds=[theirs.fileno()])
    handle, descriptor = pointer(), ctypes.c_int()
    properties = Properties(1, 1, Location(1, 0), None)
    check(cu.cuMemCreate(ctypes.byref(handle), size(1024 * MIB), ctypes.byref(properties), ctypes.c_uint64(0)), "create")
    check(cu.cuMemExportToShareableHandle(ctypes.byref(descriptor), handle, 1, ctypes.c_uint64(0)), "export")
    socket.send_fds(ours, [b"x"], [descriptor.value])
    said = ours.recv(100).decode()
    os.close(descriptor.value)
    check(cu.cuMemRelease(handle), "release")
    return f"import {said}; " + linear(), [child]


def import_(number):
    theirs = socket.socket(fileno=number)
    start()
    _, descriptors, _, _ = socket.recv_fds(theirs, 10, 1)
    handle = pointer()
    result = cu.cuMemImportFromShareableHandle(ctypes.byref(handle), ctypes.c_void_p(descriptors[0]), 1)
    theirs.send(str(result).encode())
    signal.pause()


CASES = [rain_freed, handles, streams, threads, mixed, executed, empty_environment, deep, globals_of_a_module,
         globals_of_libraries, globals_in_a_namespace, local_memory, many_streams, exported, tiles, freed_in_order, reused_in_order,
         import_by_descriptor, linear, rain, pieces, odd_pieces, holes, managed, pitch, arrays, mipmaps, mapped, pool, default_pool,
         pool_reuse, graph, stack, contexts, forked, killed, processes]


def main():
    name = sys.argv[1]
    if name == "list":
        print(*[case.__name__ for case in CASES])
        return
    if name.startswith("hold-"):
        hold(int(name[5:]))
        return
    if name.startswith("churn-"):
        start()
        churn(60, int(name[6:]))
        return
    if name.startswith("import-"):
        import_(int(name[7:]))
        return
    # A program that has called exec began before it.
    before = int(os.environ.get("ATTACK_BEFORE") or on_card())
    os.environ["ATTACK_BASE"] = str(before)
    limit, others = int(sys.argv[2]), []
    begun = time.monotonic()
    start()
    result = next(case for case in CASES if case.__name__ == name)()
    if isinstance(result, tuple):
        result, others = result
    seen = on_card() - before
    print(f"{name} | {seen} MiB on the card | limit {limit} | {'pass' if seen <= limit and not str(result).startswith('FAIL') else 'FAIL'} | {result} | "
          f"{time.monotonic() - begun:.1f} s", flush=True)
    for other in others:
        other.kill()
        other.wait()


if __name__ == "__main__":
    main()
