// Requests as kube-scheduler sends them, recorded and then enlarged to the size of a cluster: the
// pod as it came, the nodes those of bench/scale. Each is for another pod, of one of a few shapes,
// and names the nodes in an order of its own, as kube-scheduler does: from another first node on,
// and not quite sorted, since its filters run beside each other.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace mgpu::bench {

enum class Form { kNames, kNodes };
enum class PodKind { kOneContainer, kTwoContainers };

std::string_view name(Form form);

// One thread at a time.
class Requests {
 public:
  Requests(std::size_t nodes, Form form, PodKind kind);

  // Valid until the next call.
  std::string_view next();

 private:
  struct Body {
    std::string text;
    std::size_t uid_at;
  };
  std::vector<Body> bodies_;
  std::size_t next_ = 0;
};

// A pod of one container that asks for 30 % of a card and 1,024 MiB, as JSON: `number` makes its
// name and uid. These are made from texts that are there already, so that the bench does not take
// the processors from the servers.
std::string small_pod(std::size_t number);
// As it runs on the node. `annotations`: a JSON object.
std::string bound_pod(std::size_t number, std::string_view node, std::string_view annotations);
// filter for it, with this one node; bind of it to this node.
std::string filter_one(std::size_t number, std::string_view node);
std::string bind_one(std::size_t number, std::string_view node);

}  // namespace mgpu::bench
