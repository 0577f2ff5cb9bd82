#include "test/bench/trace/small_trace.h"

#include <sstream>
#include <string>
#include <vector>

#include "common/base/check.h"

namespace mgpu::test {
namespace {

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, at);) parts.push_back(part);
  return parts;
}

struct Row {
  std::string name;
  std::string host;  // "cpu,memory"
  std::string count = "0";
  std::string rest;  // the text after the "x"
  std::string last;
};

Row row_of(const std::string& text) {
  Row row;
  std::istringstream stream(text);
  std::string cards;
  stream >> row.name >> row.host >> cards >> row.last;
  row.host.replace(row.host.find('/'), 1, ",");
  if (cards.empty()) return row;
  row.count = cards.substr(0, cards.find('x'));
  row.rest = cards.substr(cards.find('x') + 1);
  return row;
}

}  // namespace

trace::Trace trace_of(std::string_view nodes, std::string_view pods) {
  std::string node_rows = "sn,cpu_milli,memory_mib,gpu,model\n";
  for (const std::string& text : split(std::string(nodes), ';')) {
    const Row row = row_of(text);
    node_rows += row.name + "," + row.host + "," + row.count + "," + row.rest + "\n";
  }
  std::string pod_rows = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\n";
  for (const std::string& text : split(std::string(pods), ';')) {
    const Row row = row_of(text);
    pod_rows += row.name + "," + row.host + "," + row.count + "," +
                (row.rest.empty() ? "0" : row.rest) + "," + row.last + "\n";
  }
  auto read_nodes = trace::read_nodes(node_rows, "nodes");
  MGPU_CHECK(read_nodes.has_value(), "nodes of a test are valid");
  auto read_pods = trace::read_pods(pod_rows, "pods");
  MGPU_CHECK(read_pods.has_value(), "pods of a test are valid");
  return {std::move(*read_nodes), std::move(*read_pods)};
}

}  // namespace mgpu::test
