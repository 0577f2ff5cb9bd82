#include "plugin/state/record_json.h"

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "common/contract/container_kind.h"
#include "common/contract/limits.h"
#include "common/kube/objects/json_value.h"

namespace mgpu::plugin {

namespace {
using Json = nlohmann::ordered_json;

constexpr std::int32_t kVersion = 1;

// Reads a record; the first problem is kept.
class Reader {
 public:
  Record read(kube::JsonValue& root) {
    std::int32_t version = 0;
    std::string id;
    std::vector<std::string> devices;
    Record record;
    root.read({{"version", version},
               {"allocation", id},
               {"devices", devices},
               {"owner", [&](kube::JsonValue& from) { record.owner = owner(from); }},
               {"cards", [&](kube::JsonValue& from) {
                  record.cards = from.list([this](kube::JsonValue& card) { return grant(card); });
                }}});
    // Another version is the problem to report, whatever else differs.
    if (version != kVersion) problem_ = "\"version\" must be 1";
    record.id = AllocationId(id);
    expect(valid(record.id), "\"allocation\" must be an allocation id");
    auto set = DeviceSet::of(devices);
    expect(set.has_value(), "\"devices\" must be device ids");
    if (set) record.devices = std::move(*set);
    expect(record.id.str().starts_with(record.devices.hash()), "the id must be of the devices");
    expect(record.bound() != record.cards.empty(), "owner and cards must be there together");
    const bool ascending = std::ranges::adjacent_find(record.cards, std::ranges::greater_equal{},
                                                      &CardGrant::index) == record.cards.end();
    expect(ascending, "\"cards\" must be ascending by index, none twice");
    return record;
  }

  const std::string& problem() const { return problem_; }

 private:
  void expect(bool condition, const char* sentence) {
    if (!condition && problem_.empty()) problem_ = sentence;
  }

  std::optional<Owner> owner(kube::JsonValue& from) {
    if (from.kind() == kube::JsonValue::Kind::kNull) return std::nullopt;
    Owner owner;
    std::string uid;
    std::string kind;
    from.read({{"namespace", owner.pod.name_space},
               {"pod", owner.pod.name},
               {"uid", uid},
               {"container", owner.container},
               {"kind", kind},
               {"position", owner.position}});
    owner.uid = PodUid(uid);
    const auto known = std::ranges::find(kContainerKinds, kind) - kContainerKinds.begin();
    const bool is_known = known < std::ssize(kContainerKinds);
    expect(is_known, "\"kind\" must be init, sidecar or app");
    if (is_known) owner.kind = static_cast<ContainerKind>(known);
    expect(owner.position >= 0, "\"position\" must not be negative");
    expect(!owner.uid.empty() && !owner.container.empty(),
           "the owner must have a uid and a container");
    return owner;
  }

  CardGrant grant(kube::JsonValue& from) {
    std::int32_t index = 0;
    std::int32_t core = 0;
    std::int32_t memory = 0;
    std::string uuid;
    from.read({{"index", index}, {"uuid", uuid}, {"core", core}, {"memoryMiB", memory}});
    expect(index >= 0 && index <= kCardIndexMax, "\"index\" of a card is out of range");
    expect(core >= 0 && core <= kWholeCard.value(), "\"core\" of a card must be 0 to 100");
    expect(memory >= 0 && memory <= kCardMemoryMiBMax, "\"memoryMiB\" of a card is out of range");
    expect(!uuid.empty(), "a card must have a uuid");
    if (!problem_.empty()) return {};
    return {CardIndex(index), CardUuid(uuid), {Percent(core), MiB(memory)}};
  }

  std::string problem_;
};

}  // namespace

std::string record_json(const Record& record) {
  Json json = {
      {"version", kVersion}, {"allocation", record.id.str()}, {"devices", record.devices.ids()}};
  if (record.owner) {
    const Owner& owner = *record.owner;
    json["owner"] = {{"namespace", owner.pod.name_space},
                     {"pod", owner.pod.name},
                     {"uid", owner.uid.str()},
                     {"container", owner.container},
                     {"kind", to_string(owner.kind)},
                     {"position", owner.position}};
  }
  json["cards"] = Json::array();
  for (const CardGrant& card : record.cards) {
    json["cards"].push_back({{"index", card.index.value()},
                             {"uuid", card.uuid.str()},
                             {"core", card.share.core.value()},
                             {"memoryMiB", card.share.memory.value()}});
  }
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string records_json(const std::vector<Record>& records) {
  std::string json;
  for (const Record& record : records) json += (json.empty() ? "" : ",") + record_json(record);
  return "[" + json + "]\n";
}

Result<Record> parse_record(std::string_view json) {
  Reader reader;
  Record record;
  const auto read =
      kube::read_json(json, [&](kube::JsonValue& root) { record = reader.read(root); });
  if (!read) return read.error();
  if (!reader.problem().empty()) return error(reader.problem());
  return record;
}

}  // namespace mgpu::plugin
