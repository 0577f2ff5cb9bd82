// What the sources of the library tell each other about the memory of this process.
#pragma once

#include "plugin/share/cards.h"

namespace mgpu::share {

// --- memory.cc: linear memory and arrays ---
void forget_linear_memory();
// The driver has ended a context and freed its memory.
void free_memory_of(Handle context);
void rename_context(Handle context, Handle other);
// What is at this address counts until the process ends.
void keep_block_at(Address address);

// --- virtual_memory.cc ---
void forget_virtual_memory();

// --- pools.cc: pools, and the memory of graphs, which is a pool of each card ---
void forget_pools();
bool uses_pools();
// Counts what pools of this card have given back.
void count_unused_pools(Card& card);
// Lets them give back all that they do not use, and counts it.
void trim_unused_pools(Card& card);
// The memory that the allocations of a graph need.
struct GraphNeed {
  std::uint64_t bytes[kCardsMax];
  unsigned allocations;  // that the graph does not free itself
  bool launched;
};
// Reserves memory for a launch that may let the pool of graphs of a card grow, launches, and counts
// what it has really taken. The pool does not grow beyond what all graphs need together.
Result launch_with(const GraphNeed& need, const GraphNeed& all, Result (*launch)(Handle, Handle),
                   Handle exec, Handle stream);

// --- graphs.cc ---
void forget_graphs();

// --- contexts.cc ---
void forget_contexts();
// Launches of a kernel with this much local memory let the stacks of any context grow to it. False:
// it does not fit.
bool reserve_local_memory(std::uint64_t bytes);

// --- uncounted.cc: what NVML lists for this process and no call has shown ---
void find_in_nvml(unsigned card, const char (&uuid)[41]);
// Those of the whole card, as NVML counts them. 0: unknown, or a MIG device.
unsigned cores_of(const Card& card);
// What counts and is not in NVML's list of processes.
void add_hidden(unsigned card, std::int64_t bytes);
// Leaves it to NVML's list, if that is read, when this counted memory ends, since no call shows it.
void leave_to_nvml(const Card& card, std::uint64_t bytes);
// Counts it on the current card, if it fits or in any case. False: it does not fit, and is not
// counted.
bool count_uncounted(bool in_any_case);
// Counts it in any case, if the last time is not too recent.
void count_uncounted_at_intervals(const Card& card);

inline void forget_memory() {
  forget_linear_memory();
  forget_virtual_memory();
  forget_pools();
  forget_graphs();
  forget_contexts();
}

}  // namespace mgpu::share
