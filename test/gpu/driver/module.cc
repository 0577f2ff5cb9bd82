// Modules with their globals, functions, and launches, which compute nothing.
#include <algorithm>
#include <fstream>
#include <iterator>

#include "test/gpu/driver/kernels.h"
#include "test/gpu/driver/process.h"
#include "test/gpu/driver/ptx.h"

using namespace mgpu::fake_gpu;

namespace mgpu::fake_gpu {
namespace {

void unload(Module& module) {
  for (const auto& [name, at] : module.globals) free_range(at);
  std::erase_if(process().functions, [&](const auto& item) { return item.first.first == &module; });
  module.context->modules.erase(&module);
  process().modules.erase(&module);
  delete &module;
}

// Names and globals are read of text only: of a binary every function exists, and no global.
int load(Context& context, const void* image, Module** result) {
  if (image == nullptr || result == nullptr) return kInvalidValue;
  const auto* const bytes = static_cast<const unsigned char*>(image);
  const bool is_elf = bytes[0] == 0x7F && bytes[1] == 'E';
  const bool is_fat = bytes[0] == 0x50 && bytes[1] == 0xED;
  auto* const module = new Module{.context = &context};
  context.modules.insert(module);
  process().modules.insert(module);
  *result = module;
  if (is_elf || is_fat) return kSuccess;
  module->is_text = true;
  module->image = static_cast<const char*>(image);
  int code = module->image.find(".version") != std::string::npos ? kSuccess : kInvalidImage;
  for (const PtxVariable& global : ptx_variables(module->image, ".global")) {
    if (code != kSuccess || global.bytes == 0) break;
    const Pointer at = allocate(context, context.globals, global.bytes);
    if (at == 0) code = kOutOfMemory;
    if (at != 0) module->globals[global.name] = at;
  }
  if (code != kSuccess) unload(*module);
  return code;
}

bool is_function(const Function* wanted) {
  for (const auto& [key, function] : process().functions) {
    if (function.get() == wanted) return true;
  }
  return false;
}

int check_launch(const Function* function, Dimensions grid, Dimensions block, void** arguments,
                 Launch& launched) {
  const auto count = [](const Dimensions& d) { return std::uint64_t{d[0]} * d[1] * d[2]; };
  if (!is_function(function)) return kInvalidHandle;
  if (count(grid) == 0 || count(block) == 0) return kInvalidValue;
  launched = launch_of(*function, count(grid), count(block), arguments);
  return kSuccess;
}

Work work_of(const Launch& launched, std::uint64_t local_bytes) {
  return [launched, local_bytes] {
    return in_context([&](Context& context) {
      occupy(context, launched.time);
      if (launched.compute) launched.compute();
      return grow_stack(context, local_bytes);
    });
  };
}

int launch(Stream* stream, const Function* function, Dimensions grid, Dimensions block,
           void** arguments, const char* caller = __builtin_FUNCTION()) {
  Launch launched;
  const int code = in_context(
      [&](Context&) { return check_launch(function, grid, block, arguments, launched); }, caller);
  if (code != kSuccess) return code;
  if (launched.time.nanoseconds > 0) wait_for_place(stream);
  return queue(stream, NodeKind::kernel, work_of(launched, function->local_bytes));
}

// CUlaunchConfig
struct LaunchConfig {
  Dimensions grid;
  Dimensions block;
  unsigned shared_bytes;
  Stream* stream;
};

}  // namespace

int make_work(const KernelNode& node, Work& work) {
  Launch launched;
  const int code = check_launch(node.function, node.grid, node.block, node.arguments, launched);
  if (code == kSuccess) work = work_of(launched, node.function->local_bytes);
  return code;
}

}  // namespace mgpu::fake_gpu

FAKE_CUDA int cuModuleLoadData(Module** module, const void* image) {
  return in_context([&](Context& context) { return load(context, image, module); });
}

FAKE_CUDA int cuModuleLoadDataEx(Module** module, const void* image, unsigned, int*, void**) {
  return cuModuleLoadData(module, image);
}

FAKE_CUDA int cuModuleLoadFatBinary(Module** module, const void* image) {
  return cuModuleLoadData(module, image);
}

FAKE_CUDA int cuModuleLoad(Module** module, const char* path) {
  return in_context([&](Context& context) {
    std::ifstream file(path, std::ios::binary);
    if (!file) return kFileNotFound;
    const std::string image((std::istreambuf_iterator<char>(file)), {});
    return load(context, image.c_str(), module);
  });
}

FAKE_CUDA int cuModuleUnload(Module* module) {
  return in_context([&](Context&) {
    if (!process().modules.contains(module)) return kInvalidHandle;
    unload(*module);
    return kSuccess;
  });
}

FAKE_CUDA int cuModuleGetFunction(Function** result, Module* module, const char* name) {
  return in_context([&](Context&) {
    if (result == nullptr || name == nullptr) return kInvalidValue;
    if (!process().modules.contains(module)) return kInvalidHandle;
    if (module->is_text && !has_entry(module->image, name)) return kNotFound;
    auto& function = process().functions[{module, name}];
    if (function == nullptr) {
      function = std::make_unique<Function>(
          Function{module, name, ptx_local_bytes(module->image, name), time_of_kernel(name)});
    }
    *result = function.get();
    return kSuccess;
  });
}

FAKE_CUDA int cuModuleGetGlobal_v2(Pointer* pointer, std::size_t* bytes, Module* module,
                                   const char* name) {
  return in_context([&](Context&) {
    if (name == nullptr) return kInvalidValue;
    if (!process().modules.contains(module)) return kInvalidHandle;
    const auto found = module->globals.find(name);
    if (found == module->globals.end()) return kNotFound;
    if (pointer != nullptr) *pointer = found->second;
    if (bytes != nullptr) *bytes = find_range(found->second, 1)->bytes;
    return kSuccess;
  });
}

FAKE_CUDA int cuModuleGetLoadingMode(int* mode) {
  return initialized([&] {
    *mode = 2;  // lazy
    return kSuccess;
  });
}

// --- functions -----------------------------------------------------------------------------------

FAKE_CUDA int cuFuncGetModule(Module** module, Function* function) {
  return initialized([&] {
    if (!is_function(function)) return kInvalidHandle;
    *module = function->module;
    return kSuccess;
  });
}

FAKE_CUDA int cuFuncGetAttribute(int* value, int attribute, Function* function) {
  return initialized([&] {
    if (!is_function(function)) return kInvalidHandle;
    *value = attribute == 0   ? 1024  // threads of a block
             : attribute == 3 ? static_cast<int>(function->local_bytes)
                              : 0;
    return kSuccess;
  });
}

FAKE_CUDA int cuFuncSetAttribute(Function* function, int, int) {
  return initialized([&] { return is_function(function) ? kSuccess : kInvalidHandle; });
}

FAKE_CUDA int cuFuncSetCacheConfig(Function* function, int) {
  return initialized([&] { return is_function(function) ? kSuccess : kInvalidHandle; });
}

FAKE_CUDA int cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, Function* function,
                                                          int threads, std::size_t) {
  return initialized([&] {
    if (!is_function(function)) return kInvalidHandle;
    if (threads <= 0) return kInvalidValue;
    *blocks = std::min(32, 2048 / threads);
    return kSuccess;
  });
}

FAKE_CUDA int cuLaunchKernel(Function* function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                             unsigned block_x, unsigned block_y, unsigned block_z, unsigned,
                             Stream* stream, void** arguments, void**) {
  return launch(stream, function, {grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, arguments);
}
FAKE_CUDA_ALIAS(cuLaunchKernel_ptsz, cuLaunchKernel);

FAKE_CUDA int cuLaunchCooperativeKernel(Function* function, unsigned grid_x, unsigned grid_y,
                                        unsigned grid_z, unsigned block_x, unsigned block_y,
                                        unsigned block_z, unsigned, Stream* stream,
                                        void** arguments) {
  return launch(stream, function, {grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, arguments);
}
FAKE_CUDA_ALIAS(cuLaunchCooperativeKernel_ptsz, cuLaunchCooperativeKernel);

FAKE_CUDA int cuLaunchKernelEx(const LaunchConfig* config, Function* function, void** arguments,
                               void**) {
  if (config == nullptr) return kInvalidValue;
  return launch(config->stream, function, config->grid, config->block, arguments);
}
FAKE_CUDA_ALIAS(cuLaunchKernelEx_ptsz, cuLaunchKernelEx);
