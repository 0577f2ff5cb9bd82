#include "plugin/cards/nvml/nvml_library.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <link.h>

#include <utility>

#include "common/base/limits.h"
#include "common/base/text.h"

namespace mgpu::plugin::nvml {
namespace {

std::string file_of(void* loaded) {
  const link_map* map = nullptr;
  if (::dlinfo(loaded, RTLD_DI_LINKMAP, &map) != 0 || map == nullptr) return {};
  return map->l_name;
}

}  // namespace

Symbol Functions::find(const std::string& symbol) const {
  return {::dlsym(library, symbol.c_str())};
}

Symbol Functions::need(const char* symbol) {
  const Symbol found = find(symbol);
  if (found.address == nullptr && missing == nullptr) missing = symbol;
  return found;
}

// "_v3" has the same content as "_v2", and entries of 16, 24 or 32 bytes, depending on the driver:
// 535.43 to 535.86 write 32 (NVIDIA/go-nvml issue 75, XuehaiPan/nvitop issues 79 and 226).
ProcessList Functions::find_list(const std::string& symbol) const {
  const ProcessList newer{find(symbol + "_v2"), sizeof(ProcessInfo)};
  return newer ? newer : ProcessList{find(symbol), sizeof(ProcessInfoV1)};
}

Result<std::shared_ptr<const Library>> Library::open(const std::vector<std::string>& names) {
  std::string tried;
  for (const std::string& name : names) {
    void* const loaded = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (loaded == nullptr) {
      const char* const why = ::dlerror();
      if (!tried.empty()) tried += "; ";
      tried += cut_text(why != nullptr ? why : "unknown error", kKeptSentenceBytesMax);
      continue;
    }
    const std::shared_ptr<Library> library(new Library(loaded, name));
    if (const char* const symbol = library->functions().missing) {
      return error(fmt::format("NVML {} has no {}: it is too old or is not NVML", name, symbol));
    }
    return std::shared_ptr<const Library>(library);
  }
  return error(fmt::format("no NVML on this node, is an NVIDIA driver installed? looked for {}",
                           tried.empty() ? "nothing" : tried));
}

Library::Library(void* loaded, std::string name)
    : loaded_(loaded), name_(std::move(name)), file_(file_of(loaded)) {}

Library::~Library() {
  ::dlclose(loaded_);
}

std::string Library::describe(int code) const {
  const char* const text = functions_.error_string(code);
  return fmt::format("{} ({})", text != nullptr ? text : "unknown error", code);
}

std::string advice_for(int code) {
  switch (code) {
    case kDriverNotLoaded:
      return "; is the nvidia kernel module loaded, and /dev/nvidiactl there?";
    case kNoPermission:
      return "; may this process open /dev/nvidiactl?";
    case kVersionMismatch:
      return "; the library and the kernel module are of different drivers: load the module of the "
             "library's driver, or restart the node";
    case kLibraryNotFound:
      return "; a library that NVML needs is not there";
    case kGpuIsLost:
      return "; a card fell off the bus: restart the node";
    default:
      return "";
  }
}

}  // namespace mgpu::plugin::nvml
