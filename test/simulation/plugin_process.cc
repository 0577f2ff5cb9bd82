#include "test/simulation/plugin_process.h"

#include <utility>

#include "plugin/allocation/offer.h"
#include "plugin/containers/limits.h"
#include "plugin/containers/rebuild.h"
#include "plugin/kubelet/checkpoint.h"

namespace mgpu::simulation {
namespace {

constexpr Duration kStartPoll{100};
constexpr Duration kMaintainPeriod{1'000};
constexpr int kRegistrationMostMs = 2'000;

plugin::MpsOptions mps_options(const std::string& run_folder) {
  plugin::MpsOptions options;
  options.run_dir = run_folder;
  return options;
}

}  // namespace

PluginProcess::PluginProcess(Parts parts, const std::string& node, int number)
    : parts_(std::move(parts)),
      node_(node),
      number_(number),
      link_(parts_.server, parts_.faults),
      records_(parts_.disk.folder() + "/allocations"),
      incumbent_(parts_.run_folder + "/serving"),
      pods_(NodeName(node), link_),
      publisher_(NodeName(node), parts_.contract, link_, [](const std::string&) {}),
      pod_resources_(node),
      pod_processes_(parts_.disk.folder() + "/proc"),
      inventory_(parts_.cards.source(), {}),
      mps_(mps_options(parts_.run_folder)),
      injector_(plugin::cdi_injector(parts_.contract, parts_.run_folder)),
      allocate_handler_(records_, *injector_,
                        [this, number] {
                          // As those of the product it ends with no digit.
                          return "n" + std::to_string(number) + "x" + std::to_string(++nonces_) +
                                 "x";
                        }),
      pre_start_handler_({parts_.contract, NodeName(node), parts_.disk.folder(), {}},
                         {records_, *injector_, inventory_, [this] { return share_limits(); },
                          pods_, pod_resources_, pod_processes_},
                         [](const plugin::Refusal&) {}),
      collector_({records_, *injector_, pods_, pod_resources_, pod_processes_},
                 parts_.contract.core_resource, parts_.disk.folder()) {
  link_.answer_gets_at_once();
  (void)records_.load();
  pods_.start();
  publish();
  open();
}

PluginProcess::~PluginProcess() {
  callbacks_.close();
}

// The steps of a start, as in plugin/agent/agent_start.cc.
void PluginProcess::open() {
  const auto checkpoint =
      plugin::read_checkpoint(parts_.disk.folder(), parts_.contract.core_resource);
  if (checkpoint) {
    const auto lost = plugin::lost_entries(*checkpoint, records_.all());
    if (!lost.empty() && !pods_.listed()) {
      link_.executor().after(kStartPoll, callbacks_.wrap([this] { open(); }));
      return;
    }
    for (const plugin::CheckpointEntry& entry : lost) {
      const auto rebuilt =
          plugin::rebuild(entry, pods_.find(entry.uid), inventory_.state().cards, parts_.contract);
      if (!rebuilt || !records_.keep(rebuilt->record)) continue;
      (void)records_.save(rebuilt->record, Durability::kMachine);
    }
  }
  (void)incumbent_.become();
  (void)records_.load();
  for (const plugin::Record& record : records_.bound()) {
    if (auto edits = plugin::edits_of(record, inventory_, share_limits())) {
      injector_->restore(record.id, *edits);
    }
  }
  pre_start_handler_.open();
  register_later();
  maintain_later();
}

plugin::ShareLimits PluginProcess::share_limits() const {
  const auto before_start = [this](const plugin::Record& record) -> Result<void> {
    const bool ready =
        !plugin::is_part_of_one_card(record) || parts_.mps_answers(record.cards.front().index);
    if (!ready) return error("MPS of the card does not run");
    return {};
  };
  return {.mps = &mps_, .mps_hook = &hook_, .before_start = before_start};
}

void PluginProcess::register_later() {
  const Duration delay(static_cast<int>(link_.executor().random() * kRegistrationMostMs));
  link_.executor().after(delay, callbacks_.wrap([this] { parts_.on_registered(); }));
}

void PluginProcess::register_again() {
  if (!incumbent_.replaced()) register_later();
}

void PluginProcess::maintain_later() {
  link_.executor().after(plugin::kRecordCollectPeriod, callbacks_.wrap([this] {
    if (incumbent_.replaced()) return leave_node_to_successor();
    collector_.collect();
    publish();
    maintain_later();
  }));
}

void PluginProcess::leave_node_to_successor() {
  publisher_.withdraw();
  link_.executor().after(kMaintainPeriod, callbacks_.wrap([this] {
    incumbent_.successor_ended() ? parts_.on_fatal() : leave_node_to_successor();
  }));
}

void PluginProcess::publish() {
  if (incumbent_.replaced()) return;
  plugin::NodeReport report;
  report.cards = parts_.cards.facts();
  report.memory = plugin::offered(report.cards, held()).memory.value();
  report.ready = plugin::NodeReport::Ready::kTrue;
  report.reason = "CardsReady";
  report.message = "simulated";
  publisher_.publish(std::move(report));
}

Percent PluginProcess::offered_core() const {
  return plugin::offered(parts_.cards.facts(), held()).core;
}

std::vector<std::string> PluginProcess::offered() const {
  return plugin::offered_core_ids(parts_.cards.facts(), records_.all(), held());
}

Share PluginProcess::held() const {
  const auto cards = parts_.cards.facts();
  return pods_.listed() ? plugin::held_on_unhealthy(cards, pods_.all(), parts_.contract)
                        : plugin::held_on_unhealthy(cards, records_.bound());
}

Result<plugin::AllocateResponse> PluginProcess::allocate(const std::vector<std::string>& ids) {
  return allocate_handler_.allocate(ids);
}

plugin::Decided<void> PluginProcess::pre_start(const std::vector<std::string>& ids) {
  if (incumbent_.replaced()) {
    return plugin::Refusal{plugin::RefusalReason::kNotReady, "another process serves", true};
  }
  return pre_start_handler_.start(ids, [] { return true; });
}

}  // namespace mgpu::simulation
