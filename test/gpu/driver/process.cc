#include "test/gpu/driver/process.h"

#include <iterator>

#include "test/gpu/driver/pools.h"

namespace mgpu::fake_gpu {
Process& process() {
  static Process& process = *new Process;
  return process;
}

std::vector<Context*>& context_stack() {
  static thread_local std::vector<Context*> stack;
  return stack;
}

Context* current_context() {
  return context_stack().empty() ? nullptr : context_stack().back();
}

bool is_device(int device) {
  return device >= 0 && device < process().machine->card_count();
}

int begin_context(Context& context) {
  if (const int code = refuse_context(context.card); code != kSuccess) return code;
  if (process().machine->is_lost(context.card)) return kUnknown;
  const CardState& card = process().machine->card(context.card);
  BlockPointer shown = take_block(context.card, card.context_charged);
  BlockPointer hidden = take_block(context.card, card.context_hidden, Account::hidden);
  if (shown == nullptr || hidden == nullptr) return kOutOfMemory;
  context.own = {std::move(shown), std::move(hidden)};
  process().contexts.insert(&context);
  return kSuccess;
}

void end_context(Context& context) {
  Process& p = process();
  settle_pools(context.card);
  std::vector<Pointer> mine;
  for (const auto& [at, range] : p.ranges) {
    if (range.context == &context) mine.push_back(at);
  }
  for (const Pointer at : mine) free_range(at);
  for (Stream* const stream : context.streams) {
    p.streams.erase(stream);
    delete stream;
  }
  std::erase_if(p.functions,
                [&](const auto& item) { return item.first.first->context == &context; });
  for (Module* const module : context.modules) {
    p.modules.erase(module);
    delete module;
  }
  const int card = context.card;
  const bool is_primary = context.is_primary;
  context = Context{};
  context.card = card;
  context.is_primary = is_primary;
  p.contexts.erase(&context);
  settle_pools(card);
}

}  // namespace mgpu::fake_gpu
