// The in-memory API server on a thread of its own, with pods of namespace ml on node n1.
#pragma once

#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "common/base/asio_executor.h"
#include "test/plugin/support/gpu_objects.h"
#include "test/support/faulty_api_server.h"

namespace mgpu::test {

using namespace plugin;

// One thread, which is not the executor's. What uses the transport ends before it.
class PodApi {
 public:
  using Json = nlohmann::json;

  PodApi();
  ~PodApi();

  FaultyApiServer& transport() { return *server_; }

  // The pod as the server made it.
  kube::Pod create(const std::string& name, const std::vector<GpuContainer>& containers);
  void remove(const std::string& name);  // at once
  void set_phase(const std::string& name, const std::string& phase);
  // As the runtime made it, by kubelet's word.
  void set_container_id(const std::string& name, const std::string& container,
                        const std::string& id);
  // The same, and the container runs in a running pod.
  void set_running(const std::string& name, const std::string& container, const std::string& id);
  void annotate(const std::string& name, const std::string& key, const std::string& value);

  Json pod(const std::string& name);

  void create_node();
  Json node();
  // Of the node's condition; null: there is none.
  Json condition(const std::string& type);
  std::vector<Json> events(const std::string& name_space = "ml");

  // Refuses every request from now on, and ends all watches; or no more.
  void cut_off(bool off);
  // The same for lists and watches only.
  void cut_off_watches();

  Json call(kube::Method method, const std::string& target, const std::string& body = "");

 private:
  AsioExecutor executor_;
  std::unique_ptr<FaultyApiServer> server_;
};

}  // namespace mgpu::test
