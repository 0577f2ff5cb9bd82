#include "plugin/state/record_json.h"

#include <algorithm>
#include <array>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "common/kube/json_tree.h"
#include "common/limits.h"
#include "common/text.h"

namespace mgpu::state {

namespace {

using allocation::CardGrant;
using allocation::DeviceSet;
using allocation::Owner;
using allocation::Record;
using Json = nlohmann::ordered_json;

constexpr std::int32_t kVersion = 1;
constexpr std::array<std::pair<ContainerKind, std::string_view>, 3> kKinds = {
    {{ContainerKind::kInit, "init"},
     {ContainerKind::kSidecar, "sidecar"},
     {ContainerKind::kApp, "app"}}};

std::string_view name(ContainerKind kind) {
  for (const auto& [one, text] : kKinds) {
    if (one == kind) return text;
  }
  return "app";
}

std::optional<ContainerKind> kind_of(std::string_view text) {
  for (const auto& [one, its_name] : kKinds) {
    if (its_name == text) return one;
  }
  return std::nullopt;
}

Json owner_json(const Owner& owner) {
  return {{"namespace", owner.pod.space}, {"pod", owner.pod.name},    {"uid", owner.uid.str()},
          {"container", owner.container}, {"kind", name(owner.kind)}, {"position", owner.position}};
}

Json card_json(const CardGrant& card) {
  return {{"index", card.index.value()},
          {"uuid", card.uuid.str()},
          {"core", card.share.core.value()},
          {"memoryMiB", card.share.memory.value()}};
}

// As Record promises them: what is made of a record relies on it.
bool ascending(const std::vector<CardGrant>& cards) {
  const auto descent =
      std::ranges::adjacent_find(cards, std::ranges::greater_equal{}, &CardGrant::index);
  return descent == cards.end();
}

// Reads what is there; the first thing that cannot be is kept as the problem.
class Reader {
 public:
  Record read(const kube::JsonCursor& root) {
    expect(root.int32("version") == kVersion, "\"version\" must be 1");
    Record record;
    record.id = allocation::AllocationId(root.text("allocation"));
    expect(valid(record.id), "\"allocation\" must be an allocation id");
    auto devices = DeviceSet::of(root.text_list("devices"));
    expect(devices.has_value(), "\"devices\" must be device ids");
    if (devices) record.devices = std::move(*devices);
    expect(record.id.str().starts_with(record.devices.hash()), "the id must be of the devices");
    if (root.has("owner")) record.owner = owner(root.object("owner"));
    root.each_object("cards", [&](const auto& card) { record.cards.push_back(grant(card)); });
    expect(record.bound() != record.cards.empty(), "owner and cards must be there together");
    expect(ascending(record.cards), "\"cards\" must be ascending by index, none twice");
    return record;
  }

  const std::string& problem() const { return problem_; }

 private:
  void expect(bool holds, const char* sentence) {
    if (!holds && problem_.empty()) problem_ = sentence;
  }

  Owner owner(const kube::JsonCursor& from) {
    Owner owner;
    owner.pod = {from.text("namespace"), from.text("pod")};
    owner.uid = PodUid(from.text("uid"));
    owner.container = from.text("container");
    const auto kind = kind_of(from.text("kind"));
    expect(kind.has_value(), "\"kind\" must be init, sidecar or app");
    owner.kind = kind.value_or(ContainerKind::kApp);
    owner.position = from.int32("position");
    expect(owner.position >= 0, "\"position\" must not be negative");
    expect(!owner.uid.empty() && !owner.container.empty(),
           "the owner must have a uid and a container");
    return owner;
  }

  CardGrant grant(const kube::JsonCursor& from) {
    const std::int32_t index = from.int32("index");
    const std::int32_t core = from.int32("core");
    const std::int32_t memory = from.int32("memoryMiB");
    expect(index >= 0 && index <= limits::kCardIndexMax, "\"index\" of a card is out of range");
    expect(core >= 0 && core <= kWholeCard.value(), "\"core\" of a card must be 0 to 100");
    expect(memory >= 0 && memory <= limits::kCardMemoryMiBMax,
           "\"memoryMiB\" of a card is out of range");
    expect(!from.text("uuid").empty(), "a card must have a uuid");
    if (!problem_.empty()) return {};
    return {CardIndex(index), CardUuid(from.text("uuid")), {Percent(core), MiB(memory)}};
  }

  std::string problem_;
};

bool every_member(std::size_t, std::string_view) {
  return true;
}

}  // namespace

std::string record_json(const Record& record) {
  Json json = {
      {"version", kVersion}, {"allocation", record.id.str()}, {"devices", record.devices.ids()}};
  if (record.owner) json["owner"] = owner_json(*record.owner);
  json["cards"] = Json::array();
  for (const CardGrant& card : record.cards) json["cards"].push_back(card_json(card));
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string records_json(const std::vector<Record>& records) {
  std::string json;
  for (const Record& record : records) json += (json.empty() ? "" : ",") + record_json(record);
  return "[" + json + "]\n";
}

Result<Record> parse_record(std::string_view json) {
  Reader reader;
  auto record = kube::read_tree<Record>(
      json, every_member, [&](const kube::JsonCursor& root) { return reader.read(root); });
  if (!record || reader.problem().empty()) return record;
  return error(reader.problem());
}

}  // namespace mgpu::state
