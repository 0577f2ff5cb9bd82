// Recorded requests of kube-scheduler, enlarged to the size of a cluster: the pod is the recorded
// one, the nodes are those of bench/scale. Each request is for another pod of one of a few kinds,
// and has its nodes in another order, as those of kube-scheduler do: it starts with another node
// and is not quite sorted, because kube-scheduler's filters run in parallel.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace mgpu::bench {

enum class Form {
  kNames,    // of all nodes
  kSampled,  // the names of so many nodes as kube-scheduler examines by default
  kNodes,    // complete Node objects
};
enum class PodKind { kOneContainer, kTwoContainers };

std::string_view name(Form form);

// Not thread-safe.
class Requests {
 public:
  Requests(std::size_t nodes, Form form, PodKind kind);

  // The result is valid until the next call.
  std::string_view next();

 private:
  struct Body {
    std::string text;
    std::size_t uid_at;
  };
  std::vector<Body> bodies_;
  std::size_t next_ = 0;
};

// A pod with one container that requests 30 % of a card and 1,024 MiB, as JSON. `number` determines
// its name and UID. These functions edit prepared texts, so that the benchmark does not use the
// processors that the servers need.
std::string small_pod(std::size_t number);
// The pod when it runs on `node`. `annotations` is a JSON object.
std::string bound_pod(std::size_t number, std::string_view node, std::string_view annotations);
// Messages of filter with one node, and of bind.
std::string filter_one(std::size_t number, std::string_view node);
std::string bind_one(std::size_t number, std::string_view node);

}  // namespace mgpu::bench
