// Recorded requests of kube-scheduler, enlarged to the size of a cluster: the pod is the recorded
// one, the nodes are those of cluster_objects.h. Each request is for another pod of one of a few
// kinds, and has its nodes in another order, as those of kube-scheduler do: it starts with another
// node and is not quite sorted, because kube-scheduler's filters run in parallel.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace mgpu::bench {

enum class PodKind { kOneContainer, kTwoContainers };

// Not thread-safe.
class Requests {
 public:
  Requests(std::size_t nodes, PodKind kind);

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

}  // namespace mgpu::bench
