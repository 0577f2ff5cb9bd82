// The scenario of a machine, as people write it:
//
//   driver: {release: 580.159.04, cuda: 13000}   # optional; these are the defaults
//   time: virtual                      # optional; otherwise kernels take real time
//   processes: 2                       # of virtual time: it begins when so many use it; 1
//   cards:
//     - uuid: GPU-6d677075-0000-4000-8000-000000000001
//       model: NVIDIA H200             # the rest is optional; its defaults are an H200's
//       memoryMiB: 143771              # what NVML shows as the total
//       reservedMiB: 615.0625          # of it, what programs never see
//       idleMiB: 3.25                  # in use while no process uses the card
//       contextMiB: 518                # of a context, in NVML's process list
//       contextHiddenMiB: 5.5625       # what a context takes beyond that
//       multiprocessors: 132
//       computeCapability: 9.0
//       links: X NV18                  # to each card, as nvidia-smi topo -m has them: X, PIX, PXB,
//                                      # PHB, NODE, SYS, or NV and the number of NVLinks, after
//                                      # which "s" says that they lead to switches, and "?" that
//                                      # it is not known where
//       mig: false
//       instances:                     # MIG devices
//         - {uuid: MIG-1, model: NVIDIA H200 MIG 1g.18gb, memoryMiB: 16384, multiprocessors: 16,
//            gi: 1, ci: 0}             # the ids of its instances
//       xids: [79]                     # that the driver has reported
//       health:
//         lost: false                  # the card fell off the bus
//         recoveryAction: 0            # that the driver asks for, from R570 on
//         remapFailed: false           # rows of memory could not be remapped
//         fabricState: 0               # nvmlGpuFabricInfo_t
//         fabricStatus: 0
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "common/base/result.h"
#include "test/gpu/machine_state.h"

namespace mgpu::fake_gpu {

// Errors: one sentence that names the field, the value and what was expected.
Result<std::unique_ptr<MachineState>> parse_scenario(std::string_view yaml);

// Makes the file of a new machine, or replaces it by a new machine; processes that have the old one
// open keep that. Errors: those of parse_scenario(), or the file cannot be written.
Result<void> create_machine(std::string_view yaml, const std::string& path);

// Changes a card of a machine that programs use: a map with "health", "xids" or both. XIDs are
// sent; health is as the map says, and a field that it leaves out is well. Errors: one sentence,
// and nothing is changed.
Result<void> change_card(std::string_view yaml, const std::string& path, const std::string& uuid);

}  // namespace mgpu::fake_gpu
