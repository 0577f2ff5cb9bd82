#include "plugin/state/use_json.h"

#include <charconv>
#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "common/base/limits.h"
#include "common/base/utc_text.h"
#include "common/contract/limits.h"
#include "common/kube/json_value.h"

namespace mgpu::plugin {

namespace {
using OrderedJson = nlohmann::ordered_json;

constexpr std::int32_t kUseVersion = 1;
// Three thousand years in milliseconds: numbers that a double has exactly, so that sums do not
// overflow.
constexpr std::int64_t kNumberMax = std::int64_t{1} << 46;
constexpr std::int64_t kTimeMax = 253'402'300'799;  // the end of the year 9999

std::string dumped(const OrderedJson& json) {
  return json.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
}

double rounded(double seconds) {
  return std::round(seconds * 1'000) / 1'000;
}

std::int64_t milliseconds(double seconds) {
  return std::llround(std::fmin(seconds * 1'000, static_cast<double>(kNumberMax)));
}

OrderedJson use_item(const ShareUse& use) {
  OrderedJson item = {
      {"namespace", use.pod.name_space}, {"pod", use.pod.name}, {"container", use.container}};
  if (use.pod_owner) {
    item["ownerKind"] = use.pod_owner->kind;
    item["owner"] = use.pod_owner->name;
  }
  item["card"] = use.grant.index.value();
  item["uuid"] = use.grant.uuid.str();
  item["corePercent"] = use.grant.share.core.value();
  item["memoryMiB"] = use.grant.share.memory.value();
  item["running"] = use.running;
  item["from"] = utc_text(use.from);
  item["to"] = utc_text(use.to);
  item["cardSecondsGranted"] = rounded(use.granted_card_seconds);
  if (use.samples > 0) item["cardSecondsUsed"] = rounded(use.used_card_seconds);
  item["secondsMeasured"] = rounded(use.measured_seconds);
  if (use.memory_peak) item["memoryMiBPeak"] = use.memory_peak->value();
  if (const auto p95 = use.histogram.quantile(0.95)) item["corePercentP95"] = *p95;
  item["samples"] = use.samples;
  return item;
}

OrderedJson saved_share(const ShareUse& use) {
  OrderedJson share = {{"namespace", use.pod.name_space},
                       {"pod", use.pod.name},
                       {"uid", use.uid.str()},
                       {"container", use.container}};
  if (use.pod_owner) {
    share["ownerKind"] = use.pod_owner->kind;
    share["owner"] = use.pod_owner->name;
  }
  share["uuid"] = use.grant.uuid.str();
  share["running"] = use.running;
  OrderedJson& numbers = share["numbers"] = {{"index", use.grant.index.value()},
                                             {"core", use.grant.share.core.value()},
                                             {"memoryMiB", use.grant.share.memory.value()},
                                             {"from", use.from.time_since_epoch().count()},
                                             {"to", use.to.time_since_epoch().count()},
                                             {"grantedMs", milliseconds(use.granted_card_seconds)},
                                             {"usedMs", milliseconds(use.used_card_seconds)},
                                             {"measuredMs", milliseconds(use.measured_seconds)},
                                             {"samples", use.samples}};
  if (use.memory_peak) numbers["peakMiB"] = use.memory_peak->value();
  OrderedJson& histogram = share["histogramMs"] = OrderedJson::object();
  for (std::size_t percent = 0; percent < UseHistogram::kBuckets; ++percent) {
    const std::int64_t time = milliseconds(use.histogram.seconds()[percent]);
    if (time > 0) histogram[std::to_string(percent)] = time;
  }
  return share;
}

std::optional<std::int64_t> whole_number(std::string_view text) {
  std::int64_t number = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (failure != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

std::chrono::sys_seconds at_second(std::int64_t number) {
  return std::chrono::sys_seconds(std::chrono::seconds(number));
}

double in_seconds(std::int64_t time) {
  return static_cast<double>(time) / 1'000;
}

// Reads an account; the first problem is kept.
class UseReader {
 public:
  SavedUse read(kube::JsonValue& root) {
    std::int32_t version = 0;
    kube::StringMap times;
    kube::StringMap left_out;
    SavedUse saved;
    root.read({{"version", version},
               {"times", [&](kube::JsonValue& from) { times = from.quantities(); }},
               {"leftOut", [&](kube::JsonValue& from) { left_out = from.quantities(); }},
               {"shares", [&](kube::JsonValue& from) { saved.shares = shares(from); }}});
    saved.since = at_second(number(times, "since", kTimeMax));
    saved.saved = at_second(number(times, "saved", kTimeMax));
    saved.left_out = static_cast<std::uint64_t>(number(left_out, "shares", kNumberMax));
    // Another version is the problem to report, whatever else differs.
    if (version != kUseVersion) problem_ = "\"version\" must be 1";
    return saved;
  }

  const std::string& problem() const { return problem_; }

 private:
  void expect(bool condition, const std::string& sentence) {
    if (!condition && problem_.empty()) problem_ = sentence;
  }

  // 0 where it is absent.
  std::int64_t number(const kube::StringMap& numbers, const char* name, std::int64_t most) {
    const auto at = numbers.find(name);
    if (at == numbers.end()) return 0;
    const auto value = whole_number(at->second);
    const bool in_range = value && *value >= 0 && *value <= most;
    expect(in_range, std::string("\"") + name + "\" is out of range");
    return in_range ? *value : 0;
  }

  void expect_name(const std::string& text, const char* name) {
    expect(!text.empty() && text.size() <= kLabelValueBytesMax,
           std::string("\"") + name + "\" must have 1 to 256 bytes");
  }

  std::vector<ShareUse> shares(kube::JsonValue& from) {
    std::vector<ShareUse> read;
    from.elements([&](kube::JsonValue& element) {
      expect(read.size() < kSharesMax, "there must be at most 10000 shares");
      if (problem_.empty()) read.push_back(share(element));
    });
    return read;
  }

  ShareUse share(kube::JsonValue& from) {
    ShareUse use;
    std::string uid;
    std::string uuid;
    kube::PodOwner owner;
    kube::StringMap numbers;
    kube::StringMap histogram;
    from.read({{"namespace", use.pod.name_space},
               {"pod", use.pod.name},
               {"uid", uid},
               {"container", use.container},
               {"ownerKind", owner.kind},
               {"owner", owner.name},
               {"uuid", uuid},
               {"running", use.running},
               {"numbers", [&](kube::JsonValue& value) { numbers = value.quantities(); }},
               {"histogramMs", [&](kube::JsonValue& value) { histogram = value.quantities(); }}});
    expect_name(use.pod.name, "pod");
    expect_name(uid, "uid");
    expect_name(use.container, "container");
    expect_name(uuid, "uuid");
    use.uid = PodUid(uid);
    if (!owner.kind.empty() || !owner.name.empty()) {
      expect_name(owner.kind, "ownerKind");
      expect_name(owner.name, "owner");
      use.pod_owner = std::move(owner);
    }
    const Percent core(number(numbers, "core", kCardCoreMax));
    const MiB memory(number(numbers, "memoryMiB", kCardMemoryMiBMax));
    const auto index = static_cast<std::int32_t>(number(numbers, "index", kCardIndexMax));
    use.grant = {CardIndex(index), CardUuid(uuid), {core, memory}};
    read_amounts(numbers, use);
    for (const auto& [percent, time] : histogram) add_time(percent, histogram, use.histogram);
    return use;
  }

  void read_amounts(const kube::StringMap& numbers, ShareUse& use) {
    use.from = at_second(number(numbers, "from", kTimeMax));
    use.to = at_second(number(numbers, "to", kTimeMax));
    expect(use.from <= use.to, "\"to\" must not be before \"from\"");
    use.granted_card_seconds = in_seconds(number(numbers, "grantedMs", kNumberMax));
    use.used_card_seconds = in_seconds(number(numbers, "usedMs", kNumberMax));
    use.measured_seconds = in_seconds(number(numbers, "measuredMs", kNumberMax));
    use.samples = number(numbers, "samples", kNumberMax);
    if (numbers.contains("peakMiB")) {
      use.memory_peak = MiB(number(numbers, "peakMiB", kCardMemoryMiBMax));
    }
  }

  void add_time(const std::string& percent, const kube::StringMap& times, UseHistogram& histogram) {
    const auto bucket = whole_number(percent);
    const bool known = bucket && *bucket >= 0 && *bucket <= 100;
    expect(known, "a member of \"histogramMs\" must be 0 to 100");
    if (!known) return;
    const std::int64_t time = number(times, percent.c_str(), kNumberMax);
    histogram.add(static_cast<double>(*bucket), in_seconds(time));
  }

  std::string problem_;
};

}  // namespace

std::string use_json(const NodeName& node, const UseAccount& account,
                     std::chrono::sys_seconds now) {
  OrderedJson json = {{"node", node.str()},
                      {"since", utc_text(account.since())},
                      {"now", utc_text(now)},
                      {"items", OrderedJson::array()},
                      {"leftOut", account.left_out()}};
  for (const ShareUse* share : account.shares()) json["items"].push_back(use_item(*share));
  return dumped(json) + "\n";
}

std::string saved_use_json(const SavedUse& saved, std::size_t bytes_max) {
  // The shares come first, since they decide how many are left out.
  constexpr std::size_t kFrameBytes = 256;
  std::string shares;
  std::uint64_t left_out = saved.left_out;
  for (const ShareUse& use : saved.shares) {
    const std::string text = dumped(saved_share(use));
    if (left_out > saved.left_out || shares.size() + text.size() + kFrameBytes > bytes_max) {
      ++left_out;
      continue;
    }
    shares += (shares.empty() ? "\n" : ",\n") + text;
  }
  const OrderedJson times = {{"since", saved.since.time_since_epoch().count()},
                             {"saved", saved.saved.time_since_epoch().count()}};
  return "{\"version\":" + std::to_string(kUseVersion) + ",\"times\":" + dumped(times) +
         ",\"leftOut\":" + dumped({{"shares", left_out}}) + ",\"shares\":[" + shares + "]}\n";
}

Result<SavedUse> parse_saved_use(std::string_view json) {
  UseReader reader;
  SavedUse saved;
  const auto read =
      kube::read_json(json, [&](kube::JsonValue& root) { saved = reader.read(root); });
  if (!read) return read.error();
  if (!reader.problem().empty()) return error(reader.problem());
  return saved;
}

}  // namespace mgpu::plugin
