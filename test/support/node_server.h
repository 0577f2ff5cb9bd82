// An in-memory API server with one node on a manual executor, which records its requests.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "test/support/faulty_api_server.h"
#include "test/support/manual_executor.h"

namespace mgpu::test {

class NodeServer {
 public:
  using Json = nlohmann::json;

  explicit NodeServer(std::string node = "n1");

  FaultyApiServer& api() { return api_; }
  ManualExecutor& executor() { return executor_; }
  void run() { executor_.run_ready(); }

  void create_node();
  void delete_node();
  // Patches an object as another client.
  void merge(const std::string& path, const Json& patch);
  Json node();
  Json condition(const std::string& type);  // null if absent
  std::vector<Json> events(const std::string& name_space);

  // The writes over the transport: "PATCH /api/v1/nodes/n1".
  std::vector<std::string> writes;
  // Called for each write; may return a fault for it.
  std::function<std::optional<Fault>(const kube::Request&)> fault;

 private:
  kube::Response call(kube::Method method, const std::string& target, const std::string& body);
  std::optional<Fault> observe(const kube::Request& request);

  std::string node_;
  ManualExecutor executor_{1};
  FaultyApiServer api_;
};

}  // namespace mgpu::test
