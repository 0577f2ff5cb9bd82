// How the agent comes up, step by step, and what its thread does after that.
#include <future>
#include <random>
#include <string_view>
#include <utility>

#include "common/base/log.h"
#include "common/base/mutex.h"
#include "plugin/agent/agent_state.h"
#include "plugin/allocation/offer.h"
#include "plugin/containers/container_edits.h"
#include "plugin/containers/limits.h"
#include "plugin/containers/rebuild.h"
#include "plugin/kubelet/checkpoint.h"
#include "plugin/kubelet/runtime.h"
#include "plugin/monitor/limits.h"
#include "plugin/node/evictor.h"

namespace mgpu::plugin {

namespace {

constexpr std::chrono::milliseconds kRuntimeTimeout{5'000};
// At what another program brings.
constexpr std::chrono::milliseconds kLookAgain{500};
// At what another thread of ours brings: no pod with cards starts before.
constexpr std::chrono::milliseconds kLookSoon{20};

std::string socket_name(std::string resource) {
  for (char& c : resource) c = c == '/' ? '-' : c;
  return resource + ".sock";
}

// Unlike any before: 40 bits of the system's randomness.
std::string fresh_nonce() {
  constexpr std::string_view kDigits = "abcdefghijklmnopqrstuvwxyz234567";
  constexpr int kLength = 8;
  std::random_device device;
  std::string nonce;
  for (int i = 0; i < kLength; ++i) nonce += kDigits[device() % kDigits.size()];
  return nonce;
}

// Runs `task` on the executor and waits for it.
void run_on(Executor& executor, const Task& task) {
  std::promise<void> done;
  executor.post([&] {
    task();
    done.set_value();
  });
  done.get_future().wait();
}

}  // namespace

Result<void> Agent::State::start() {
  const auto problems = records_.load();
  if (!problems) return error("--state-dir: " + problems.error().message);
  for (const std::string& problem : *problems) {
    log_error("allocation record is not usable; kubelet's checkpoint is asked",
              {{"problem", problem}});
  }
  auto server = http::Server::start(settings_.http,
                                    [this](http::Request request, http::Respond respond) {
                                      router_.route(std::move(request), std::move(respond));
                                    },
                                    {});
  if (!server) return server.error();
  server_ = std::move(*server);
  pods_->start();
  thread_ = std::thread([this] { run(); });
  return {};
}

void Agent::State::end() {
  {
    const MutexLock lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
  inventory_.stop();
  if (starter_) starter_->close();
  // Not under the mutex: they wait for calls that may want it.
  std::unique_ptr<DevicePlugin> core;
  std::unique_ptr<DevicePlugin> memory;
  {
    const MutexLock lock(mutex_);
    core = std::move(core_plugin_);
    memory = std::move(memory_plugin_);
  }
  core.reset();
  memory.reset();
  server_.reset();
  run_on(transport_.executor(), [this] { publisher_.reset(); });
}

void Agent::State::run() {
  if (!bring_up()) return;
  log_info("serving", {{"injection", injector_->name()},
                       {"allocations", std::to_string(records_.all().size())}});
  maintenance_loop();
}

bool Agent::State::bring_up() {
  if (!choose_injector()) return false;
  allocator_ = std::make_unique<AllocateHandler>(records_, *injector_, fresh_nonce);
  starter_ = std::make_unique<PreStartHandler>(
      StarterSettings{settings_.contract, settings_.node, settings_.plugin_folder,
                      settings_.settle},
      StarterParts{records_, *injector_, inventory_, mps_.get(), *pods_, pod_resources_},
      [this](const Refusal& refusal) { on_refused(refusal); });
  collector_ = std::make_unique<RecordCollector>(
      RecordCollector::Parts{records_, *injector_, *pods_, pod_resources_},
      settings_.contract.core_resource, settings_.plugin_folder);
  inventory_.start();
  if (!wait_for_cards() || !complete_records()) return false;
  monitoring_ = std::make_unique<Monitoring>(
      Monitoring::Parts{metrics_, inventory_, *pods_, records_}, settings_.node,
      settings_.proc_folder, [this](const Overuse& over) { on_over(over); });
  remember_injected();
  starter_->open();
  return register_plugins();
}

// --- steps ---------------------------------------------------------------------------------------

bool Agent::State::choose_injector() {
  auto chosen = std::optional(settings_.injection);
  if (*chosen == Injection::kAuto) chosen = ask_runtime();
  if (!chosen) return false;
  injector_ = *chosen == Injection::kCdi ? cdi_injector(settings_.contract, settings_.cdi_folder)
                                         : node_injector(settings_.run_folder);
  return true;
}

// A runtime that does not look at CDI would start containers without their cards and say nothing:
// without its answer nothing is offered.
std::optional<Injection> Agent::State::ask_runtime() {
  std::string told;
  do {
    const auto runtime =
        plugin::ask_runtime(settings_.runtime_socket, settings_.cdi_folder, kRuntimeTimeout);
    if (runtime) {
      log_info("container runtime", {{"name", runtime->name},
                                     {"version", runtime->version},
                                     {"cdi", runtime->cdi ? "true" : "false"},
                                     {"why", runtime->why}});
      return runtime->cdi ? Injection::kCdi : Injection::kDeviceNodes;
    }
    if (told != runtime.error().message) {
      told = runtime.error().message;
      log_warn("waiting for the container runtime; --injection says it without asking",
               {{"problem", told}});
    }
  } while (wait(kLookAgain));
  return std::nullopt;
}

void Agent::State::say_waiting(const std::string& what) {
  const MutexLock lock(mutex_);
  waiting_for_ = what;
}

bool Agent::State::wait_for_cards() {
  say_waiting("the cards");
  while (true) {
    const InventoryState state = inventory_.state();
    if (state.read) return true;
    if (!state.problem.empty()) say_waiting("the cards: " + state.problem);
    if (!wait(kLookSoon)) return false;
  }
}

bool Agent::State::complete_records() {
  const auto checkpoint =
      read_checkpoint(settings_.plugin_folder, settings_.contract.core_resource);
  if (!checkpoint) {
    log_info("kubelet's checkpoint is not asked", {{"because", checkpoint.error().message}});
    return true;
  }
  const auto lost = lost_entries(*checkpoint, records_.all());
  if (lost.empty()) return true;
  log_warn("allocations are rebuilt from kubelet's checkpoint",
           {{"allocations", std::to_string(lost.size())}});
  say_waiting("the pods of this node");
  while (!pods_->listed()) {
    if (!wait(kLookSoon)) return false;
  }
  for (const CheckpointEntry& entry : lost) rebuild(entry);
  return true;
}

void Agent::State::rebuild(const CheckpointEntry& entry) {
  const auto rebuilt =
      plugin::rebuild(entry, pods_->find(entry.uid), inventory_.state().cards, settings_.contract);
  if (!rebuilt) return;
  if (!rebuilt->problem.empty()) {
    log_error("a started container's cards cannot be told", {{"problem", rebuilt->problem}});
  }
  auto kept = records_.keep(rebuilt->record);
  if (kept) kept = records_.save(rebuilt->record, Durability::kMachine);
  if (!kept) log_warn("allocation is kept in memory only", {{"problem", kept.error().message}});
}

// The runtime may be about to create a container that an earlier process let start.
void Agent::State::remember_injected() {
  injector_->set_shared(inventory_.state().found.shared);
  for (const Record& record : records_.bound()) {
    if (auto edits = edits_of(record, inventory_, mps_.get()))
      injector_->restore(record.id, *edits);
  }
}

bool Agent::State::register_plugins() {
  const auto cards = inventory_.state().cards;
  const bool by_kubelet = settings_.memory_resource == MemoryResource::kDevicePlugin;
  if (by_kubelet) {
    if (auto fits = check_memory_list(healthy_memory(cards)); !fits) {
      on_fatal_(fits.error().message);
      return false;
    }
  }
  // Never an empty list first: kubelet would take every device of the next one for a new one, and
  // look for each of them among all that its pods hold (devicemanager/manager.go,
  // genericDeviceUpdateCallback): minutes without a turn for pods where the list is long.
  auto core =
      make_plugin(settings_.contract.core_resource, core_devices(cards),
                  {.allocate = [this](const auto& ids) { return allocate(ids); },
                   .pre_start = [this](const auto& ids,
                                       const auto& cancelled) { return pre_start(ids, cancelled); },
                   .on_registration = {}});
  auto memory =
      by_kubelet
          ? make_plugin(settings_.contract.memory_resource, memory_devices(cards),
                        {.allocate = allocate_memory, .pre_start = {}, .on_registration = {}})
          : nullptr;
  {
    const MutexLock lock(mutex_);
    core_plugin_ = std::move(core);
    memory_plugin_ = std::move(memory);
    up_ = true;
  }
  offer(inventory_.state().cards);  // what has changed meanwhile
  return true;
}

std::unique_ptr<DevicePlugin> Agent::State::make_plugin(const std::string& resource,
                                                        std::vector<Device> devices,
                                                        DevicePluginHandlers handlers) {
  handlers.on_registration = [this, resource](const Result<void>& outcome) {
    on_registration(resource, outcome);
  };
  return std::make_unique<DevicePlugin>(
      DevicePluginOptions{resource, settings_.plugin_folder, socket_name(resource)},
      std::move(devices), std::move(handlers));
}

// The container is known by its mgpu-core devices; these are counted by kubelet and nothing else.
Result<AllocateResponse> Agent::State::allocate_memory(const std::vector<std::string>&) {
  return AllocateResponse{};
}

// --- keeping house -------------------------------------------------------------------------------

void Agent::State::maintenance_loop() {
  auto collected = std::chrono::steady_clock::now();
  do {
    publish();
    const auto start = std::chrono::steady_clock::now();
    monitoring_->sample();
    if (settings_.enforcement == Enforcement::kEvict) evict_over();
    own_metrics_.sampled(std::chrono::steady_clock::now() - start);
    if (start - collected < kRecordCollectPeriod) continue;
    collected = start;
    collector_->collect();
  } while (wait_for_news(kMonitorPeriod));
}

bool Agent::State::wait_for_news(std::chrono::milliseconds time) {
  MutexLock lock(mutex_);
  changed_.wait_for(lock, time);
  return !ending_;
}

// At each sample anew, as long as a pod is over: a disruption budget may allow it later.
void Agent::State::evict_over() {
  for (const Overuse& over : monitoring_->over()) {
    evict(transport_, over.owner.pod, over.owner.uid,
          [pod = over.owner.pod](const Eviction& eviction) {
            log_info("eviction of a pod that uses more memory than it holds",
                     {{"pod", to_string(pod)},
                      {"outcome", eviction.message.empty() ? "evicted" : eviction.message}});
          });
  }
}

void Agent::State::on_over(const Overuse& over) {
  const std::string message = "container " + over.owner.container + " uses " +
                              std::to_string(over.used.value()) + " MiB of card " +
                              std::to_string(over.grant.index.value()) + " and holds " +
                              std::to_string(over.grant.share.memory.value()) + " MiB";
  log_warn("more memory than held", {{"pod", to_string(over.owner.pod)}, {"problem", message}});
  const bool evict = settings_.enforcement == Enforcement::kEvict;
  events_.on_pod(
      over.owner.pod, over.owner.uid,
      {Event::Type::kWarning, "MGPUMemoryExceeded",
       message + (evict ? "; the pod is to be evicted" : "; ask for more memory, or use less")});
}

}  // namespace mgpu::plugin
