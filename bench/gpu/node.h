// The card of the trial, and the settings that the device plugin's code gives a container with a
// share of it.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "bench/gpu/container.h"
#include "bench/gpu/program.h"
#include "bench/gpu/trial.h"
#include "common/base/result.h"
#include "common/base/units.h"
#include "plugin/cards/card_source.h"
#include "plugin/cards/mps/mps.h"
#include "plugin/cards/mps/mps_process.h"
#include "plugin/cards/nvml/nvml_call.h"
#include "plugin/cards/nvml/nvml_source.h"

namespace mgpu::gpu_trial {

// For reading only: the node is not changed, and cards on which CUDA cannot run are healthy.
plugin::NvmlOptions nvml_options(const Trial& trial);
// For calls of NVML that change something.
plugin::NvmlCallOptions nvml_call_options(const Trial& trial);

struct NodeUnderTest {
  std::string source;          // description of the source of cards
  std::string driver_version;  // such as "580.95.05"; empty if it is not reported
  plugin::FoundCard card;      // trial.card, or the first that is healthy
  plugin::Edits shared;        // the edits that every container gets
  // The same from the CDI spec of NVIDIA's toolkit, for runtimes that run its hooks. None: the node
  // has no such spec.
  std::optional<plugin::Edits> toolkit{};
};
// Errors: there is no NVML or no card, or trial.card does not exist or is unhealthy.
Result<NodeUnderTest> inspect_node(const Trial& trial);

// Returns `path` of the node as a path for this process.
std::string path_on_node(const Trial& trial, const std::string& path);
// Returns the path of a program in $PATH, or `name` itself if it is a path. Empty if there is no
// such program.
std::string find_program(const std::string& name);

// The edits of a container with this share of the card, without MPS. Host paths are valid for this
// process. `shared` is node.shared or node.toolkit.
plugin::Edits edits_of(const Trial& trial, const NodeUnderTest& node, Share share,
                       const plugin::Edits& shared);
plugin::Edits edits_of(const Trial& trial, const NodeUnderTest& node, Share share);

// A test program on the node itself, outside of containers and MPS, with this card as its device.
Command program_on_node(const Trial& trial, const NodeUnderTest& node,
                        std::vector<std::string> arguments);

// --- MPS -----------------------------------------------------------------------------------------

// The MPS daemon of the card, which the device plugin's code starts in the scratch folder. The
// destructor stops the daemon and its servers. REQUIRES: `trial`, `node` and `terminator`
// outlive it. Not thread-safe.
class MpsOfCard {
 public:
  // Error: the daemon does not respond in time.
  static Result<std::unique_ptr<MpsOfCard>> start(
      const Trial& trial, const NodeUnderTest& node, plugin::MpsTimes times = {},
      plugin::MpsClientTerminator* terminator = nullptr);
  ~MpsOfCard();

  // A test program on the node that is a client with this share.
  Command client(Share share, std::vector<std::string> arguments) const;
  // A container with this share. `read_only` applies to its pipe directory.
  Container container(Share share, bool read_only, std::vector<std::string> command) const;
  // The response of the daemon to a command from outside of containers, without the line end, or
  // the reason why there is none.
  std::string send_command(const std::string& command) const;
  // The process IDs of its servers, and the status of the first: "ACTIVE", "FAULT", "no server".
  std::vector<std::int64_t> servers() const;
  std::string server_status() const;

  plugin::Mps& mps() { return mps_; }
  plugin::MpsFolders folders() const;
  std::chrono::milliseconds time_to_start() const { return time_to_start_; }

 private:
  MpsOfCard(const Trial& trial, const NodeUnderTest& node, plugin::MpsTimes times,
            plugin::MpsClientTerminator* terminator);

  const Trial& trial_;
  const NodeUnderTest& node_;
  const plugin::MpsOptions options_;
  plugin::Mps mps_;
  std::chrono::milliseconds time_to_start_{0};
};

// The card and its daemon, which most checks of MPS need.
struct CardWithMps {
  NodeUnderTest node;
  std::unique_ptr<MpsOfCard> mps;
};
Result<std::unique_ptr<CardWithMps>> start_card_with_mps(
    const Trial& trial, plugin::MpsTimes times = {},
    plugin::MpsClientTerminator* terminator = nullptr);

}  // namespace mgpu::gpu_trial
