#include "bench/trace/trace_files.h"

#include <algorithm>
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

struct HostColumns {
  int cpu = 0;
  int memory = 0;
};

Result<HostColumns> host_columns(const Table& table) {
  const auto cpu = table.column("cpu_milli");
  if (!cpu) return cpu.error();
  const auto memory = table.column("memory_mib");
  if (!memory) return memory.error();
  return HostColumns{*cpu, *memory};
}

Result<extender::NodeResources> read_host(const Table& table, std::size_t row,
                                          HostColumns columns) {
  const auto cpu = table.number(row, columns.cpu, 0, limits::kMilliCpuMax);
  if (!cpu) return cpu.error();
  const auto memory = table.number(row, columns.memory, 0, limits::kMemoryMiBMax);
  if (!memory) return memory.error();
  return extender::NodeResources{extender::MilliCpu(*cpu), MiB(*memory)};
}

bool allowed(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '.' || c == '_';
}

// Names of nodes or pods. They become parts of node names and UIDs, and each may occur only once.
class Names {
 public:
  Result<std::string> read(const Table& table, std::size_t row, int column) {
    const std::string_view name = table.text(row, column);
    if (name.empty() || name.size() > kNameBytesMax ||
        !std::all_of(name.begin(), name.end(), allowed))
      return table.value_error(
          row, column,
          "1 to " + std::to_string(kNameBytesMax) + " letters, digits, '-', '.' or '_'");
    if (!seen_.insert(name).second)
      return table.value_error(row, column, "a name that no line above it has");
    return std::string(name);
  }

 private:
  std::unordered_set<std::string_view> seen_;
};

Result<std::string> read_model(const Table& table, std::size_t row, int column,
                               std::string_view model) {
  if (!model.empty() && model.size() <= kCardTextMax &&
      std::all_of(model.begin(), model.end(), allowed))
    return std::string(model);
  return table.value_error(row, column, "models of letters, digits, '-', '.' or '_'");
}

// Reads the columns that both files have: name, CPU, memory and number of cards.
class Common {
 public:
  struct Line {
    std::string name;
    extender::NodeResources resources;
    std::int32_t cards = 0;
  };

  explicit Common(const Table& table) : table_(table) {}

  Result<void> find_columns(std::string_view name, std::string_view cards) {
    const auto found_name = table_.column(name);
    if (!found_name) return found_name.error();
    const auto found_cards = table_.column(cards);
    if (!found_cards) return found_cards.error();
    const auto resources = host_columns(table_);
    if (!resources) return resources.error();
    name_ = *found_name;
    cards_ = *found_cards;
    resources_ = *resources;
    return {};
  }

  Result<Line> read(std::size_t row) {
    auto name = names_.read(table_, row, name_);
    if (!name) return name.error();
    const auto resources = read_host(table_, row, resources_);
    if (!resources) return resources.error();
    const auto cards = table_.number(row, cards_, 0, kCardsPerNodeMax);
    if (!cards) return cards.error();
    return Line{std::move(*name), *resources, static_cast<std::int32_t>(*cards)};
  }

 private:
  const Table& table_;
  Names names_;
  HostColumns resources_;
  int name_ = 0;
  int cards_ = 0;
};

class NodeReader {
 public:
  explicit NodeReader(const Table& table) : table_(table), common_(table) {}

  Result<void> find_columns() {
    if (auto found = common_.find_columns("sn", "gpu"); !found) return found.error();
    const auto model = table_.column("model");
    if (!model) return model.error();
    model_ = *model;
    return {};
  }

  Result<TraceNode> read(std::size_t row) {
    auto line = common_.read(row);
    if (!line) return line.error();
    TraceNode node{std::move(line->name), line->resources, line->cards, {}};
    if (node.cards == 0) return node;
    auto model = read_model(table_, row, model_, table_.text(row, model_));
    if (!model) return model.error();
    node.model = std::move(*model);
    return node;
  }

 private:
  const Table& table_;
  Common common_;
  int model_ = 0;
};

class PodReader {
 public:
  explicit PodReader(const Table& table)
      : table_(table), common_(table), spec_(table.find_column("gpu_spec")) {}

  Result<void> find_columns() {
    if (auto found = common_.find_columns("name", "num_gpu"); !found) return found.error();
    const auto milli = table_.column("gpu_milli");
    if (!milli) return milli.error();
    milli_ = *milli;
    return {};
  }

  Result<TracePod> read(std::size_t row) {
    auto line = common_.read(row);
    if (!line) return line.error();
    TracePod pod{std::move(line->name), line->resources, line->cards, 0, {}};
    if (auto read = read_share(row, pod); !read) return read.error();
    if (auto read = read_models(row, pod); !read) return read.error();
    return pod;
  }

 private:
  Result<void> read_share(std::size_t row, TracePod& pod) const {
    const auto milli = table_.number(row, milli_, 0, 1000);
    if (!milli) return milli.error();
    if (pod.cards == 0 && *milli != 0)
      return table_.value_error(row, milli_, "0 where num_gpu is 0");
    if (pod.cards > 0 && (*milli == 0 || *milli % 10 != 0))
      return table_.value_error(row, milli_, "a multiple of 10 from 10 to 1000");
    pod.milli = static_cast<std::int32_t>(*milli);
    return {};
  }

  Result<void> read_models(std::size_t row, TracePod& pod) const {
    if (spec_ < 0 || pod.cards == 0) return {};
    std::string_view rest = table_.text(row, spec_);
    while (!rest.empty()) {
      const std::size_t bar = std::min(rest.find('|'), rest.size());
      auto model = read_model(table_, row, spec_, rest.substr(0, bar));
      if (!model) return model.error();
      pod.models.push_back(std::move(*model));
      rest.remove_prefix(std::min(bar + 1, rest.size()));
    }
    if (pod.models.size() <= kSelectorEntriesMax) return {};
    return table_.value_error(row, spec_,
                              "at most " + std::to_string(kSelectorEntriesMax) + " models");
  }

  const Table& table_;
  Common common_;
  int milli_ = 0;
  int spec_ = 0;
};

template <class Reader, class Row>
Result<std::vector<Row>> read_rows(const Table& table) {
  Reader reader(table);
  if (auto found = reader.find_columns(); !found) return found.error();
  std::vector<Row> rows;
  rows.reserve(table.rows());
  for (std::size_t row = 0; row < table.rows(); ++row) {
    auto read = reader.read(row);
    if (!read) return read.error();
    rows.push_back(std::move(*read));
  }
  return rows;
}

// A text with the names of the traces in the folder, ascending.
std::string traces_in(const std::string& folder) {
  std::error_code code;
  std::set<std::string> names;
  for (std::filesystem::directory_iterator entry(folder, code), end; !code && entry != end;
       entry.increment(code)) {
    const std::string file = entry->path().filename().string();
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
  if (!safe || !std::filesystem::is_regular_file(path, code))
    return error("trace " + in_quotes(name) + " is not in " + in_quotes(folder) + "; " +
                 traces_in(folder));
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
  const auto table = Table::read(text, source, limits::kNodesMax);
  if (!table) return table.error();
  auto nodes = read_rows<NodeReader, TraceNode>(*table);
  if (!nodes) return nodes.error();
  const auto has_cards = [](const TraceNode& node) { return node.cards > 0; };
  if (std::any_of(nodes->begin(), nodes->end(), has_cards)) return nodes;
  return error(source + ": has no node with cards; expected at least one");
}

Result<std::vector<TracePod>> read_pods(std::string_view text, const std::string& source) {
  const auto table = Table::read(text, source, limits::kPodsMax);
  if (!table) return table.error();
  auto pods = read_rows<PodReader, TracePod>(*table);
  if (!pods) return pods.error();
  const auto requests = [](const TracePod& pod) { return pod.cards > 0; };
  if (std::any_of(pods->begin(), pods->end(), requests)) return pods;
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
