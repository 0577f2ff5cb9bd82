// MPS as the device plugin starts it: memory limits, and what goes round them.
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "bench/gpu/checks/checks.h"
#include "bench/gpu/nvml_more.h"
#include "plugin/gpu/mps_daemon.h"

namespace mgpu::gpu_trial {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr std::uint64_t kBytesPerMiB = std::uint64_t{1} << 20;
constexpr char kProgramInContainer[] = "/usr/bin/mgpu-cuda-program";
constexpr char kControlInContainer[] = "/usr/bin/nvidia-cuda-mps-control";
constexpr char kPipeVariable[] = "CUDA_MPS_PIPE_DIRECTORY";
constexpr int kOtherUser = 65'534;
constexpr std::int64_t kSmallLimitMiB = 2'048;
constexpr std::int64_t kBeyondMiB = 1'024;

// A card with its daemon. `node` must outlive `mps`.
struct World {
  NodeUnderTest node;
  std::unique_ptr<MpsOfCard> mps;
};

Result<std::unique_ptr<World>> start_world(const Trial& trial) {
  auto node = look_at_node(trial);
  if (!node) return node.error();
  auto world = std::make_unique<World>(World{*std::move(node), nullptr});
  auto mps = MpsOfCard::start(trial, world->node);
  if (!mps) return mps.error();
  world->mps = *std::move(mps);
  return world;
}

std::string text_of(const Result<std::string>& answer) {
  std::string text = answer ? *answer : answer.error().message;
  while (text.ends_with('\n')) text.pop_back();
  return text;
}

// The largest allocation of a client with this limit, and the facts of it.
Result<double> try_limit(const World& world, std::int64_t mib, Findings& findings) {
  const auto program = run_to_end(
      world.mps->client(share_of(100, mib), {"largest", std::to_string(mib + kBeyondMiB)}),
      kProgramTimeout);
  if (!program) return program.error();
  const double largest = program->number("largest_mib").value_or(0);
  findings.fact(fmt::format("largest allocation at {} MiB", mib),
                number_of(*program, "largest_mib"), "MiB");
  findings.fact(fmt::format("sum of 16-MiB allocations at {} MiB", mib),
                number_of(*program, "pieces_mib"), "MiB");
  findings.fact(fmt::format("error beyond {} MiB", mib), program->value("beyond"));
  findings.fact(fmt::format("total that a program sees at {} MiB", mib),
                number_of(*program, "total_mib"), "MiB");
  findings.fact(fmt::format("free that a program sees at {} MiB", mib),
                number_of(*program, "free_mib"), "MiB");
  return largest;
}

// What becomes of a program that allocates more than its limit with this variable unset.
std::string try_without(const World& world, const std::string& variable) {
  Command command = world.mps->client(share_of(30, kSmallLimitMiB),
                                      {"hold", std::to_string(kSmallLimitMiB + kBeyondMiB)});
  command.environment.erase(variable);
  if (variable == kPipeVariable) {
    // Outside of MPS it sees all cards of the machine.
    command.environment["CUDA_VISIBLE_DEVICES"] = world.node.card.uuid.str();
  }
  const auto program = start_and_wait(command);
  return program ? "allocates beyond its limit" : program.error().message;
}

}  // namespace

Result<void> check_mps_start(const Trial& trial, Findings& findings) {
  const auto world = start_world(trial);
  if (!world) return world.error();
  const MpsOfCard& mps = *(*world)->mps;
  findings.fact("time to the first answer", mps.time_to_start().count(), "ms");
  const auto program =
      run_to_end(mps.client(whole_card((*world)->node), {"vector-add"}), kProgramTimeout);
  findings.expect("a client computes", program.has_value(),
                  program.has_value() ? "" : program.error().message);
  const auto servers = mps.ask("get_server_list");
  findings.expect("the daemon has started a server", servers && !gpu::parse_pids(*servers).empty(),
                  text_of(servers));
  Json files = Json::array();
  std::error_code failed;
  std::filesystem::directory_iterator at(mps.folders().pipe, failed);
  for (; !failed && at != std::filesystem::directory_iterator(); at.increment(failed)) {
    files.push_back(at->path().filename().string());
  }
  findings.fact("files of the pipe directory", files);
  const auto begin = steady_clock::now();
  (*world)->mps->mps().stop();
  findings.fact("time to end",
                std::chrono::duration_cast<milliseconds>(steady_clock::now() - begin).count(),
                "ms");
  findings.expect("the daemon has ended", !gpu::known_mps_daemon(mps.folders()), "it still runs");
  return {};
}

Result<void> check_mps_context(const Trial& trial, Findings& findings) {
  const auto world = start_world(trial);
  if (!world) return world.error();
  const NodeUnderTest& node = (*world)->node;
  const auto nvml = NvmlCard::open(trial, node.card.uuid);
  if (!nvml) return nvml.error();
  const auto used = [&] {
    const auto memory = (*nvml)->memory();
    return memory ? static_cast<std::int64_t>(memory->used / kBytesPerMiB) : 0;
  };
  std::int64_t before = used();
  std::vector<RunningProgram> clients;
  for (const char* const which :
       {"the server and the first client", "the second client", "the third client"}) {
    auto client = start_and_wait((*world)->mps->client(whole_card(node), {"hold", "0"}));
    if (!client) return client.error();
    clients.push_back(*std::move(client));
    findings.fact(fmt::format("used by {}", which), used() - before, "MiB");
    before = used();
  }
  findings.fact("pids of the clients", Json{clients[0].pid(), clients[1].pid(), clients[2].pid()});
  findings.fact("servers", text_of((*world)->mps->ask("get_server_list")));
  const auto source = gpu::nvml_source(nvml_options(trial));
  static_cast<void>(source->read());
  Json listed = Json::object();
  for (const auto& card : source->use()) {
    if (card.uuid != node.card.uuid) continue;
    for (const auto& process : card.processes) {
      listed[std::to_string(process.pid)] = process.memory ? Json(process.memory->value()) : Json();
    }
  }
  findings.fact("processes as the device plugin lists them", listed, "MiB");
  for (const RunningProgram& client : clients) {
    findings.expect(
        "a client is listed", listed.contains(std::to_string(client.pid())),
        fmt::format("process {} is not: what containers use cannot be told", client.pid()));
  }
  return {};
}

Result<void> check_mps_memory(const Trial& trial, Findings& findings) {
  const auto world = start_world(trial);
  if (!world) return world.error();
  for (const std::int64_t mib : {1'024, 8'000, 40'000}) {
    if (mib >= (*world)->node.card.memory.value()) {
      findings.fact(fmt::format("largest allocation at {} MiB", mib), "(the card is smaller)");
      continue;
    }
    const auto largest = try_limit(**world, mib, findings);
    if (!largest) return error(fmt::format("at {} MiB: {}", mib, largest.error().message));
    findings.expect(fmt::format("the limit of {} MiB holds", mib),
                    *largest <= static_cast<double>(mib),
                    fmt::format("{} MiB were allocated at once", *largest));
  }
  return {};
}

Result<void> check_mps_two_processes(const Trial& trial, Findings& findings) {
  const auto world = start_world(trial);
  if (!world) return world.error();
  const Share share = share_of(50, kSmallLimitMiB);
  const std::string most = std::to_string(kSmallLimitMiB * 3 / 4);
  const auto first = start_and_wait((*world)->mps->client(share, {"hold", most}));
  if (!first) return error("the first process: " + first.error().message);
  const auto second = start_and_wait((*world)->mps->client(share, {"hold", most}));
  findings.fact("limit", kSmallLimitMiB, "MiB");
  findings.fact("held by each of two processes", kSmallLimitMiB * 3 / 4, "MiB");
  findings.fact("the second one", second ? "got it, too" : second.error().message);
  findings.fact("the limit counts for", second ? "each process" : "both together");
  return {};
}

Result<void> check_mps_bypass(const Trial& trial, Findings& findings) {
  const auto world = start_world(trial);
  if (!world) return world.error();
  const auto nvml = NvmlCard::open(trial, (*world)->node.card.uuid);
  if (!nvml) return nvml.error();
  const auto mode = (*nvml)->number("nvmlDeviceGetComputeMode");
  findings.fact("compute mode", mode ? Json(*mode) : Json());
  findings.fact("with its variables", try_without(**world, ""));
  findings.fact("without CUDA_MPS_PIPE_DIRECTORY", try_without(**world, kPipeVariable));
  findings.fact("without CUDA_MPS_PINNED_DEVICE_MEM_LIMIT",
                try_without(**world, "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"));
  const std::string exclusive = "without CUDA_MPS_PIPE_DIRECTORY in mode EXCLUSIVE_PROCESS";
  if (!trial.exclusive) {
    findings.fact(exclusive, "(not tried: --exclusive changes the compute mode)");
    return {};
  }
  if (auto set = (*nvml)->set_compute_mode(kExclusiveProcess); !set) return set.error();
  findings.fact(exclusive, try_without(**world, kPipeVariable));
  return (*nvml)->set_compute_mode(mode.value_or(0));
}

Result<void> check_mps_container(const Trial& trial, Findings& findings) {
  if (::geteuid() != 0) {
    findings.skip("needs root");
    return {};
  }
  const auto world = start_world(trial);
  if (!world) return world.error();
  const std::vector<std::string> words = {kProgramInContainer, "largest",
                                          std::to_string(kSmallLimitMiB + kBeyondMiB)};
  for (const bool read_only : {false, true}) {
    for (const int user : {0, kOtherUser}) {
      Container container =
          (*world)->mps->container(share_of(30, kSmallLimitMiB), read_only, words);
      container.user = user;
      const auto program = run_to_end(enter_command(trial, container), kProgramTimeout);
      const std::string which = fmt::format("as user {}, pipe directory {}", user,
                                            read_only ? "read-only" : "read-write");
      findings.fact("largest allocation " + which,
                    program ? number_of(*program, "largest_mib") : Json(program.error().message),
                    program ? "MiB" : "");
      const double largest = program ? program->number("largest_mib").value_or(0) : 0;
      const bool held = largest > 0 && largest <= kSmallLimitMiB;
      // The plugin mounts it read-write today; whether it has to is the question.
      if (!read_only) {
        findings.expect(
            "the limit holds in a container " + which, held,
            program ? fmt::format("{} MiB were allocated", largest) : program.error().message);
      }
    }
  }
  return {};
}

Result<void> check_mps_control(const Trial& trial, Findings& findings) {
  if (::geteuid() != 0) {
    findings.skip("needs root");
    return {};
  }
  const auto world = start_world(trial);
  if (!world) return world.error();
  // What a tenant would bring along in the image.
  std::error_code failed;
  const std::string control = trial.mps_control.find('/') != std::string::npos
                                  ? trial.mps_control
                                  : "/usr/bin/" + trial.mps_control;
  if (!std::filesystem::exists(control, failed)) {
    findings.skip("no " + control + " to put into the container");
    return {};
  }
  for (const int user : {0, kOtherUser}) {
    Container container = (*world)->mps->container(share_of(30, kSmallLimitMiB), true, {});
    container.user = user;
    container.more_mounts = {{control, kControlInContainer, true}};
    container.words = {kControlInContainer};
    const auto send = [&](const std::string& command) {
      const Command enter = enter_command(trial, container);
      return text_of(gpu::converse({enter.path, enter.arguments, {}, -1, -1}, command + "\n",
                                   64 * 1024, milliseconds(10'000)));
    };
    const std::string who = fmt::format(" by user {} of a container, pipe read-only", user);
    findings.fact("get_default_active_thread_percentage" + who,
                  send("get_default_active_thread_percentage"));
    findings.fact("set_default_active_thread_percentage 40" + who,
                  send("set_default_active_thread_percentage 40"));
    findings.fact("default afterwards, asked from outside",
                  text_of((*world)->mps->ask("get_default_active_thread_percentage")));
    findings.fact("quit" + who, send("quit"));
    findings.fact("the daemon afterwards",
                  (*world)->mps->mps().ready((*world)->node.card.uuid) ? "runs" : "has ended");
    if (!(*world)->mps->mps().ready((*world)->node.card.uuid)) break;
  }
  return {};
}

}  // namespace mgpu::gpu_trial
