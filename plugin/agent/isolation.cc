#include "plugin/agent/isolation.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <system_error>
#include <utility>

#include "common/base/files.h"
#include "common/base/log.h"
#include "common/base/text.h"
#include "plugin/cards/limits.h"
#include "plugin/monitor/limits.h"

namespace mgpu::plugin {
namespace {

constexpr char kHookName[] = "mgpu-set-limits";
constexpr char kCudaLibrary[] = "libmgpu-cuda.so";
constexpr char kNvmlLibrary[] = "libmgpu-nvml.so";
constexpr char kCheckProgram[] = "mgpu-check-share";
constexpr std::size_t kHookBytesMax = std::size_t{64} << 20;
// By the numbers of the modes.
constexpr std::array<std::string_view, 5> kIsolationNames{"auto", "none", "intercept", "mps",
                                                          "driver"};
static_assert(static_cast<std::size_t>(IsolationMode::kDriver) + 1 == kIsolationNames.size());
constexpr std::array<std::string_view, 4> kComputeNames{"none", "burst", "fixed", "mps"};
static_assert(static_cast<std::size_t>(ComputeMode::kMps) + 1 == kComputeNames.size());

template <class Mode>
Mode mode_of(std::string_view name, const auto& names) {
  const auto at = std::ranges::find(names, name);
  return at == names.end() ? Mode::kNone : static_cast<Mode>(at - names.begin());
}

bool is_executable(const std::string& path) {
  std::error_code unreadable;
  return std::filesystem::is_regular_file(path, unreadable) && ::access(path.c_str(), X_OK) == 0;
}

// Many nodes mount some folders so that no programs run from them.
Result<void> can_run(const std::string& path) {
  struct statvfs system {};
  const bool noexec = ::statvfs(path.c_str(), &system) == 0 && (system.f_flag & ST_NOEXEC) != 0;
  if (!noexec) return {};
  return error(path +
               " is on a file system that runs no programs (noexec); set --hook-path for "
               "limits of the driver and MPS, and another --state-dir for the library");
}

// Copies the program to where the container runtime finds it.
Result<void> install_program(const std::string& from, const std::string& to) {
  const auto program = read_file(from, kHookBytesMax, "program");
  if (!program) return program.error();
  // A container may be starting.
  const auto installed = read_file(to, kHookBytesMax, "program");
  if (installed && *installed == *program && is_executable(to)) return can_run(to);
  if (auto written = write_file(to, *program, Durability::kProcess); !written) return written;
  if (::chmod(to.c_str(), 0755) != 0) return error("cannot make " + to + " executable");
  return can_run(to);
}

// Exists if the driver has limited memory on this node.
std::string driver_worked_file(const IsolationSettings& settings) {
  return settings.hook_folder + "/driver-limits";
}

void note_driver_worked(const IsolationSettings& settings) {
  static_cast<void>(write_file(driver_worked_file(settings), "", Durability::kProcess));
}

// The cgroups of containers must be visible below the root of the node's hierarchy.
Result<void> check_cgroups(const std::string& proc_folder) {
  const auto text = read_file(proc_folder + "/1/cgroup", kProcFileBytesMax);
  if (!text) return {};
  const auto path = cgroup_v2_path(*text);
  return path ? Result<void>() : error("the limits of the driver: " + path.error().message);
}

Result<std::string> hook_program(const IsolationSettings& settings) {
  if (!settings.hook_path.empty()) return settings.hook_path;
  std::error_code unreadable;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", unreadable);
  std::string program = settings.hook_folder + "/" + kHookName;
  auto installed = install_program(self.parent_path() / kHookName, program);
  if (installed) return program;
  // That of an earlier version has the same protocol.
  if (!is_executable(program) || !can_run(program)) return installed.error();
  log_warn("mgpu-set-limits was not replaced", {{"problem", installed.error().message}});
  return program;
}

}  // namespace

std::string_view to_string(IsolationMode mode) {
  return kIsolationNames.at(static_cast<std::size_t>(mode));
}

IsolationMode isolation_mode(std::string_view name) {
  return mode_of<IsolationMode>(name, kIsolationNames);
}

std::string_view to_string(ComputeMode mode) {
  return kComputeNames.at(static_cast<std::size_t>(mode));
}

ComputeMode compute_mode(std::string_view name) {
  return mode_of<ComputeMode>(name, kComputeNames);
}

ComputeMode compute_with(IsolationMode memory, ComputeMode wanted) {
  switch (memory) {
    case IsolationMode::kMps:
      return ComputeMode::kMps;
    case IsolationMode::kAuto:
    case IsolationMode::kIntercept:
      return wanted;
    case IsolationMode::kDriver:
      return wanted == ComputeMode::kMps ? wanted : ComputeMode::kNone;
    case IsolationMode::kNone:
      break;
  }
  return ComputeMode::kNone;
}

std::optional<TurnRule> Isolation::turns() const {
  if (compute() == ComputeMode::kBurst) return TurnRule::kBurst;
  if (compute() == ComputeMode::kFixed) return TurnRule::kFixed;
  return std::nullopt;
}

// --- the cards -----------------------------------------------------------------------------------

std::string Isolation::problem_of(const FoundCard& card, const Edits& shared) {
  const bool mig = card.uuid.str().starts_with("MIG-");
  if (mig && uses_mps()) return "is a MIG device, whose parts MPS cannot limit";
  if (mig && chosen_ == IsolationMode::kDriver) {
    return "is a MIG device, whose parts --isolation=driver cannot limit";
  }
  std::string problem;
  if (chosen_ == IsolationMode::kIntercept) problem = library_problem(card, shared);
  if (chosen_ == IsolationMode::kDriver) problem = driver_problem_of(card.uuid);
  const Mps* const running = mps();
  if (problem.empty() && running != nullptr) problem = running->problem_of(card);
  return problem.empty() ? exclusive_.problem_of(card.uuid) : problem;
}

std::string Isolation::driver_problem_of(const CardUuid& card) {
  std::string problem = hook_.problem.empty() ? limit_problem(card) : hook_.problem;
  const MutexLock lock(mutex_);
  std::string& logged = logged_[card];
  if (problem != logged && !problem.empty()) {
    log_warn("the driver cannot limit the memory of containers, and the card is not offered",
             {{"card", card.str()}, {"problem", problem}});
  }
  logged = problem;
  return problem;
}

std::string Isolation::library_problem(const FoundCard& card, const Edits& shared) {
  if (!library_.problem.empty()) return library_.problem;
  if (!can_have_pages(card.uuid)) {
    return "its UUID is not \"GPU-\" or \"MIG-\" and 32 digits, by which the library in containers "
           "finds it";
  }
  // No useful part fits in the memory of some cards.
  if (!settings_.self_test || card.memory <= kNoMemoryOfItsOwn) return "";
  auto input = self_test_input(library_, settings_.nvml.node_root, card.nodes, shared);
  const std::string identity = input ? input->identity : input.error().message;
  return self_tests_.problem_of(
      card.uuid, identity, [=, this](bool offered, const std::atomic<bool>& cancelled) {
        if (input) return test_library(card, *input, offered, cancelled);
        return SelfTest{SelfTest::Outcome::kNotTested, input.error().message};
      });
}

// What pods hold of the card is theirs, also while they do not use it. Beside them the test runs
// only where the card would not be offered without it.
SelfTest Isolation::test_library(const FoundCard& card, const SelfTestInput& input, bool offered,
                                 const std::atomic<bool>& cancelled) const {
  MiB held;
  for (const Record& record : records_.all()) {
    for (const CardGrant& grant : record.cards) {
      if (grant.uuid != card.uuid) continue;
      if (offered) return {SelfTest::Outcome::kNotTested, "pods hold parts of the card"};
      held = held + grant.share.memory;
    }
  }
  if (card.memory < held + self_test_memory(settings_.context)) {
    return {SelfTest::Outcome::kNotTested, "pods hold the memory of the card"};
  }
  const SelfTestProgram program{.path = program_folder() + "/" + kCheckProgram,
                                .empty = library_.empty,
                                .context = settings_.context};
  return run_self_test(program, card.uuid, input, cancelled);
}

std::map<CardUuid, SelfTest> Isolation::self_tests() const {
  if (chosen_ != IsolationMode::kIntercept) return {};
  return self_tests_.results();
}

void Isolation::keep_self_tests(const std::vector<FoundCard>& found) {
  std::vector<CardUuid> cards;
  for (const FoundCard& card : found) cards.push_back(card.uuid);
  self_tests_.keep_only(cards);
}

// A card whose limits worked is not checked again: from then on the start of each container reads
// its limits back.
std::string Isolation::limit_problem(const CardUuid& card) {
  {
    const MutexLock lock(mutex_);
    if (limitable_.contains(card)) return "";
  }
  const auto works = limits_.check(card);
  if (!works) return works.error().message;
  if (chosen_ == IsolationMode::kDriver) note_driver_worked(settings_);
  const MutexLock lock(mutex_);
  limitable_.insert(card);
  return "";
}

// --- the choice ----------------------------------------------------------------------------------

Isolation::Isolation(IsolationSettings settings, const Records& records,
                     std::function<std::vector<CardFacts>()> cards)
    : settings_(std::move(settings)),
      records_(records),
      cards_of_node_(std::move(cards)),
      modes_(settings_.nvml, settings_.mps.run_dir),
      exclusive_(modes_, records),
      limits_(settings_.nvml),
      setter_(records, limits_, settings_.proc_folder),
      mode_(settings_.mode),
      compute_(settings_.compute),
      pages_(settings_.run_folder + "/share", settings_.context),
      self_tests_(settings_.hook_folder + "/self-tests") {}

void Isolation::stop() {
  self_tests_.stop();
  server_.reset();
}

void Isolation::prepare() {
  if (mode_ == IsolationMode::kAuto) return;
  if (mode_ == IsolationMode::kDriver) {
    const auto set_up = set_up_hook();
    hook_.problem = set_up ? "" : set_up.error().message;
  }
  if (mode_ == IsolationMode::kIntercept) {
    const auto set_up = set_up_library();
    library_.problem = set_up ? "" : set_up.error().message;
  }
  settle(mode_, "--isolation");
}

void Isolation::switch_to(IsolationMode mode, ComputeMode compute) {
  set_modes(mode, compute);
  prepare();
  choose();
}

std::string Isolation::fallback() const {
  const MutexLock lock(mutex_);
  return fallback_;
}

void Isolation::choose() {
  if (mode_ != IsolationMode::kAuto) return;
  std::string problem = driver_problem();
  if (problem.empty()) {
    const auto set_up = set_up_hook();
    if (set_up) {
      bool works = false;
      {
        const MutexLock lock(mutex_);
        works = !limitable_.empty();
      }
      if (works) note_driver_worked(settings_);
      return settle(IsolationMode::kDriver, "the driver limits the memory of cgroups");
    }
    problem = set_up.error().message;
    log_warn("the driver limits memory, but its hook cannot be installed", {{"problem", problem}});
  }
  const auto library = can_use_library();
  if (!library) problem += "; nor can it use the library: " + library.error().message;
  const IsolationMode mode = library ? IsolationMode::kIntercept : IsolationMode::kNone;
  settle(mode, problem);
  const MutexLock lock(mutex_);
  fallback_ = fmt::format("--isolation=auto is {}, because {}", to_string(mode), problem);
}

// A card that fails now may work later, and is not offered until then. Only where no card works the
// driver may not be able to limit memory at all, unless it did before. Unhealthy cards may hang.
std::string Isolation::driver_problem() {
  if (const auto available = limits_.available(); !available) return available.error().message;
  std::vector<CardFacts> cards = cards_of_node_();
  if (std::ranges::any_of(cards, &CardFacts::healthy))
    std::erase_if(cards, [](const CardFacts& card) { return !card.healthy(); });
  std::string problem;
  for (const CardFacts& card : cards) {
    problem = limit_problem(card.uuid);
    if (problem.empty()) return "";
  }
  std::error_code unreadable;
  return std::filesystem::exists(driver_worked_file(settings_), unreadable) ? "" : problem;
}

Result<void> Isolation::set_up_hook() {
  if (server_) return {};
  if (auto visible = check_cgroups(settings_.proc_folder); !visible) return visible;
  auto program = hook_program(settings_);
  if (!program) return program.error();
  hook_.socket = settings_.run_folder + "/limits.sock";
  const auto set_limits = [this](const AllocationId& id, std::int64_t pid) {
    auto set = setter_.set(id, pid);
    if (set) return set;
    // All cards are checked again, so that those without limits are not offered.
    const MutexLock lock(mutex_);
    limitable_.clear();
    return set;
  };
  auto server = LimitServer::start(hook_.socket, set_limits);
  if (!server) return server.error();
  hook_.program = *std::move(program);
  server_ = *std::move(server);
  return {};
}

Result<void> Isolation::can_use_library() {
  const auto cards = cards_of_node_();
  const auto lacks_pages = [](const CardFacts& card) { return !can_have_pages(card.uuid); };
  // Cards may appear later, and each of them is judged then.
  if (!cards.empty() && std::ranges::all_of(cards, lacks_pages)) {
    return error("no card has a UUID of NVML");
  }
  return set_up_library();
}

std::string Isolation::program_folder() const {
  if (!settings_.library_folder.empty()) return settings_.library_folder;
  std::error_code failed;
  return std::filesystem::read_symlink("/proc/self/exe", failed).parent_path();
}

// A container keeps the library that it started with: a new one is another file.
Result<void> Isolation::set_up_library() {
  if (!library_.cuda.empty()) return {};
  if (auto visible = check_mounts_of_node(settings_.run_folder, settings_.proc_folder); !visible) {
    return visible;
  }
  std::error_code failed;
  const std::filesystem::path from = program_folder();
  ShareLibrary library{.cuda = settings_.hook_folder + "/" + kCudaLibrary,
                       .nvml = settings_.hook_folder + "/" + kNvmlLibrary,
                       .empty = settings_.run_folder + "/empty",
                       .pages = settings_.run_folder + "/share"};
  std::filesystem::create_directories(library.empty, failed);
  if (failed) return error(fmt::format("cannot make {}: {}", library.empty, failed.message()));
  for (const std::string& file : {library.cuda, library.nvml}) {
    const auto name = std::filesystem::path(file).filename();
    auto installed = install_program(from / name, file);
    if (installed) continue;
    // That of an earlier version refuses pages that it does not know.
    if (!is_executable(file) || !can_run(file)) return installed;
    log_warn("a library for containers was not replaced", {{"problem", installed.error().message}});
  }
  library_ = std::move(library);
  return {};
}

// PreStart checks the daemon too, so that MPS works without the hook.
void Isolation::set_up_mps_hook() {
  if (!mps_hook_.program.empty()) return;
  auto program = hook_program(settings_);
  if (program) {
    mps_hook_.program = *std::move(program);
    return;
  }
  log_warn("a container that kubelet starts without the plugin may run outside of MPS",
           {{"problem", program.error().message}});
}

void Isolation::settle(IsolationMode mode, const std::string& reason) {
  const ComputeMode compute = compute_with(mode, compute_);
  const bool with_mps = compute == ComputeMode::kMps;
  log_info("isolation of shares", {{"isolation", std::string(to_string(mode))},
                                   {"compute", std::string(to_string(compute))},
                                   {"reason", reason}});
  if (with_mps) set_up_mps_hook();
  const MutexLock lock(mutex_);
  fallback_.clear();
  // Its daemons restore no modes, because follow_modes() does, for healthy cards only.
  if (with_mps && !mps_) mps_ = std::make_unique<Mps>(settings_.mps);
  exclusive_.enable(with_mps && settings_.mps_exclusive);
  // Before the first read no card is known, and the daemons of all would be drained.
  if (mps_ && !cards_.empty()) mps_->set_cards(with_mps ? cards_ : std::vector<CardUuid>());
  chosen_ = mode;
  library_.compute = turns();
}

// --- while containers run ------------------------------------------------------------------------

void Isolation::set_cards(const std::vector<CardUuid>& cards) {
  const MutexLock lock(mutex_);
  cards_ = cards;
  if (mps_ && uses_mps()) mps_->set_cards(cards);
}

const Mps* Isolation::mps() const {
  const MutexLock lock(mutex_);
  return uses_mps() ? mps_.get() : nullptr;
}

const LimitHook* Isolation::mps_hook() const {
  return uses_mps() && !mps_hook_.program.empty() ? &mps_hook_ : nullptr;
}

const LimitHook* Isolation::driver_hook() const {
  return chosen_ == IsolationMode::kDriver ? &hook_ : nullptr;
}

const ShareLibrary* Isolation::library() const {
  return chosen_ == IsolationMode::kIntercept ? &library_ : nullptr;
}

std::vector<MpsState> Isolation::mps_states() const {
  const MutexLock lock(mutex_);
  return mps_ && uses_mps() ? mps_->states() : std::vector<MpsState>();
}

Result<void> Isolation::before_start(const Record& record) {
  if (parts_of_one_card() && has_parts_of_several_cards(record)) {
    return error(
        "MPS cannot limit parts of several cards, so that the container does not start; let it "
        "request whole cards, or a part of one card");
  }
  const Mps* const daemons = mps();
  if (daemons != nullptr && is_part_of_one_card(record)) {
    if (auto ready = daemons->prepare(record); !ready) return ready;
  }
  if (library() != nullptr && has_share(record)) {
    if (auto ready = pages_.prepare(record, turns().has_value()); !ready) return ready;
  }
  return exclusive_.before_start(record);
}

void Isolation::follow_modes(const std::vector<FoundCard>& found, bool released) {
  const auto daemon_responds = [daemons = mps()](const CardUuid& card) {
    return daemons != nullptr && daemons->ready(card);
  };
  exclusive_.follow({.cards = found, .daemon_responds = daemon_responds, .released = released});
}

void Isolation::keep_shares() const {
  const Mps* const daemons = mps();
  if (daemons != nullptr) daemons->keep_shares([this] { return records_.all(); });
}

void Isolation::on_removed(const AllocationId& id) {
  setter_.clear(id);
  pages_.remove(id);
}

}  // namespace mgpu::plugin
