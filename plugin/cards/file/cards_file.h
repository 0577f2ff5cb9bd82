// Cards from a file, for nodes without GPUs: tests, demonstrations and CI. The file is read again
// whenever it changes, so that health and loss of a card can be tried by hand.
//
//   cards:
//     - index: 0                     # 0 .. 1023, unique
//       uuid: GPU-5c1a               # unique
//       model: Tesla V100-SXM2-32GB
//       memoryMiB: 32510
//       health: Healthy              # optional; any other text is why the card is not offered
//       devices:                     # device nodes; a text means the same path on both sides
//         - /dev/nvidia0
//         - {path: /dev/nvidia0-extra, hostPath: /dev/zero}
//       numa: 0                      # optional: its NUMA node
//       processes:                   # optional: the use that NVML would report
//         - {pid: 4711, memoryMiB: 500, smPercent: 40}
//   links:                           # optional: a line for each card, as nvidia-smi topo -m has
//   them
//     - X NV2 SYS
//     - NV2 X SYS
//     - SYS SYS X
//   shared:                          # optional: for every container that has a card
//     devices: [/dev/nvidiactl]
//     environment: {NAME: value}
//     mounts: [{hostPath: /usr/lib/x, containerPath: /usr/lib/x, readOnly: true}]
//
// Fields without "optional" are required. Lists may be empty, but a card without devices is not
// offered.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "plugin/cards/card_source.h"

namespace mgpu::plugin {

// The contents of a cards file.
struct CardsFile {
  FoundCards inventory;
  std::vector<CardUse> use;
};

// Errors: one sentence that names the field, the value and what was expected. A file is refused if
// it is not YAML, has unknown, missing or repeated fields, an index or UUID twice, zero memory, a
// path that is not absolute, links that are not those of its cards or differ in the two directions,
// a container path that stands for two devices, or more than
// kCardsPerNodeMax cards.
Result<CardsFile> parse_cards_file(std::string_view yaml);

// read() fails if the file cannot be read or parsed; use() then returns the result of the last
// successful read.
std::unique_ptr<CardSource> cards_file_source(std::string path);

}  // namespace mgpu::plugin
