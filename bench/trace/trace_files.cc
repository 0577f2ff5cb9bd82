#include "bench/trace/trace_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <set>
#include <unordered_set>

#include "bench/trace/limits.h"
#include "bench/trace/synthetic.h"
#include "bench/trace/table.h"
#include "common/base/files.h"
#include "common/base/text.h"
#include "common/contract/limits.h"

namespace mgpu::trace {
namespace {

constexpr std::string_view kPodsPrefix = "openb_pod_list_";
constexpr std::string_view kSuffix = ".csv";
constexpr std::size_t kNameBytesMax = 200;

bool allowed(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '.' || c == '_';
}

// Names of nodes or pods. They become parts of node names and UIDs, and each may occur only once.
class Names {
 public:
  std::string read(Row& row, std::string_view column) {
    const std::string_view name = row.text(column);
    if (name.empty() || name.size() > kNameBytesMax || !std::ranges::all_of(name, allowed)) {
      row.refuse(column, name,
                 fmt::format("1 to {} letters, digits, '-', '.' or '_'", kNameBytesMax));
    } else if (!seen_.insert(name).second) {
      row.refuse(column, name, "a name that no line above it has");
    }
    return std::string(name);
  }

 private:
  std::unordered_set<std::string_view> seen_;
};

extender::NodeResources resources_of(Row& row) {
  const std::int64_t cpu = row.number("cpu_milli", 0, limits::kMilliCpuMax);
  return {extender::MilliCpu(cpu), MiB(row.number("memory_mib", 0, limits::kMemoryMiBMax))};
}

std::int32_t cards_of(Row& row, std::string_view column) {
  return static_cast<std::int32_t>(row.number(column, 0, kCardsPerNodeMax));
}

std::string model_of(Row& row, std::string_view column, std::string_view model) {
  if (model.empty() || model.size() > kCardTextMax || !std::ranges::all_of(model, allowed)) {
    row.refuse(column, row.text(column), "models of letters, digits, '-', '.' or '_'");
  }
  return std::string(model);
}

std::int32_t milli_of(Row& row, std::int32_t cards) {
  constexpr std::string_view kColumn = "gpu_milli";
  const std::int64_t milli = row.number(kColumn, 0, 1000);
  if (cards == 0 && milli != 0) row.refuse(kColumn, row.text(kColumn), "0 where num_gpu is 0");
  if (cards > 0 && (milli == 0 || milli % 10 != 0)) {
    row.refuse(kColumn, row.text(kColumn), "a multiple of 10 from 10 to 1000");
  }
  return static_cast<std::int32_t>(milli);
}

std::vector<std::string> models_of(Row& row) {
  constexpr std::string_view kColumn = "gpu_spec";
  std::vector<std::string> models;
  std::string_view rest = row.text(kColumn);
  while (!rest.empty()) {
    const std::size_t bar = std::min(rest.find('|'), rest.size());
    models.push_back(model_of(row, kColumn, rest.substr(0, bar)));
    rest.remove_prefix(std::min(bar + 1, rest.size()));
  }
  if (models.size() > kSelectorEntriesMax) {
    row.refuse(kColumn, row.text(kColumn), fmt::format("at most {} models", kSelectorEntriesMax));
  }
  return models;
}

// A text with the names of the traces in the folder, ascending.
std::string traces_in(const std::string& folder) {
  std::set<std::string> names;
  for (const std::string& file : names_in(folder)) {
    if (!file.starts_with(kPodsPrefix) || !file.ends_with(kSuffix)) continue;
    names.insert(
        file.substr(kPodsPrefix.size(), file.size() - kPodsPrefix.size() - kSuffix.size()));
    if (names.size() == limits::kNamesListedMax) break;
  }
  if (names.empty()) return "it has no trace (no openb_pod_list_<name>.csv)";
  std::string text = "it has";
  for (const std::string& name : names) text += (text.size() > 6 ? ", " : " ") + name;
  return text;
}

Result<std::vector<TracePod>> read_named_pods(const std::string& folder, const std::string& name) {
  std::error_code code;
  if (!std::filesystem::is_directory(folder, code))
    return error("--traces: " + in_quotes(folder) + " is not a directory");
  const std::string file = std::string(kPodsPrefix) + name + std::string(kSuffix);
  const std::string path = folder + "/" + file;
  const bool safe = !name.empty() && std::all_of(name.begin(), name.end(), allowed);
  if (!safe || !std::filesystem::is_regular_file(path, code)) {
    return error("trace " + in_quotes(name) + " is not in " + in_quotes(folder) + "; " +
                 traces_in(folder));
  }
  const auto text = read_file(path, limits::kFileBytesMax, "trace file");
  if (!text) return text.error();
  return read_pods(*text, file);
}

Result<std::vector<TraceNode>> read_node_file(const std::string& path) {
  const auto text = read_file(path, limits::kFileBytesMax, "trace file");
  if (!text) return text.error();
  return read_nodes(*text, path);
}

}  // namespace

std::int64_t Trace::cards() const {
  std::int64_t sum = 0;
  for (const TraceNode& node : nodes) sum += node.cards;
  return sum;
}

Result<std::vector<TraceNode>> read_nodes(std::string_view text, const std::string& source) {
  constexpr std::array<std::string_view, 5> kColumns = {"sn", "gpu", "cpu_milli", "memory_mib",
                                                        "model"};
  std::vector<TraceNode> nodes;
  Names names;
  auto read = read_table(text, source, limits::kNodesMax, kColumns, [&](Row& row) {
    TraceNode node{.name = names.read(row, "sn"),
                   .resources = resources_of(row),
                   .cards = cards_of(row, "gpu")};
    if (node.cards > 0) node.model = model_of(row, "model", row.text("model"));
    nodes.push_back(std::move(node));
  });
  if (!read) return read.error();
  if (std::ranges::any_of(nodes, [](const TraceNode& node) { return node.cards > 0; })) {
    return nodes;
  }
  return error(source + ": has no node with cards; expected at least one");
}

Result<std::vector<TracePod>> read_pods(std::string_view text, const std::string& source) {
  constexpr std::array<std::string_view, 5> kColumns = {"name", "num_gpu", "cpu_milli",
                                                        "memory_mib", "gpu_milli"};
  std::vector<TracePod> pods;
  Names names;
  auto read = read_table(text, source, limits::kPodsMax, kColumns, [&](Row& row) {
    TracePod pod{.name = names.read(row, "name"),
                 .resources = resources_of(row),
                 .cards = cards_of(row, "num_gpu")};
    pod.milli = milli_of(row, pod.cards);
    if (pod.cards > 0) pod.models = models_of(row);
    pods.push_back(std::move(pod));
  });
  if (!read) return read.error();
  if (std::ranges::any_of(pods, [](const TracePod& pod) { return pod.cards > 0; })) return pods;
  return error(source + ": has no pod that requests cards; expected at least one");
}

Result<Trace> read_trace(const std::string& folder, const std::string& name,
                         const std::string& nodes_file) {
  auto pods = read_named_pods(folder, name);
  if (!pods) return pods.error();
  auto nodes =
      read_node_file(nodes_file.empty() ? folder + "/openb_node_list_gpu_node.csv" : nodes_file);
  if (!nodes) return nodes.error();
  return Trace{std::move(*nodes), std::move(*pods)};
}

Result<Trace> synthetic_trace(const std::string& nodes_file) {
  auto pods = read_pods(synthetic_pods(), "the synthetic pods");
  if (!pods) return pods.error();
  auto nodes = nodes_file.empty() ? read_nodes(synthetic_nodes(), "the synthetic nodes")
                                  : read_node_file(nodes_file);
  if (!nodes) return nodes.error();
  return Trace{std::move(*nodes), std::move(*pods)};
}

}  // namespace mgpu::trace
