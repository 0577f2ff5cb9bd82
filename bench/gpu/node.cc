#include "bench/gpu/node.h"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <utility>

#include "common/base/text.h"
#include "plugin/cards/mps/mps_daemon.h"

namespace mgpu::gpu_trial {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kMpsStartTimeout{40'000};

// Returns "580.95.05" for "NVML 13.580.95.05 (driver 580.95.05)".
std::string version_in(const std::string& source) {
  const std::string before = "(driver ";
  const std::size_t begin = source.find(before);
  const std::size_t end = source.find(')', begin);
  if (begin == std::string::npos || end == std::string::npos) return "";
  return source.substr(begin + before.size(), end - begin - before.size());
}

// A bound record with this share of the card, like those of the device plugin.
plugin::Record record_of(const NodeUnderTest& node, Share share) {
  plugin::Record record;
  record.cards = {{CardIndex(0), node.card.uuid, share}};
  return record;
}

// The folders of the driver's libraries, which the loader of this machine may not search.
std::string library_path(const Trial& trial, const NodeUnderTest& node) {
  std::set<std::string> folders;
  for (const auto& mount : node.shared.mounts) {
    folders.insert(std::filesystem::path(path_on_node(trial, mount.host_path)).parent_path());
  }
  const char* const inherited = std::getenv("LD_LIBRARY_PATH");
  std::string path = inherited != nullptr ? inherited : "";
  for (const std::string& folder : folders) path += (path.empty() ? "" : ":") + folder;
  return path;
}

// Adds what stand-ins for the driver need in a container. They find their process IDs on the node
// in its /proc.
void add_stand_ins(const Trial& trial, plugin::Edits& edits) {
  constexpr std::string_view kPrefix = "MGPU_FAKE_";
  if (trial.stand_ins.empty()) return;
  edits.mounts.push_back({trial.stand_ins, trial.stand_ins, false});
  edits.mounts.push_back({"/proc", trial.stand_ins + "/proc", true});
  for (char** at = environ; at != nullptr && *at != nullptr; ++at) {
    const std::string_view variable = *at;
    const std::size_t equals = variable.find('=');
    if (!variable.starts_with(kPrefix) || equals == variable.npos) continue;
    edits.environment.emplace(variable.substr(0, equals), variable.substr(equals + 1));
  }
}

}  // namespace

plugin::NvmlOptions nvml_options(const Trial& trial) {
  plugin::NvmlOptions options;
  if (!trial.nvml.empty()) options.libraries = {trial.nvml};
  options.node_root = trial.node_root;
  options.driver_root = trial.driver_root;
  // The checks say what is missing.
  options.prepare_node = false;
  options.must_run_cuda = false;
  return options;
}

plugin::NvmlCallOptions nvml_call_options(const Trial& trial) {
  plugin::NvmlCallOptions options;
  if (!trial.nvml.empty()) options.libraries = {trial.nvml};
  options.node_root = trial.node_root;
  options.driver_root = trial.driver_root;
  return options;
}

Result<NodeUnderTest> inspect_node(const Trial& trial) {
  const auto source = plugin::nvml_source(nvml_options(trial));
  const auto inventory = source->read();
  if (!inventory) return inventory.error();
  if (inventory->cards.empty()) return error("NVML finds no card on this machine");
  std::string why_not;
  for (const plugin::FoundCard& card : inventory->cards) {
    if (!trial.card.empty() && card.uuid.str() != trial.card) continue;
    if (card.health == kHealthy) {
      return NodeUnderTest{source->description(), version_in(source->description()), card,
                           inventory->shared, inventory->toolkit};
    }
    why_not += fmt::format("{}card {} is not healthy: {}", why_not.empty() ? "" : "; ",
                           in_quotes(card.uuid.str()), card.health);
  }
  return error(why_not.empty() ? "there is no card " + in_quotes(trial.card) : why_not);
}

std::string path_on_node(const Trial& trial, const std::string& path) {
  return (trial.node_root == "/" ? "" : trial.node_root) + path;
}

std::string find_program(const std::string& name) {
  if (name.find('/') != std::string::npos) return ::access(name.c_str(), X_OK) == 0 ? name : "";
  const char* const path = std::getenv("PATH");
  std::string folders = path != nullptr ? path : "";
  while (!folders.empty()) {
    const std::size_t end = std::min(folders.find(':'), folders.size());
    const std::string found = folders.substr(0, end) + "/" + name;
    if (::access(found.c_str(), X_OK) == 0) return found;
    folders.erase(0, end + 1);
  }
  return "";
}

plugin::Edits edits_of(const Trial& trial, const NodeUnderTest& node, Share share,
                       const plugin::Edits& shared) {
  plugin::Edits edits = plugin::container_edits(record_of(node, share), node.card.nodes);
  edits.devices.insert(edits.devices.end(), shared.devices.begin(), shared.devices.end());
  edits.mounts.insert(edits.mounts.end(), shared.mounts.begin(), shared.mounts.end());
  edits.environment.insert(shared.environment.begin(), shared.environment.end());
  edits.hooks = shared.hooks;
  for (auto& device : edits.devices) device.host_path = path_on_node(trial, device.host_path);
  for (auto& mount : edits.mounts) mount.host_path = path_on_node(trial, mount.host_path);
  for (auto& hook : edits.hooks) hook.path = path_on_node(trial, hook.path);
  add_stand_ins(trial, edits);
  return edits;
}

plugin::Edits edits_of(const Trial& trial, const NodeUnderTest& node, Share share) {
  return edits_of(trial, node, share, node.shared);
}

Command program_on_node(const Trial& trial, const NodeUnderTest& node,
                        std::vector<std::string> arguments) {
  return {.path = trial.cuda_program(),
          .arguments = std::move(arguments),
          .environment = {
              {"LD_LIBRARY_PATH", library_path(trial, node)},
              {"CUDA_VISIBLE_DEVICES", node.card.uuid.str()},
              // Compiled kernels are cached for the check, and not in a home directory.
              {"CUDA_CACHE_PATH", trial.scratch + "/cache"},
              // This prevents the use of a daemon of the machine with the default directory.
              {"CUDA_MPS_PIPE_DIRECTORY", trial.scratch + "/no-mps"}}};
}

// --- MPS -----------------------------------------------------------------------------------------

MpsOfCard::MpsOfCard(const Trial& trial, const NodeUnderTest& node, plugin::MpsTimes times,
                     plugin::MpsClientTerminator* terminator)
    : trial_(trial),
      node_(node),
      options_([&] {
        plugin::MpsOptions options;
        options.control = trial.mps_control;
        options.run_dir = trial.scratch;
        options.terminator = terminator;
        options.times = times;
        return options;
      }()),
      mps_(options_) {}

MpsOfCard::~MpsOfCard() {
  mps_.stop();
}

Result<std::unique_ptr<MpsOfCard>> MpsOfCard::start(const Trial& trial, const NodeUnderTest& node,
                                                    plugin::MpsTimes times,
                                                    plugin::MpsClientTerminator* terminator) {
  std::unique_ptr<MpsOfCard> started(new MpsOfCard(trial, node, times, terminator));
  const auto begin = steady_clock::now();
  started->mps_.set_cards({node.card.uuid});
  auto ready = started->mps_.ready(node.card.uuid);
  while (!ready && steady_clock::now() - begin < kMpsStartTimeout) {
    ::poll(nullptr, 0, 20);
    // A daemon that cannot be started is started repeatedly. Its first error is sufficient.
    const auto states = started->mps_.states();
    if (!states.empty() && states.front().restarts > 0) break;
    ready = started->mps_.ready(node.card.uuid);
  }
  if (!ready) {
    const auto states = started->mps_.states();
    const std::string server = states.empty() ? "" : states.front().server_problem;
    return server.empty() ? ready.error() : error("MPS of the card does not run: " + server);
  }
  started->time_to_start_ = std::chrono::duration_cast<milliseconds>(steady_clock::now() - begin);
  return started;
}

Command MpsOfCard::client(Share share, std::vector<std::string> arguments) const {
  Command command = program_on_node(trial_, node_, std::move(arguments));
  // The daemon has one device for its clients. Another CUDA_VISIBLE_DEVICES would hide it.
  command.environment.erase("CUDA_VISIBLE_DEVICES");
  const plugin::Edits edits = plugin::mps_edits(options_, record_of(node_, share));
  for (const auto& [name, value] : edits.environment) command.environment[name] = value;
  // Outside of a container the pipe directory has the path that the daemon uses.
  command.environment["CUDA_MPS_PIPE_DIRECTORY"] = edits.mounts.front().host_path;
  return command;
}

Container MpsOfCard::container(Share share, bool read_only,
                               std::vector<std::string> command) const {
  Container container{.edits = edits_of(trial_, node_, share), .command = std::move(command)};
  const plugin::Edits limits = plugin::mps_edits(options_, record_of(node_, share));
  for (const auto& [name, value] : limits.environment) container.edits.environment[name] = value;
  for (plugin::Mount mount : limits.mounts) {
    mount.read_only = read_only;
    mount.no_exec = true;
    container.edits.mounts.push_back(mount);
  }
  return container;
}

plugin::MpsFolders MpsOfCard::folders() const {
  return plugin::mps_folders(options_.run_dir, node_.card.uuid);
}

std::string MpsOfCard::send_command(const std::string& command) const {
  const auto answer =
      plugin::mps_command(options_.control, folders(), command, options_.times.command);
  std::string text = answer ? *answer : answer.error().message;
  while (text.ends_with('\n')) text.pop_back();
  return text;
}

std::vector<std::int64_t> MpsOfCard::servers() const {
  return plugin::parse_pids(send_command("get_server_list"));
}

std::string MpsOfCard::server_status() const {
  const auto pids = servers();
  return pids.empty() ? "no server"
                      : send_command(fmt::format("get_server_status {}", pids.front()));
}

Result<std::unique_ptr<CardWithMps>> start_card_with_mps(const Trial& trial, plugin::MpsTimes times,
                                                         plugin::MpsClientTerminator* terminator) {
  auto node = inspect_node(trial);
  if (!node) return node.error();
  // The daemon has a reference to the node, so the node must not move.
  auto card = std::make_unique<CardWithMps>(CardWithMps{*std::move(node), nullptr});
  auto mps = MpsOfCard::start(trial, card->node, times, terminator);
  if (!mps) return mps.error();
  card->mps = *std::move(mps);
  return card;
}

}  // namespace mgpu::gpu_trial
