#!/usr/bin/env bash
# Tries the libraries that limit the memory of containers on a machine with a GPU: trial.sh FOLDER
# FOLDER has libmgpu-cuda.so and libmgpu-nvml.so of build/release/plugin, and mgpu-share-page of build/release/test/gpu.
# Needs root, python3, and for some cases pynvml, torch, cupy, jax and nvcc. In a mount namespace of its own, the first
# library takes the place of the driver's libcuda.so.1, with a share of 4,096 MiB, and after the attacks, which need NVML
# to see the card, the second one that of NVML. Prints a line for each case: what was seen on the card, the limit, and pass
# or fail.
# CASES names the programs of attacks.py to run, and nothing else runs then.
set -u
export PATH=$PATH:/usr/local/nvidia/bin:/usr/local/cuda/bin PYTHONUNBUFFERED=1
here=$(cd "$(dirname "$0")" && pwd)
limit=4096 context=${CONTEXT_MIB:-528}

fail() {
  echo "trial.sh: $*" >&2
  exit 2
}

# Everything is mounted inside, so that only these folders are left, which are empty.
if [ "${2:-}" != inside ]; then
  [ $# = 1 ] || fail "expected one argument, the folder with libmgpu-cuda.so, libmgpu-nvml.so and mgpu-share-page"
  for file in libmgpu-cuda.so libmgpu-nvml.so mgpu-share-page; do [ -f "$1/$file" ] || fail "\"$1\" has no $file"; done
  nvidia-smi -L >/dev/null 2>&1 || fail "there is no GPU: nvidia-smi -L fails"
  mkdir -p /usr/lib/mgpu /run/mgpu
  unshare -m bash "$0" "$1" inside
  status=$?
  rmdir /usr/lib/mgpu /run/mgpu 2>/dev/null
  exit $status
fi
mount --make-rprivate /
driver=$(readlink -f "$(ldconfig -p | awk '/libcuda.so.1 .*x86-64/ {print $NF; exit}')")
[ -f "$driver" ] || driver=$(ls /usr/local/nvidia/lib64/libcuda.so.5* | head -1)
[ -f "$driver" ] || fail "there is no libcuda.so.1"
uuid=$(nvidia-smi -L | sed -n 's/.*UUID: \(GPU-[^)]*\)).*/\1/p' | head -1)
mount -t tmpfs tmpfs /usr/lib/mgpu
scratch=/usr/lib/mgpu
cp "$driver" /usr/lib/mgpu/libmgpu-cuda-driver.so
nvml=$(readlink -f "$(dirname "$driver")/libnvidia-ml.so.1")
cp "$nvml" $scratch/libmgpu-nvml-driver.so && cp "$1/libmgpu-nvml.so" $scratch/ || exit 1
new_page() {
  mountpoint -q /run/mgpu && umount /run/mgpu
  mount -t tmpfs tmpfs /run/mgpu && mkdir -p "/run/mgpu/share/$uuid"
  "$1/mgpu-share-page" make "/run/mgpu/share/$uuid" "$uuid" $limit "$context" || exit 1
}
new_page "$1"
cp "$1/libmgpu-cuda.so" $scratch/libmgpu-cuda.so
mount --bind $scratch/libmgpu-cuda.so "$driver" || exit 1
echo "driver $driver, card $uuid, limit $limit MiB, context $context MiB"

echo "=== attacks"
for name in ${CASES:-$(python3 "$here/attacks.py" list)}; do
  timeout 150 python3 "$here/attacks.py" "$name" $limit || echo "$name | ended with $?"
  reserved=$("$1/mgpu-share-page" show "/run/mgpu/share/$uuid" "$uuid")
  case $reserved in *"reserved 0 MiB"*) ;; *) echo "$name | page afterwards: $reserved" ;; esac
done

[ -n "${CASES:-}" ] && exit 0
echo "=== NVML"
mount --bind $scratch/libmgpu-nvml.so "$nvml" || exit 1
python3 "$here/attacks.py" hold-1000 0 >$scratch/held &
holder=$!
while [ ! -s $scratch/held ] && kill -0 $holder 2>/dev/null; do sleep 0.1; done
used=$("$1/mgpu-share-page" show "/run/mgpu/share/$uuid" "$uuid" | sed 's/.*reserved \([0-9]*\) .*/\1/')
says() { # who, and MiB used, total and free
  local expected="$used $limit $((limit - used))" result=fail
  [ "$(echo $2)" = "$expected" ] && result=pass
  echo "$1 | $(echo $2) | $expected | $result"
}
says query "$(nvidia-smi --query-gpu=memory.used,memory.total,memory.free --format=csv,noheader,nounits -i 0 | tr -d ,)"
says table "$(nvidia-smi -i 0 | sed -n 's/.* \([0-9]*\)MiB \/ *\([0-9]*\)MiB.*/\1 \2/p' | head -1) $((limit - used))"
says nvidia-smi-q "$(nvidia-smi -q -d MEMORY -i 0 | awk '/FB Memory/ {fb = 1} /BAR1/ {fb = 0}
  fb && /Used/ {used = $3} fb && /Total/ {total = $3} fb && /Free/ {free = $3} END {print used, total, free}')"
for first in libnvidia-ml.so.1 libcuda.so.1; do says "pynvml after $first" "$(python3 -c 'import ctypes, pynvml as p, sys
ctypes.CDLL(sys.argv[1]).cuInit(0) if "cuda" in sys.argv[1] else None
p.nvmlInit(); card = p.nvmlDeviceGetHandleByIndex(0)
for m in p.nvmlDeviceGetMemoryInfo(card), p.nvmlDeviceGetMemoryInfo(card, p.nvmlMemory_v2):
    last = m.used >> 20, m.total >> 20, m.free >> 20
    assert m.used + m.free == m.total
print(*last)' $first 2>&1 | tail -1)"; done
nvidia-smi -i 0 && nvidia-smi -q -d MEMORY -i 0 && nvidia-smi --query-compute-apps=pid,used_memory --format=csv
kill $holder
wait $holder 2>/dev/null
echo "--- with a damaged page: an error and one line are right"
printf none | dd of="/run/mgpu/share/$uuid/usage" conv=notrunc status=none
nvidia-smi --query-gpu=memory.used,memory.total --format=csv,noheader -i 0
new_page "$1"

echo "=== programs"
try() { echo "--- $1"; timeout 100 python3 -c "$2" 2>&1 | tail -4; }
try torch 'import torch
print([x >> 20 for x in torch.cuda.mem_get_info()], torch.cuda.get_device_properties(0).total_memory >> 20)
a = torch.randn(4096, 4096, device="cuda"); print((a @ a).sum().item() != 0)
try: torch.empty(5 << 30, dtype=torch.uint8, device="cuda"); print("fail: 5 GiB")
except torch.OutOfMemoryError: print("pass: out of memory at 5 GiB")
g = torch.cuda.CUDAGraph(); s = torch.zeros(1024, device="cuda")
with torch.cuda.graph(g): t = s + 1
g.replay(); torch.cuda.synchronize(); print("graph", t.sum().item())'
try torch-expandable 'import os; os.environ["PYTORCH_CUDA_ALLOC_CONF"] = "expandable_segments:True"
import torch
try:
  k = [torch.empty(100 << 20, dtype=torch.uint8, device="cuda") for _ in range(60)]; print("fail")
except torch.OutOfMemoryError: print("pass", [x >> 20 for x in torch.cuda.mem_get_info()])'
try torch-async 'import os; os.environ["PYTORCH_CUDA_ALLOC_CONF"] = "backend:cudaMallocAsync"
import torch
k = []
try:
  for _ in range(60): k.append(torch.empty(100 << 20, dtype=torch.uint8, device="cuda"))
  print("fail")
except torch.OutOfMemoryError: print("pass", len(k), [x >> 20 for x in torch.cuda.mem_get_info()])'
try torch-compile 'import torch
@torch.compile
def f(a): return (a * 2 + 1).relu().sum()
print(f(torch.ones(1 << 20, device="cuda")).item())'
try nccl 'import torch, os
import torch.distributed as D
os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29511", RANK="0", WORLD_SIZE="1")
D.init_process_group("nccl"); a = torch.ones(1 << 20, device="cuda"); D.all_reduce(a); torch.cuda.synchronize()
print("nccl", a.sum().item()); D.destroy_process_group()'
try cupy 'import cupy
print([x >> 20 for x in cupy.cuda.runtime.memGetInfo()]); print(float(cupy.ones(1 << 20).sum()))
try: cupy.empty(5 << 30, dtype="u1"); print("fail")
except cupy.cuda.memory.OutOfMemoryError: print("pass")'
try jax 'import os; os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
import jax.numpy as n; print(float((n.ones((2048, 2048)) @ n.ones((2048, 2048))).sum()))
try: n.zeros((5 << 28,), dtype="f4").block_until_ready(); print("fail")
except Exception as e: print("pass", str(e)[:60])'
cat >$scratch/link.c <<'C'
#include <stdio.h>
int cuInit(unsigned); int cuDriverGetVersion(int*);
int main() { int v = 0; printf("init %d ", cuInit(0)); cuDriverGetVersion(&v); printf("version %d\n", v); }
C
gcc -o $scratch/link $scratch/link.c -L"$(dirname "$driver")" -Wl,--no-undefined -lcuda && echo "--- linked with -lcuda" && $scratch/link
cat >$scratch/rt.cu <<'C'
#include <cstdio>
#include <cuda_runtime.h>
__global__ void k(int* p) { *p = 7; }
int main() {
  size_t f, t; cudaMemGetInfo(&f, &t); printf("free %zu total %zu\n", f >> 20, t >> 20);
  int* p; void* q;
  printf("small %s big %s\n", cudaGetErrorName(cudaMalloc(&p, 4)), cudaGetErrorName(cudaMalloc(&q, 5ull << 30)));
  k<<<1, 1>>>(p); printf("%s\n", cudaGetErrorName(cudaDeviceSynchronize()));
  printf("async big %s\n", cudaGetErrorName(cudaMallocAsync(&q, 5ull << 30, 0)));
}
C
if command -v nvcc >/dev/null; then
  for r in static shared; do nvcc -cudart $r -o $scratch/rt $scratch/rt.cu && echo "--- cudart $r" && $scratch/rt; done
  nvcc -default-stream per-thread -o $scratch/rt $scratch/rt.cu && echo "--- per-thread" && $scratch/rt
fi
echo "=== without a page"
umount /run/mgpu
python3 -c 'import ctypes; print("cuInit", ctypes.CDLL("libcuda.so.1").cuInit(0), "(802 is right)")'
