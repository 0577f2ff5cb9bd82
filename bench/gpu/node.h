// The card that the trial uses, and what our node code gives a container that has a share of it.
#pragma once

#include <map>
#include <string>

#include "bench/gpu/container.h"
#include "bench/gpu/program.h"
#include "bench/gpu/trial.h"
#include "common/base/result.h"
#include "common/base/units.h"
#include "plugin/cards/card_source.h"
#include "plugin/cards/mps.h"
#include "plugin/cards/mps_process.h"
#include "plugin/cards/nvml_source.h"

namespace mgpu::gpu_trial {

plugin::NvmlOptions nvml_options(const Trial& trial);

struct NodeUnderTest {
  std::string source;          // description of the source of cards
  std::string driver_version;  // "580.95.05"; empty: not reported
  plugin::FoundCard card;      // trial.card, or the first that is healthy
  plugin::Edits shared;        // as the device plugin gives them to every container
};
// Errors: no NVML, no card, or the card that was named is not there or not healthy.
Result<NodeUnderTest> look_at_node(const Trial& trial);

// `path` of the node as this process sees it.
std::string path_on_node(const Trial& trial, const std::string& path);
// The file that a program of this name is in $PATH, or `name` itself if it is a path. Empty: there
// is none.
std::string find_program(const std::string& name);

// What a container with this share of the card gets, without MPS. Host paths are those that this
// process sees.
plugin::Edits edits_of(const Trial& trial, const NodeUnderTest& node, Share share);

// A test program on the node itself, outside of containers and of MPS, with this card as its
// device.
Command program_on_node(const Trial& trial, const NodeUnderTest& node,
                        std::vector<std::string> arguments);

// --- MPS -----------------------------------------------------------------------------------------

// The MPS daemon of the card, started by the device plugin's code in the scratch folder. It and its
// servers end with this. `trial` and `node` must outlive it. For one thread.
class MpsOfCard {
 public:
  // Errors: it does not answer in time, one sentence why.
  static Result<std::unique_ptr<MpsOfCard>> start(const Trial& trial, const NodeUnderTest& node,
                                                  plugin::MpsTimes times = {});
  ~MpsOfCard();

  // A test program on the node that is a client with this share.
  Command client(Share share, std::vector<std::string> arguments) const;
  // A container with this share. `read_only`: whether its pipe directory is.
  Container container(Share share, bool read_only, std::vector<std::string> command) const;
  // What the daemon answers to a command from outside of containers, without the line's end; or why
  // it does not.
  std::string context(const std::string& command) const;
  // The pids of its servers, and the status of the first: "ACTIVE", "FAULT", "no server".
  std::vector<std::int64_t> servers() const;
  std::string server_status() const;

  plugin::Mps& mps() { return mps_; }
  plugin::MpsFolders folders() const;
  std::chrono::milliseconds time_to_start() const { return time_to_start_; }

 private:
  MpsOfCard(const Trial& trial, const NodeUnderTest& node, plugin::MpsTimes times);

  const Trial& trial_;
  const NodeUnderTest& node_;
  const plugin::MpsOptions options_;
  plugin::Mps mps_;
  std::chrono::milliseconds time_to_start_{0};
};

// What most checks of MPS begin with: the card, and its daemon.
struct CardWithMps {
  NodeUnderTest node;
  std::unique_ptr<MpsOfCard> mps;
};
Result<std::unique_ptr<CardWithMps>> start_card_with_mps(const Trial& trial,
                                                         plugin::MpsTimes times = {});

}  // namespace mgpu::gpu_trial
