// Graphs: what a capture adds to them, and their memory.
#pragma once

#include <cstdint>
#include <functional>

#include "test/gpu/driver/memory.h"

namespace mgpu::fake_gpu {

enum class NodeKind : int {
  kernel = 0,
  copy = 1,
  fill = 2,
  host = 3,
  empty = 5,
  take = 10,
  give = 11
};

// What a node does at a launch, without the lock of the process.
using Work = std::function<int()>;

struct Graph;
Graph* create_graph();
void destroy_graph(Graph* graph);
void add_work(Graph& graph, NodeKind kind, Work work);
// 0 if this process has no addresses left.
Pointer add_take(Graph& graph, int card, std::uint64_t bytes);
void add_give(Graph& graph, Pointer pointer);

// An allocation of a graph has been freed by the program.
void return_to_graphs(int card, std::uint64_t bytes);

}  // namespace mgpu::fake_gpu
