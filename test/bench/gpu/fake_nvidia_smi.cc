// A stand-in for nvidia-smi, on the node and in containers, which have only a C library. It reads
// from NVML (test/gpu/nvml), so that both have the same values: from the library MGPU_NVML_OF_NODE,
// or else from the one that the loader finds, with the device file that the real program needs.
//
//   nvidia-smi -q -x     all cards as XML with the tags of the real program
//   nvidia-smi -L        a line for every card
//   nvidia-smi --query-gpu=uuid,compute_cap --format=csv,noheader
//   nvidia-smi --query-gpu=memory.total,memory.used --format=csv,noheader,nounits
//   nvidia-smi --gpu-reset -i UUID    fails while a process has the file open that NVML opens
//
// A line "smi <tag> <value>" in the file MGPU_FAKE_NVML replaces the value of all elements of that
// name, so that tests can make differences. The value is the rest of the line.
//
// The real program prints many more elements. Values that NVML does not support are "N/A", as
// there; any other failure ends the program with exit code 9 and a message. Process names are those
// of /proc.
#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <map>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "plugin/cards/nvml/nvml_abi.h"

namespace mgpu::plugin::nvml {
namespace {

// The functions of NVML that this program calls.
using Init = int();
using Shutdown = int();
using SystemText = int(char* text, unsigned bytes);
using DeviceGetCount = int(unsigned* count);
using DeviceGetHandleByIndex = int(unsigned index, Device* device);
using DeviceText = int(Device device, char* text, unsigned bytes);
using DeviceNumber = int(Device device, unsigned* number);
using DeviceGetMemoryInfoV2 = int(Device device, MemoryV2* memory);
using DeviceGetCapability = int(Device device, int* major, int* minor);
using DeviceGetMigMode = int(Device device, unsigned* current, unsigned* pending);
using DeviceGetUtilizationRates = int(Device device, Utilization* rates);
using DeviceGetProcesses = int(Device device, unsigned* count, void* processes);
using DeviceGetFieldValues = int(Device device, int count, FieldValue* values);
using DeviceGetRemappedRows = int(Device device, unsigned* correctable, unsigned* uncorrectable,
                                  unsigned* pending, unsigned* failed);

// usedGpuMemory that the driver does not report.
constexpr std::uint64_t kNotAvailable = ~std::uint64_t{0};

constexpr int kExitFailure = 9;
constexpr int kExitUsage = 2;
constexpr int kExitNoLibrary = 12;
constexpr unsigned kProcessesMax = 1024;
constexpr char kNone[] = "N/A";

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value != nullptr ? value : "";
}

[[noreturn]] void fail(const std::string& why) {
  std::cout << "NVIDIA-SMI has failed because " << why << ".\n";
  std::exit(kExitFailure);
}

// --- NVML ----------------------------------------------------------------------------------------

void* library() {
  static void* const loaded = [] {
    const std::string of_node = variable("MGPU_NVML_OF_NODE");
    const char* const name = of_node.empty() ? "libnvidia-ml.so.1" : of_node.c_str();
    const bool has_device = !of_node.empty() || ::access("/dev/nvidiactl", F_OK) == 0;
    void* const found = has_device ? ::dlopen(name, RTLD_NOW | RTLD_LOCAL) : nullptr;
    if (found != nullptr) return found;
    std::cout << "NVIDIA-SMI couldn't find libnvidia-ml.so library in your system.\n";
    std::exit(kExitNoLibrary);
  }();
  return loaded;
}

// Calls the function. Returns false if NVML does not support it.
template <class Function, class... Arguments>
bool context(const char* name, Arguments... arguments) {
  auto* const function = reinterpret_cast<Function*>(::dlsym(library(), name));
  if (function == nullptr) return false;
  const int code = function(arguments...);
  if (code != kOk && code != kNotSupported) {
    fail(std::string(name) + " answered " + std::to_string(code));
  }
  return code == kOk;
}

// Calls a function that every driver supports.
template <class Function, class... Arguments>
void need(const char* name, Arguments... arguments) {
  if (!context<Function>(name, arguments...)) fail(std::string(name) + " is not supported");
}

std::vector<Device> devices() {
  unsigned count = 0;
  need<DeviceGetCount>("nvmlDeviceGetCount_v2", &count);
  std::vector<Device> devices(count);
  for (unsigned i = 0; i < count; ++i) {
    need<DeviceGetHandleByIndex>("nvmlDeviceGetHandleByIndex_v2", i, &devices[i]);
  }
  return devices;
}

std::string device_text(const char* function, Device device) {
  char text[kTextBytes] = "";
  return context<DeviceText>(function, device, text, static_cast<unsigned>(sizeof text)) ? text
                                                                                         : kNone;
}

std::string system_text(const char* function) {
  char text[kTextBytes] = "";
  return context<SystemText>(function, text, static_cast<unsigned>(sizeof text)) ? text : kNone;
}

// The element of `words` at the number that the function returns.
std::string device_word(const char* function, Device device,
                        const std::vector<std::string>& words) {
  unsigned number = 0;
  if (!context<DeviceNumber>(function, device, &number)) return kNone;
  return number < words.size() ? words[number] : "Unknown";
}

std::string in_mib(std::uint64_t bytes) {
  return bytes == kNotAvailable ? kNone : std::to_string(bytes >> 20) + " MiB";
}

struct Process {
  std::string type;  // C, G, M+C
  std::uint64_t used = 0;
};

using Processes = std::map<std::uint32_t, Process>;

// The lists "_v2" have the same layout in all drivers.
void add_processes(const char* function, Device device, const std::string& type, Processes& found) {
  std::vector<ProcessInfo> entries(kProcessesMax);
  unsigned count = kProcessesMax;
  if (!context<DeviceGetProcesses>(function, device, &count, static_cast<void*>(entries.data()))) {
    return;
  }
  entries.resize(std::min(count, kProcessesMax));
  for (const ProcessInfo& entry : entries) found[entry.pid] = {type, entry.used};
}

// A client of MPS is in the list of compute processes too, and has its own type.
Processes processes_of(Device device) {
  Processes found;
  add_processes("nvmlDeviceGetGraphicsRunningProcesses_v2", device, "G", found);
  add_processes("nvmlDeviceGetComputeRunningProcesses_v2", device, "C", found);
  add_processes("nvmlDeviceGetMPSComputeRunningProcesses_v2", device, "M+C", found);
  return found;
}

std::string process_name(std::uint32_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/cmdline");
  std::string name;
  std::getline(file, name, '\0');
  return name.empty() ? "[Not Found]" : name;
}

std::string recovery_action(Device device) {
  FieldValue value{};
  value.field = kFieldRecoveryAction;
  if (!context<DeviceGetFieldValues>("nvmlDeviceGetFieldValues", device, 1, &value)) return kNone;
  if (value.code != kOk) return kNone;
  static const std::vector<std::string> words = {"None", "Reset", "Reboot", "Drain P2P",
                                                 "Drain and Reset"};
  const std::uint32_t action = value.value.whole;
  return action < words.size() ? words[action] : "Unknown";
}

// --- XML -----------------------------------------------------------------------------------------

// The values of the lines "smi", which replace those of NVML.
std::map<std::string, std::string> other_values() {
  std::map<std::string, std::string> values;
  std::ifstream file(variable("MGPU_FAKE_NVML"));
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string kind;
    std::string tag;
    std::string value;
    if (words >> kind >> tag && kind == "smi" && std::getline(words >> std::ws, value)) {
      values[tag] = value;
    }
  }
  return values;
}

std::string escaped(const std::string& text) {
  static const std::map<char, std::string> entities = {
      {'&', "&amp;"}, {'<', "&lt;"}, {'>', "&gt;"}, {'"', "&quot;"}};
  std::string out;
  for (const char c : text) {
    const auto found = entities.find(c);
    out += found != entities.end() ? found->second : std::string(1, c);
  }
  return out;
}

class Xml {
 public:
  void value(const std::string& tag, const std::string& value) {
    const auto other = other_.find(tag);
    const std::string& said = other != other_.end() ? other->second : value;
    line("<" + tag + ">" + escaped(said) + "</" + tag + ">");
  }

  void element(const std::string& tag, const std::function<void()>& content,
               const std::string& attributes = "") {
    line("<" + tag + attributes + ">");
    ++depth_;
    content();
    --depth_;
    line("</" + tag + ">");
  }

  const std::string& text() const { return text_; }

 private:
  void line(const std::string& what) { text_ += std::string(depth_, '\t') + what + "\n"; }

  const std::map<std::string, std::string> other_ = other_values();
  std::string text_ =
      "<?xml version=\"1.0\" ?>\n"
      "<!DOCTYPE nvidia_smi_log SYSTEM \"nvsmi_device_v12.dtd\">\n";
  std::size_t depth_ = 0;
};

void add_mig_mode(Xml& xml, Device device) {
  unsigned current = 0;
  unsigned pending = 0;
  const bool supported =
      context<DeviceGetMigMode>("nvmlDeviceGetMigMode", device, &current, &pending);
  const auto word = [&](unsigned mode) {
    return !supported ? kNone : mode == kEnabled ? "Enabled" : "Disabled";
  };
  xml.element("mig_mode", [&] {
    xml.value("current_mig", word(current));
    xml.value("pending_mig", word(pending));
  });
}

void add_memory(Xml& xml, Device device) {
  MemoryV2 memory{};
  memory.version = kMemoryV2Version;
  const bool supported =
      context<DeviceGetMemoryInfoV2>("nvmlDeviceGetMemoryInfo_v2", device, &memory);
  const auto said = [&](std::uint64_t bytes) { return supported ? in_mib(bytes) : kNone; };
  xml.element("fb_memory_usage", [&] {
    xml.value("total", said(memory.total));
    xml.value("reserved", said(memory.reserved));
    xml.value("used", said(memory.used));
    xml.value("free", said(memory.free));
  });
}

void add_utilization(Xml& xml, Device device) {
  Utilization rates{};
  const bool supported =
      context<DeviceGetUtilizationRates>("nvmlDeviceGetUtilizationRates", device, &rates);
  xml.element("utilization",
              [&] { xml.value("gpu_util", supported ? std::to_string(rates.gpu) + " %" : kNone); });
}

void add_remapped_rows(Xml& xml, Device device) {
  unsigned correctable = 0;
  unsigned uncorrectable = 0;
  unsigned pending = 0;
  unsigned failed = 0;
  const bool supported = context<DeviceGetRemappedRows>(
      "nvmlDeviceGetRemappedRows", device, &correctable, &uncorrectable, &pending, &failed);
  if (!supported) return xml.value("remapped_rows", kNone);
  xml.element("remapped_rows", [&] {
    xml.value("remapped_row_corr", std::to_string(correctable));
    xml.value("remapped_row_unc", std::to_string(uncorrectable));
    xml.value("remapped_row_pending", pending != 0 ? "Yes" : "No");
    xml.value("remapped_row_failure", failed != 0 ? "Yes" : "No");
  });
}

void add_processes(Xml& xml, Device device) {
  xml.element("processes", [&] {
    for (const auto& [pid, process] : processes_of(device)) {
      xml.element("process_info", [&, number = pid, &told = process] {
        xml.value("pid", std::to_string(number));
        xml.value("type", told.type);
        xml.value("process_name", process_name(number));
        xml.value("used_memory", in_mib(told.used));
      });
    }
  });
}

void add_card(Xml& xml, Device device) {
  xml.value("product_name", device_text("nvmlDeviceGetName", device));
  xml.value("persistence_mode",
            device_word("nvmlDeviceGetPersistenceMode", device, {"Disabled", "Enabled"}));
  add_mig_mode(xml, device);
  xml.value("uuid", device_text("nvmlDeviceGetUUID", device));
  unsigned minor = 0;
  const bool has_minor = context<DeviceNumber>("nvmlDeviceGetMinorNumber", device, &minor);
  xml.value("minor_number", has_minor ? std::to_string(minor) : kNone);
  xml.value("gpu_recovery_action", recovery_action(device));
  xml.value("compute_mode",
            device_word("nvmlDeviceGetComputeMode", device,
                        {"Default", "Exclusive_Thread", "Prohibited", "Exclusive_Process"}));
  add_memory(xml, device);
  add_utilization(xml, device);
  add_remapped_rows(xml, device);
  add_processes(xml, device);
}

// The bus address of a card.
std::string bus_address(std::size_t index) {
  char text[32];
  std::snprintf(text, sizeof text, "00000000:%02zX:00.0", index + 1);
  return text;
}

// --- output --------------------------------------------------------------------------------------

std::string all_as_xml() {
  const auto cards = devices();
  Xml xml;
  xml.element("nvidia_smi_log", [&] {
    xml.value("driver_version", system_text("nvmlSystemGetDriverVersion"));
    xml.value("cuda_version", "13.0");
    xml.value("attached_gpus", std::to_string(cards.size()));
    for (std::size_t i = 0; i < cards.size(); ++i) {
      xml.element(
          "gpu", [&] { add_card(xml, cards[i]); }, " id=\"" + bus_address(i) + "\"");
    }
  });
  return xml.text();
}

std::string card_lines() {
  const auto cards = devices();
  std::string lines;
  for (std::size_t i = 0; i < cards.size(); ++i) {
    lines += "GPU " + std::to_string(i) + ": " + device_text("nvmlDeviceGetName", cards[i]) +
             " (UUID: " + device_text("nvmlDeviceGetUUID", cards[i]) + ")\n";
  }
  return lines;
}

std::string capability_lines() {
  std::string lines;
  const std::map<std::string, std::string> other = other_values();
  for (const Device device : devices()) {
    int major = 0;
    int minor = 0;
    need<DeviceGetCapability>("nvmlDeviceGetCudaComputeCapability", device, &major, &minor);
    const auto found = other.find("compute_cap");
    lines += device_text("nvmlDeviceGetUUID", device) + ", " +
             (found != other.end() ? found->second
                                   : std::to_string(major) + "." + std::to_string(minor)) +
             "\n";
  }
  return lines;
}

std::string memory_lines() {
  std::string lines;
  for (const Device device : devices()) {
    MemoryV2 memory{};
    memory.version = kMemoryV2Version;
    need<DeviceGetMemoryInfoV2>("nvmlDeviceGetMemoryInfo_v2", device, &memory);
    lines += std::to_string(memory.total >> 20) + ", " + std::to_string(memory.used >> 20) + "\n";
  }
  return lines;
}

// --- reset ---------------------------------------------------------------------------------------

// The file that NVML has open while it is started.
std::string opened_file() {
  std::ifstream file(variable("MGPU_FAKE_NVML"));
  std::string path;
  for (std::string word; file >> word;) {
    if (word == "opens") file >> path;
  }
  return path;
}

bool is_open(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code failed;
  for (fs::directory_iterator process("/proc", failed), end; !failed && process != end;
       process.increment(failed)) {
    std::error_code ignored;
    for (fs::directory_iterator at(process->path() / "fd", ignored); !ignored && at != end;
         at.increment(ignored)) {
      std::error_code closed;
      if (fs::read_symlink(at->path(), closed) == path) return true;
    }
  }
  return false;
}

int reset(const std::string& uuid) {
  if (is_open(opened_file())) {
    std::cout << "GPU " << uuid << ": In use by another client\n";
    return 1;
  }
  std::ofstream(variable("MGPU_FAKE_NVML") + ".log", std::ios::app) << "reset " << uuid << "\n";
  std::cout << "GPU " << uuid << " was successfully reset.\n";
  return 0;
}

int run(const std::vector<std::string>& words) {
  if (words.size() == 3 && words[0] == "--gpu-reset" && words[1] == "-i") return reset(words[2]);
  const bool capabilities =
      words == std::vector<std::string>{"--query-gpu=uuid,compute_cap", "--format=csv,noheader"};
  const bool lists = words == std::vector<std::string>{"-L"};
  const bool queries = words == std::vector<std::string>{"-q", "-x"} ||
                       words == std::vector<std::string>{"-x", "-q"};
  const bool memory = words == std::vector<std::string>{"--query-gpu=memory.total,memory.used",
                                                        "--format=csv,noheader,nounits"};
  if (!lists && !queries && !capabilities && !memory) {
    std::cout << "This stand-in for nvidia-smi does not know these arguments.\n";
    return kExitUsage;
  }
  need<Init>("nvmlInit_v2");
  std::cout << (lists          ? card_lines()
                : capabilities ? capability_lines()
                : memory       ? memory_lines()
                               : all_as_xml());
  need<Shutdown>("nvmlShutdown");
  return 0;
}

}  // namespace
}  // namespace mgpu::plugin::nvml

int main(int count, char** arguments) {
  ::alarm(300);  // ends the program if the driver hangs
  return mgpu::plugin::nvml::run({arguments + 1, arguments + count});
}
