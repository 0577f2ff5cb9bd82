// The self test of the library for containers on one card: mgpu-check-share (plugin/share/check)
// runs programs in a small share of the card, in the root that a container would have, and reports
// what they could take.
#pragma once

#include <atomic>
#include <string>
#include <string_view>

#include "common/base/ids.h"
#include "common/base/result.h"
#include "common/base/units.h"
#include "plugin/containers/share_library.h"

namespace mgpu::plugin {

struct SelfTest {
  enum class Outcome {
    kPassed,
    kFailed,     // the limit does not hold, or programs do not run under the library
    kNotTested,  // nothing is known, as where the card is full
  };
  Outcome outcome = Outcome::kNotTested;
  std::string why;  // "pool: cuMemAllocAsync gave 192 MiB where 96 were left, then 0"
};

// Returns "passed", "failed" or "not-tested".
std::string_view to_string(SelfTest::Outcome outcome);

// The meaning of what mgpu-check-share has printed. `problem` is how it ended; empty: well.
SelfTest read_self_test(std::string_view printed, const std::string& problem);

struct SelfTestInput {
  std::string text;     // for mgpu-check-share
  std::string libcuda;  // the path of the library in the root
  // The libraries of the driver and of mgpu, as files: with the same, the result is the same.
  std::string identity;
};

// `nodes` are those of the card, `shared` what every container with a card gets. Errors: containers
// get no libcuda from the driver, or a file is not on the node; one sentence.
Result<SelfTestInput> self_test_input(const ShareLibrary& library, const std::string& node_root,
                                      const std::vector<DeviceNode>& nodes, const Edits& shared);

struct SelfTestProgram {
  std::string path;   // of mgpu-check-share
  std::string empty;  // a folder over which it mounts its root
  MiB context;        // what a context takes of the card
};

// What it may take of a card for some seconds, in the worst case: contexts of two programs, and
// twice the room of their share.
inline MiB self_test_memory(MiB context) {
  return context + context + MiB(320);
}

// Blocks for up to kSelfTestTimeout. Any thread.
SelfTest run_self_test(const SelfTestProgram& program, const CardUuid& card,
                       const SelfTestInput& input, const std::atomic<bool>& cancelled);

}  // namespace mgpu::plugin
