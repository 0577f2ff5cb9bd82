#include "test/gpu/driver/graphs.h"

#include <algorithm>
#include <cstring>

#include "test/gpu/driver/faults.h"
#include "test/gpu/driver/kernels.h"
#include "test/gpu/driver/process.h"

using namespace mgpu::fake_gpu;

namespace mgpu::fake_gpu {
namespace {

// Measured: what a launch that fails keeps is a multiple of this.
constexpr std::uint64_t kGraphUnit = 32 * kMiB;

struct Node {
  NodeKind kind = NodeKind::empty;
  Pointer pointer = 0;  // that it allocates or frees
  std::uint64_t bytes = 0;
  std::shared_ptr<Addresses> addresses{};
  int card = 0;
  Work work{};
};

}  // namespace

struct Graph {
  std::vector<std::unique_ptr<Node>> nodes{};
  int instances = 0;
};

namespace {

struct GraphExec {
  Graph* graph = nullptr;  // null once it is destroyed
  std::vector<Work> works{};
  std::vector<Node> takes{};  // whose memory outlives a launch
  std::uint64_t most = 0;     // that a launch needs at one time
  bool frees_before_launch = false;
  bool allocates = false;
};

// The memory of all graphs of this process on a card.
struct GraphMemory {
  std::vector<BlockPointer> blocks{};
  std::size_t lost = 0;    // of these, after a launch that did not fit
  std::uint64_t kept = 0;  // of allocations that outlive their launch
  std::uint64_t used = 0;
  std::uint64_t used_high = 0;
  std::uint64_t reserved_high = 0;

  std::uint64_t reserved() const { return blocks.size() * kGraphUnit; }
};

struct GraphState {
  std::set<Graph*> graphs;
  std::set<GraphExec*> execs;
  std::map<int, GraphMemory> memory;
};

GraphState& graph_state() {
  static GraphState& state = *new GraphState;
  return state;
}

// Graphs share what they have reserved. Measured: a launch that does not fit takes all memory that
// is free, and nothing gives it back.
int reserve(int card, std::uint64_t bytes) {
  GraphMemory& memory = graph_state().memory[card];
  const std::uint64_t needed = memory.kept + bytes;
  while (memory.reserved() - memory.lost * kGraphUnit < needed) {
    const BlockPointer block = take_block(card, kGraphUnit);
    if (block == nullptr) memory.lost = memory.blocks.size();
    if (block == nullptr) break;
    memory.blocks.push_back(block);
    memory.reserved_high = std::max(memory.reserved_high, memory.reserved());
  }
  if (memory.lost == memory.blocks.size() && needed > 0) return kOutOfMemory;
  memory.used = std::max(memory.used, needed);
  memory.used_high = std::max(memory.used_high, memory.used);
  return kSuccess;
}

// In the order in which the nodes were added.
void measure(const Graph& graph, GraphExec& exec) {
  std::uint64_t now = 0;
  for (const auto& node : graph.nodes) {
    if (node->work) exec.works.push_back(node->work);
    if (node->kind == NodeKind::take) {
      exec.allocates = true;
      exec.takes.push_back(*node);
      now += node->bytes;
      exec.most = std::max(exec.most, now);
    }
    if (node->kind != NodeKind::give) continue;
    const auto freed = std::ranges::find_if(
        exec.takes, [&](const Node& take) { return take.pointer == node->pointer; });
    if (freed == exec.takes.end()) continue;
    now -= freed->bytes;
    exec.takes.erase(freed);
  }
}

int instantiate(GraphExec** result, Graph* graph, std::uint64_t flags) {
  return in_context([&](Context&) {
    if (result == nullptr || !graph_state().graphs.contains(graph)) return kInvalidValue;
    auto exec = std::make_unique<GraphExec>();
    measure(*graph, *exec);
    // Measured.
    if (exec->allocates && graph->instances > 0) return kNotSupported;
    ++graph->instances;
    exec->graph = graph;
    exec->frees_before_launch = (flags & 1) != 0;
    *result = exec.release();
    graph_state().execs.insert(*result);
    return kSuccess;
  });
}

int launch_graph(Context& context, GraphExec& exec) {
  for (const Node& take : exec.takes) {
    if (!process().ranges.contains(take.pointer)) continue;
    if (!exec.frees_before_launch) return kInvalidValue;
    free_range(take.pointer);
  }
  if (const int code = reserve(context.card, exec.most); code != kSuccess) return code;
  for (const Node& take : exec.takes) {
    graph_state().memory[context.card].kept += take.bytes;
    add_range(take.pointer, {.bytes = take.bytes,
                             .kind = Kind::graph,
                             .context = &context,
                             .block = std::make_shared<Block>(-1, take.bytes, Account::charged),
                             .addresses = take.addresses});
  }
  return kSuccess;
}

template <class Run>
int on_exec(GraphExec* exec, Run run) {
  return in_context([&](Context& context) {
    return graph_state().execs.contains(exec) ? run(context, *exec) : kInvalidValue;
  });
}

// The result of add(graph), which adds its last node.
template <class Add>
int add_node(Node** result, Graph* graph, Add add) {
  return initialized([&] {
    if (result == nullptr || !graph_state().graphs.contains(graph)) return kInvalidValue;
    const int code = add(*graph);
    if (code == kSuccess) *result = graph->nodes.back().get();
    return code;
  });
}

// CUDA_MEM_ALLOC_NODE_PARAMS
struct TakeParameters {
  int allocation_type;
  int handle_types;
  int location_type;
  int location;
  unsigned char other[72];
  const void* access;
  std::size_t access_count;
  std::size_t bytes;
  Pointer pointer;
};

}  // namespace

Graph* create_graph() {
  return *graph_state().graphs.insert(new Graph).first;
}

void destroy_graph(Graph* graph) {
  graph_state().graphs.erase(graph);
  for (GraphExec* const exec : graph_state().execs) {
    if (exec->graph == graph) exec->graph = nullptr;
  }
  delete graph;
}

void add_work(Graph& graph, NodeKind kind, Work work) {
  graph.nodes.push_back(std::make_unique<Node>(Node{.kind = kind, .work = std::move(work)}));
}

Pointer add_take(Graph& graph, int card, std::uint64_t bytes) {
  const auto addresses = std::make_shared<Addresses>(bytes, false);
  if (addresses->begin() == 0) return 0;
  graph.nodes.push_back(std::make_unique<Node>(Node{.kind = NodeKind::take,
                                                    .pointer = addresses->begin(),
                                                    .bytes = bytes,
                                                    .addresses = addresses,
                                                    .card = card}));
  return addresses->begin();
}

void add_give(Graph& graph, Pointer pointer) {
  graph.nodes.push_back(std::make_unique<Node>(Node{.kind = NodeKind::give, .pointer = pointer}));
}

void return_to_graphs(int card, std::uint64_t bytes) {
  graph_state().memory[card].kept -= bytes;
}

}  // namespace mgpu::fake_gpu

FAKE_CUDA int cuGraphCreate(Graph** graph, unsigned flags) {
  return initialized([&] {
    if (graph == nullptr || flags != 0) return kInvalidValue;
    *graph = create_graph();
    return kSuccess;
  });
}

FAKE_CUDA int cuGraphDestroy(Graph* graph) {
  return initialized([&] {
    if (!graph_state().graphs.contains(graph)) return kInvalidValue;
    destroy_graph(graph);
    return kSuccess;
  });
}

// --- nodes ---------------------------------------------------------------------------------------

FAKE_CUDA int cuGraphAddMemAllocNode(Node** node, Graph* graph, Node* const*, std::size_t,
                                     TakeParameters* wanted) {
  return add_node(node, graph, [&](Graph& to) {
    if (wanted == nullptr || wanted->bytes == 0 || !is_device(wanted->location)) {
      return kInvalidValue;
    }
    if (wanted->bytes > kMemoryMax) return kOutOfMemory;
    wanted->pointer = add_take(to, wanted->location, wanted->bytes);
    return wanted->pointer != 0 ? kSuccess : kOutOfMemory;
  });
}

FAKE_CUDA int cuGraphMemAllocNodeGetParams(const Node* node, TakeParameters* parameters) {
  return initialized([&] {
    if (node == nullptr || parameters == nullptr || node->kind != NodeKind::take) {
      return kInvalidValue;
    }
    *parameters = {.allocation_type = 1,
                   .handle_types = 0,
                   .location_type = 1,
                   .location = node->card,
                   .other = {},
                   .access = nullptr,
                   .access_count = 0,
                   .bytes = has_fault("graph") ? 0 : node->bytes,
                   .pointer = node->pointer};
    return kSuccess;
  });
}

FAKE_CUDA int cuGraphAddMemFreeNode(Node** node, Graph* graph, Node* const*, std::size_t,
                                    Pointer pointer) {
  return add_node(node, graph, [&](Graph& to) {
    add_give(to, pointer);
    return kSuccess;
  });
}

FAKE_CUDA int cuGraphAddEmptyNode(Node** node, Graph* graph, Node* const*, std::size_t) {
  return add_node(node, graph, [&](Graph& to) {
    add_work(to, NodeKind::empty, nullptr);
    return kSuccess;
  });
}

FAKE_CUDA int cuGraphAddKernelNode_v2(Node** node, Graph* graph, Node* const*, std::size_t,
                                      const KernelNode* kernel) {
  return add_node(node, graph, [&](Graph& to) {
    Work work;
    const int code = kernel != nullptr ? make_work(*kernel, work) : kInvalidValue;
    if (code == kSuccess) add_work(to, NodeKind::kernel, std::move(work));
    return code;
  });
}
FAKE_CUDA_ALIAS(cuGraphAddKernelNode, cuGraphAddKernelNode_v2);

FAKE_CUDA int cuGraphNodeGetType(const Node* node, int* kind) {
  return initialized([&] {
    if (node == nullptr || kind == nullptr) return kInvalidValue;
    *kind = static_cast<int>(node->kind);
    return kSuccess;
  });
}

FAKE_CUDA int cuGraphGetNodes(Graph* graph, Node** nodes, std::size_t* count) {
  return initialized([&] {
    if (count == nullptr || !graph_state().graphs.contains(graph)) return kInvalidValue;
    const std::size_t room = nodes != nullptr ? *count : 0;
    *count = nodes != nullptr ? std::min(room, graph->nodes.size()) : graph->nodes.size();
    for (std::size_t i = 0; i < room; ++i) {
      nodes[i] = i < graph->nodes.size() ? graph->nodes[i].get() : nullptr;
    }
    return kSuccess;
  });
}

// --- instances -----------------------------------------------------------------------------------

FAKE_CUDA int cuGraphInstantiateWithFlags(GraphExec** exec, Graph* graph, std::uint64_t flags) {
  return instantiate(exec, graph, flags);
}

FAKE_CUDA int cuGraphInstantiate_v2(GraphExec** exec, Graph* graph, Node**, char*, std::size_t) {
  return instantiate(exec, graph, 0);
}

FAKE_CUDA int cuGraphUpload(GraphExec* exec, void*) {
  return on_exec(exec, [](Context& context, GraphExec& uploaded) {
    return reserve(context.card, uploaded.most);
  });
}
FAKE_CUDA_ALIAS(cuGraphUpload_ptsz, cuGraphUpload);

// What is copied is read and written when the graph is launched.
FAKE_CUDA int cuGraphLaunch(GraphExec* exec, Stream* stream) {
  std::vector<Work> works;
  const int code = on_exec(exec, [&](Context& context, GraphExec& launched) {
    if (Capture* const capture = capture_of(stream)) {
      return refuse_captured(*capture, kCaptureUnsupported);  // as a child graph: not done
    }
    works = launched.works;
    return launch_graph(context, launched);
  });
  if (code != kSuccess) return code;
  wait_for_place(stream);
  const RunningIn running(stream);
  for (const Work& work : works) work();
  return kSuccess;
}
FAKE_CUDA_ALIAS(cuGraphLaunch_ptsz, cuGraphLaunch);

FAKE_CUDA int cuGraphExecDestroy(GraphExec* exec) {
  return initialized([&] {
    if (graph_state().execs.erase(exec) == 0) return kInvalidValue;
    if (exec->graph != nullptr) --exec->graph->instances;
    delete exec;
    return kSuccess;
  });
}

// --- their memory --------------------------------------------------------------------------------

FAKE_CUDA int cuDeviceGraphMemTrim(int device) {
  return on_device(device, [&] {
    GraphMemory& memory = graph_state().memory[device];
    const std::uint64_t kept = round_up(memory.kept, kGraphUnit) / kGraphUnit + memory.lost;
    if (memory.blocks.size() > kept) memory.blocks.resize(kept);
    memory.used = memory.kept;
    return kSuccess;
  });
}

FAKE_CUDA int cuDeviceGetGraphMemAttribute(int device, int attribute, void* value) {
  return on_device(device, [&] {
    const GraphMemory& memory = graph_state().memory[device];
    const std::uint64_t values[] = {memory.used, memory.used_high, memory.reserved(),
                                    memory.reserved_high};
    if (value == nullptr || attribute < 0 || attribute > 3) return kInvalidValue;
    std::memcpy(value, &values[attribute], sizeof(std::uint64_t));
    return kSuccess;
  });
}

// Only the high water marks can be set, and only to zero.
FAKE_CUDA int cuDeviceSetGraphMemAttribute(int device, int attribute, void* value) {
  return on_device(device, [&] {
    GraphMemory& memory = graph_state().memory[device];
    std::uint64_t wanted = 1;
    if (value != nullptr) std::memcpy(&wanted, value, sizeof wanted);
    if (wanted != 0 || (attribute != 1 && attribute != 3)) return kInvalidValue;
    if (attribute == 1) memory.used_high = memory.used;
    if (attribute == 3) memory.reserved_high = memory.reserved();
    return kSuccess;
  });
}
