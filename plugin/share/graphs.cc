// Graphs with nodes that allocate memory. Nothing is reserved when such a graph is built and
// instantiated; its first launch or upload takes the memory of all its nodes at most, and later
// ones find it reserved (pools.cc).
#include <sys/mman.h>

#include "plugin/share/launches.h"
#include "plugin/share/memory.h"
#include "plugin/share/table.h"

namespace mgpu::share {
namespace {

constexpr int kDepthMax = 64;  // of graphs in graphs

pthread_mutex_t mutex = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
Table<GraphNeed> needs;  // of executable graphs
// The need of all that were launched: what one has allocated may outlive it, unless it frees it.
GraphNeed all;
std::atomic<bool> any = false;

std::uint64_t key_of(Handle handle) {
  return reinterpret_cast<std::uint64_t>(handle);
}

void add_graph(Handle graph, GraphNeed* need, int depth);

void add_node(Handle node, GraphNeed* need, int depth) {
  int type = 0;
  if (REAL(cuGraphNodeGetType)(node, &type) != kSuccess) return;
  Handle child = nullptr;
  if (type == kChildGraphNode && REAL(cuGraphChildGraphNodeGetGraph)(node, &child) == kSuccess) {
    add_graph(child, need, depth + 1);
  }
  AllocationNode allocation{};
  if (type == kFreeNode && need->allocations > 0) --need->allocations;
  if (type != kAllocationNode) return;
  ++need->allocations;
  if (REAL(cuGraphMemAllocNodeGetParams)(node, &allocation) != kSuccess) return;
  const Card* const card = card_of(allocation.pool.location.id);
  if (card != nullptr) need->bytes[index_of(*card)] += units_of(allocation.bytes) * kUnit;
}

void add_graph(Handle graph, GraphNeed* need, int depth) {
  std::size_t count = 0;
  if (depth > kDepthMax || REAL(cuGraphGetNodes)(graph, nullptr, &count) != kSuccess) return;
  if (count == 0) return;
  const std::size_t size = count * sizeof(Handle);
  void* const memory =
      mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return;
  auto* const nodes = static_cast<Handle*>(memory);
  if (REAL(cuGraphGetNodes)(graph, nodes, &count) == kSuccess) {
    for (std::size_t i = 0; i < count; ++i) add_node(nodes[i], need, depth);
  }
  munmap(memory, size);
}

template <class Call>
Result instantiate(Handle* exec, Handle graph, Call call) {
  GraphNeed need{};
  const Result result = call();
  add_graph(graph, &need, 0);
  bool needs_any = false;
  for (const std::uint64_t bytes : need.bytes) needs_any = needs_any || bytes > 0;
  if (result != kSuccess || !needs_any) return result;
  const Lock lock(mutex);
  any = true;
  GraphNeed* const known = needs.insert(key_of(*exec));
  if (known != nullptr) *known = need;
  return result;
}

void add_to_all(const GraphNeed& need) {
  for (unsigned i = 0; i < kCardsMax; ++i) all.bytes[i] += need.bytes[i];
}

void subtract_from_all(const GraphNeed& need) {
  for (unsigned i = 0; i < kCardsMax; ++i) all.bytes[i] -= need.bytes[i];
}

// A launch that did not happen has taken nothing.
void forget_launch(Handle exec) {
  const Lock lock(mutex);
  GraphNeed* const known = needs.find(key_of(exec));
  if (known == nullptr || !known->launched) return;
  known->launched = false;
  subtract_from_all(*known);
}

Result launch(Handle exec, Handle stream, Result (*call)(Handle, Handle)) {
  if (!any.load(std::memory_order_relaxed)) return call(exec, stream);
  GraphNeed need{};
  GraphNeed of_all{};
  {
    const Lock lock(mutex);
    GraphNeed* const known = needs.find(key_of(exec));
    if (known != nullptr) {
      need = *known;
      if (!known->launched) add_to_all(need);
      known->launched = true;
      of_all = all;
    }
  }
  const Result result = launch_with(need, of_all, call, exec, stream);
  if (result != kSuccess && !need.launched) forget_launch(exec);
  return result;
}

}  // namespace

void forget_graphs() {
  const Lock lock(mutex);
  needs.clear();
  all = {};
  any = false;
}

// --- the driver's functions ------------------------------------------------------------

Result cuGraphInstantiate(Handle* exec, Handle graph, Handle* node, char* log, std::size_t size) {
  return instantiate(exec, graph,
                     [&] { return REAL(cuGraphInstantiate)(exec, graph, node, log, size); });
}

Result cuGraphInstantiate_v2(Handle* exec, Handle graph, Handle* node, char* log,
                             std::size_t size) {
  return instantiate(exec, graph,
                     [&] { return REAL(cuGraphInstantiate_v2)(exec, graph, node, log, size); });
}

Result cuGraphInstantiateWithFlags(Handle* exec, Handle graph, std::uint64_t flags) {
  return instantiate(exec, graph,
                     [&] { return REAL(cuGraphInstantiateWithFlags)(exec, graph, flags); });
}

// Its flags may upload the graph at once: CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD. They are taken out,
// and the upload is the call that counts it.
namespace {
struct InstantiateParameters {
  std::uint64_t flags;
  Handle stream;
};

Result instantiate_with(Handle* exec, Handle graph, void* parameters,
                        Result (*call)(Handle*, Handle, void*), Result (*upload)(Handle, Handle)) {
  constexpr std::uint64_t kUpload = 2;
  auto* const wanted = static_cast<InstantiateParameters*>(parameters);
  if (wanted == nullptr) return call(exec, graph, parameters);
  const std::uint64_t flags = wanted->flags;
  wanted->flags &= ~kUpload;
  Result result = instantiate(exec, graph, [&] { return call(exec, graph, parameters); });
  wanted->flags = flags;
  if (result == kSuccess && (flags & kUpload) != 0) result = launch(*exec, wanted->stream, upload);
  return result;
}
}  // namespace

Result cuGraphInstantiateWithParams(Handle* exec, Handle graph, void* parameters) {
  return instantiate_with(exec, graph, parameters, REAL(cuGraphInstantiateWithParams),
                          REAL(cuGraphUpload));
}

Result cuGraphInstantiateWithParams_ptsz(Handle* exec, Handle graph, void* parameters) {
  return instantiate_with(exec, graph, parameters, REAL(cuGraphInstantiateWithParams_ptsz),
                          REAL(cuGraphUpload_ptsz));
}

Result cuGraphUpload(Handle exec, Handle stream) {
  return launch(exec, stream, REAL(cuGraphUpload));
}

Result cuGraphUpload_ptsz(Handle exec, Handle stream) {
  return launch(exec, stream, REAL(cuGraphUpload_ptsz));
}

Result cuGraphLaunch(Handle exec, Handle stream) {
  return launch_in_turn(stream, false, [&] { return launch(exec, stream, REAL(cuGraphLaunch)); });
}

Result cuGraphLaunch_ptsz(Handle exec, Handle stream) {
  return launch_in_turn(stream, true,
                        [&] { return launch(exec, stream, REAL(cuGraphLaunch_ptsz)); });
}

Result cuGraphExecDestroy(Handle exec) {
  if (any.load(std::memory_order_relaxed) && cards_attached()) {
    const Lock lock(mutex);
    const GraphNeed* const known = needs.find(key_of(exec));
    if (known != nullptr && known->launched && known->allocations == 0) subtract_from_all(*known);
    needs.erase(key_of(exec));
  }
  return REAL(cuGraphExecDestroy)(exec);
}

}  // namespace mgpu::share
