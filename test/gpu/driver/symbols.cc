// All functions of the driver: those that this driver has not are defined here, and answer
// CUDA_ERROR_NOT_SUPPORTED. Also cuGetProcAddress, which finds what dlsym finds.
//
// This source is compiled by itself, because it declares the functions of the others differently.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <string_view>

namespace mgpu::fake_gpu {

// In entry.cc: a result, with the checks of functions that need cuInit only.
int not_supported();
// For entry.cc: what cuGetProcAddress finds; the result is its status.
int find_function(const char* name, int version, std::uint64_t flags, void** function);

}  // namespace mgpu::fake_gpu

#define FAKE_CUDA_WEAK extern "C" __attribute__((visibility("default"), weak))

#define DRIVER_FUNCTION(name, kind)           \
  FAKE_CUDA_WEAK int name() {                 \
    return ::mgpu::fake_gpu::not_supported(); \
  }
#include "plugin/share/driver_functions.def"
#undef DRIVER_FUNCTION

namespace mgpu::fake_gpu {
namespace {

struct Symbol {
  std::string_view name;
  void* address;
};
// The list is sorted.
const Symbol kSymbols[] = {
#define DRIVER_FUNCTION(name, kind) {#name, reinterpret_cast<void*>(&::name)},
#include "plugin/share/driver_functions.def"
#undef DRIVER_FUNCTION
};

constexpr std::size_t kFormsMax = 4;
struct Versions {
  std::string_view name;
  std::array<int, kFormsMax> since;  // of the function, its _v2, ...; 0 after the last one
};
const Versions kVersions[] = {
#define DRIVER_VERSIONS(name, ...) {#name, {__VA_ARGS__}},
#include "test/gpu/driver/driver_versions.def"
#undef DRIVER_VERSIONS
};

// Functions for each default stream exist since CUDA 7.
constexpr int kPerThreadSince = 7000;
constexpr std::uint64_t kPerThread = 2;  // of the flags

enum class Found : int { success = 0, no_symbol = 1, too_old = 2 };

template <class Entry, std::size_t size>
const Entry* find_name(const Entry (&entries)[size], std::string_view name) {
  const Entry* const found =
      std::lower_bound(std::begin(entries), std::end(entries), name,
                       [](const Entry& entry, std::string_view n) { return entry.name < n; });
  return found != std::end(entries) && found->name == name ? found : nullptr;
}

void* address_of(const std::string& name) {
  const Symbol* const symbol = find_name(kSymbols, name);
  return symbol != nullptr ? symbol->address : nullptr;
}

// The newest form that programs of this version know; empty if there is none yet.
std::string form_of(const std::string& name, int version) {
  const Versions* const versions = find_name(kVersions, name);
  if (versions == nullptr) return name;
  std::string form;
  for (std::size_t i = 0; i < kFormsMax; ++i) {
    const int since = versions->since[i];
    if (since == 0 || since > version) break;
    form = i == 0 ? name : name + "_v" + std::to_string(i + 1);
  }
  return form;
}

// Only base names are known here, without a version and a default stream.
bool is_base_name(std::string_view name) {
  const std::size_t last = name.rfind('_');
  if (last == std::string_view::npos) return true;
  const std::string_view end = name.substr(last);
  return end != "_ptsz" && end != "_ptds" && !(end.size() == 3 && end[1] == 'v');
}

Found find_symbol(const std::string& name, int version, std::uint64_t flags, void** address) {
  *address = nullptr;
  if (!is_base_name(name) || address_of(name) == nullptr) return Found::no_symbol;
  // Since CUDA 12 the name means another function.
  if (name == "cuGraphInstantiate" && version >= 12'000) {
    return find_symbol("cuGraphInstantiateWithFlags", version, flags, address);
  }
  const std::string form = form_of(name, version);
  if (form.empty()) return Found::too_old;
  if ((flags & kPerThread) != 0 && version >= kPerThreadSince) {
    for (const char* const stream : {"_ptsz", "_ptds"}) {
      if (*address == nullptr) *address = address_of(form + stream);
    }
  }
  if (*address == nullptr) *address = address_of(form);
  return Found::success;
}

}  // namespace

int find_function(const char* name, int version, std::uint64_t flags, void** function) {
  return static_cast<int>(find_symbol(name, version, flags, function));
}

}  // namespace mgpu::fake_gpu
