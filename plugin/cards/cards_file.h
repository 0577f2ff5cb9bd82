// Cards from a file, for nodes without GPUs: tests, demonstrations and CI. The file is read again
// whenever it changes, so that health and loss of a card can be tried by hand.
//
//   cards:
//     - index: 0                     # 0 .. 1023, none twice
//       uuid: GPU-5c1a               # none twice
//       model: Tesla V100-SXM2-32GB
//       memoryMiB: 32510
//       health: Healthy              # optional; any other text is why the card is not offered
//       devices:                     # device nodes; a text means the same path on both sides
//         - /dev/nvidia0
//         - {path: /dev/nvidia0-extra, hostPath: /dev/zero}
//       processes:                   # optional: what NVML would say of use
//         - {pid: 4711, memoryMiB: 500, smPercent: 40}
//   shared:                          # optional: for every container that has a card
//     devices: [/dev/nvidiactl]
//     environment: {NAME: value}
//     mounts: [{hostPath: /usr/lib/x, containerPath: /usr/lib/x, readOnly: true}]
//
// A field without "optional" must be there; lists may be empty. Home of yaml-cpp in the plugin.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "common/contract/limits.h"
#include "plugin/cards/card_source.h"

namespace mgpu::plugin {

// What a cards file says.
struct CardsFile {
  FoundCards inventory;
  std::vector<CardUse> use;
};

// Errors: one sentence that names the field, the value and what was expected: not YAML, unknown,
// missing or repeated fields, an index or uuid twice, zero memory, a path that is not absolute, a
// path in the container that means two devices, more than kCardsPerNodeMax cards.
Result<CardsFile> parse_cards_file(std::string_view yaml);

// read() fails where the file cannot be read or parsed; use() then answers with what it said last.
std::unique_ptr<CardSource> cards_file_source(std::string path);

}  // namespace mgpu::plugin
