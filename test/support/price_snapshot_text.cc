#include "test/support/price_snapshot_text.h"

#include <string>

#include "common/base/check.h"
#include "extender/pricing/refinement.h"

namespace mgpu::test {
namespace {

using extender::MilliCpu;
using extender::PodClass;

// Splits `text` at the last `mark` and returns the part after it; empty without a mark.
std::string_view take_after(std::string_view& text, std::string_view mark) {
  const std::size_t at = text.rfind(mark);
  if (at == std::string_view::npos) return {};
  const std::string_view after = text.substr(at + mark.size());
  text = text.substr(0, at);
  return after;
}

extender::CountedClass class_of(std::string_view text) {
  const std::string_view model = take_after(text, " on ");
  const std::string_view cores = take_after(text, "@");
  const std::string_view request = take_after(text, " x ");
  const std::int64_t milli = cores.empty() ? 0 : std::stoll(std::string(cores)) * 1000;
  GpuRequest asked = request == "none" ? GpuRequest{} : request_of(request);
  if (!model.empty()) asked.selector.models = {std::string(model)};
  auto classes = extender::classes_of(asked, {MilliCpu(milli), MiB{}});
  MGPU_CHECK(classes.size() == 1, "a class of a test is one container");
  return {std::move(classes.front()), static_cast<double>(std::stoll(std::string(text)))};
}

}  // namespace

extender::Workload workload_text(std::string_view text) {
  std::vector<extender::CountedClass> counted;
  for (std::string_view left = text; !left.empty();) {
    const std::size_t comma = left.find(", ");
    counted.push_back(class_of(left.substr(0, comma)));
    left = comma == std::string_view::npos ? std::string_view() : left.substr(comma + 2);
  }
  return extender::workload_of(std::move(counted), 1.0, 1000);
}

extender::Kinds kinds_of(const std::vector<extender::Node>& nodes) {
  extender::KindCount count;
  for (const extender::Node& node : nodes) count.add(node);
  return count.kinds();
}

extender::PriceSnapshot price_snapshot_of(std::string_view workload,
                                          const std::vector<extender::Node>& nodes) {
  extender::PriceSnapshot price_snapshot;
  price_snapshot.version = 1;
  price_snapshot.workload = workload_text(workload);
  const extender::Kinds kinds = kinds_of(nodes);
  std::vector<extender::NodeRoom> rooms;
  for (const extender::Node& node : nodes)
    rooms.push_back(extender::room_after(node, kinds, {}, {}));
  price_snapshot.prices =
      extender::refine(price_snapshot.workload, kinds, rooms, {}, extender::kQuickStart);
  price_snapshot.tables =
      extender::PriceTables(price_snapshot.workload, kinds, price_snapshot.prices);
  return price_snapshot;
}

extender::Node node_with_host(std::string_view text, std::int64_t cores, std::int64_t gib) {
  extender::Node node = node_of(text);
  node.allocatable = {MilliCpu(cores * 1000), MiB(gib * 1024)};
  return node;
}

}  // namespace mgpu::test
