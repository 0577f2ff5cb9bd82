#include "test/support/source_rules.h"

#include <algorithm>
#include <regex>
#include <set>
#include <string_view>

#include "common/base/text.h"

namespace mgpu::test {
namespace {

using Paths = std::vector<std::string_view>;

constexpr std::size_t kColumnsMax = 100;
constexpr std::size_t kFunctionLinesMax = 70;
constexpr std::size_t kClassFunctionsMax = 25;

// --- includes ------------------------------------------------------------------------------------

struct Direction {
  std::string_view from;
  std::string_view never;
  std::string_view instead;
};
constexpr std::string_view kListenerOnly = "the CLI reaches the extender through its listener only";
constexpr Direction kDirections[] = {
    {"common/", "extender/", "common does not depend on programs"},
    {"common/", "plugin/", "common does not depend on programs"},
    {"common/", "bench/", "common does not depend on programs"},
    {"common/", "test/", "products do not use test code"},
    {"extender/", "plugin/", "share common/contract/contract.h"},
    {"extender/", "bench/", "products do not use benchmarks"},
    {"extender/", "test/", "products do not use test code"},
    {"plugin/", "extender/", "share common/contract/contract.h"},
    {"plugin/", "bench/", "products do not use benchmarks"},
    {"plugin/", "test/", "products do not use test code"},
    {"plugin/allocation/", "plugin/cards/", "pass cards as values"},
    {"plugin/cards/", "plugin/kubelet/", "cards do not depend on kubelet"},
    {"plugin/cards/", "common/kube/", "cards do not depend on Kubernetes"},
    {"plugin/cards/file/", "plugin/cards/driver/",
     "files of users do not depend on NVIDIA's software"},
    {"plugin/cards/file/", "plugin/cards/nvml/",
     "files of users do not depend on NVIDIA's software"},
    {"plugin/cards/file/", "plugin/cards/mps/",
     "files of users do not depend on NVIDIA's software"},
    {"plugin/cards/driver/", "plugin/cards/nvml/", "NVML uses the driver's files"},
    {"plugin/cards/driver/", "plugin/cards/mps/", "MPS uses the driver's files"},
    {"plugin/cards/nvml/", "plugin/cards/mps/", "MPS uses NVML"},
    {"plugin/cards/nvml/", "plugin/cards/file/", "the two sources of cards share card_source.h"},
    {"plugin/share/", "common/", "the library in containers needs only a C library"},
    {"plugin/hook/", "common/", "the hook runs on nodes without the libraries of mgpu"},
    {"plugin/kubelet/", "plugin/cards/", "the agent connects kubelet and cards"},
    {"plugin/monitor/", "plugin/cards/", "pass the state of cards as values"},
    {"plugin/node/", "plugin/cards/", "pass cards as values"},
    {"bench/", "test/", "bench does not use test code; move shared code to common/"},
    {"common/yaml/", "common/kube/", "YAML is a value; its meaning is read where it is used"},
    {"common/kube/objects/", "common/kube/config/", "objects are values"},
    {"common/kube/objects/", "common/kube/curl/", "objects are values"},
    {"common/kube/objects/", "common/kube/request.h", "objects are values"},
    {"common/kube/objects/", "common/kube/transport.h", "objects are values"},
    {"common/kube/objects/", "common/kube/watch/", "objects are values"},
    {"common/kube/config/", "common/kube/curl/", "the transport uses the configuration"},
    {"common/kube/config/", "common/kube/watch/", "the configuration is read before all else"},
    {"common/kube/watch/", "common/kube/config/", "use Transport"},
    {"common/kube/watch/", "common/kube/curl/", "use Transport"},
    {"common/http/", "common/kube/", "the server does not depend on Kubernetes; use a Router"},
    {"extender/placement/", "extender/ledger/", "pass the cluster as a value"},
    {"extender/pricing/", "extender/placement/policies/", "policies use prices"},
    {"extender/pricing/", "extender/learning/", "prices are computed from values"},
    {"extender/ledger/", "extender/verbs/", "verbs use the ledger"},
    {"extender/ledger/", "extender/learning/", "learning uses the ledger"},
    {"extender/ledger/", "common/http/", "the ledger does not depend on HTTP"},
    {"extender/wire/", "extender/ledger/", "messages are values"},
    {"extender/wire/", "extender/verbs/", "messages are values"},
    {"extender/verbs/", "extender/bind/", "bind is a component of its own"},
    {"extender/verbs/", "extender/requeue/", "requeue is a component of its own"},
    {"extender/verbs/", "common/http/", "verbs do not depend on HTTP; routes are in extender/"},
    {"extender/bind/", "common/http/", "verbs do not depend on HTTP; routes are in extender/"},
    {"extender/election/", "common/http/", "verbs do not depend on HTTP; routes are in extender/"},
    {"extender/bind/", "extender/election/", "the election takes the Lease for bind"},
    {"extender/requeue/", "common/http/", "verbs do not depend on HTTP; routes are in extender/"},
    {"extender/kubectl/", "extender/ledger/", kListenerOnly},
    {"extender/kubectl/", "extender/verbs/", kListenerOnly},
    {"extender/kubectl/", "extender/bind/", kListenerOnly},
    {"extender/kubectl/", "common/http/", "the CLI is a client; use kube::Transport"},
};

struct Library {
  std::string_view name;
  Paths includes;
  Paths homes;
};
const Library kLibraries[] = {
    {"libcurl", {"curl/"}, {"common/kube/curl/"}},
    {"nghttp2", {"nghttp2/"}, {"common/http/http2_frames.cc", "test/support/http2_client.cc"}},
    {"nlohmann/json",
     {"nlohmann/"},
     {"common/contract/node_cards.cc", "common/kube/request.cc", "extender/inspect/",
      "extender/kubectl/", "plugin/state/", "plugin/injection/", "plugin/hook/", "bench/",
      "test/"}},
    {"simdjson", {"simdjson"}, {"extender/wire/", "common/kube/objects/json_value.cc"}},
    {"Boost.Result", {"boost/system/result.hpp"}, {"common/base/result.h"}},
    {"Boost",
     {"boost/"},
     {"common/http/", "common/base/asio_executor.cc", "common/contract/quantity.cc",
      "common/kube/curl/", "bench/apiserver/path.cc", "common/kube/request.cc",
      "bench/gpu/nvidia_smi.cc", "extender/ledger/node_index.h", "test/"}},
    {"OpenSSL",
     {"openssl/"},
     {"common/http/", "common/base/base64.cc", "common/kube/config/pem.cc", "common/base/digest.cc",
      "extender/certificates/", "test/"}},
    {"spdlog", {"spdlog/"}, {"common/base/log.cc"}},
    {"CLI11", {"CLI/"}, {"common/base/options.cc"}},
    {"prometheus-cpp", {"prometheus/"}, {"common/base/metrics."}},
    {"yaml-cpp", {"yaml-cpp/"}, {"common/yaml/", "extender/kubectl/output.cc", "test/"}},
    {"gRPC", {"grpc"}, {"plugin/kubelet/", "test/plugin/kubelet/"}},
    {"protobuf",
     {"google/protobuf/", "kubernetes.pb.h"},
     {"common/kube/objects/object_protobuf.cc", "plugin/kubelet/", "test/plugin/kubelet/"}},
    {"GoogleTest", {"gtest/", "gmock/"}, {"test/"}},
    {"Google Benchmark", {"benchmark/"}, {"bench/parts/"}},
};

// --- pure code -----------------------------------------------------------------------------------

const Paths kPure = {
    "extender/placement/",
    "extender/pricing/",
    "plugin/allocation/",
    "common/contract/",
    "common/base/units.",
    "common/base/ids.",
    "common/base/check.",
    "common/base/result.",
    "common/base/digest.",
    "common/base/text.",
    "common/base/limits.",
    "common/kube/objects/objects.",
    "common/kube/objects/pod_owner.",
    "common/kube/config/exec_credential.",
    "common/kube/request.",
    "common/kube/watch/watcher.",
    "plugin/monitor/cgroup",
    "plugin/monitor/drift",
    "plugin/monitor/join",
    "plugin/monitor/watchdog",
    "plugin/node/other_access",
    "plugin/turns/",
    "extender/prometheus/access.",
    "extender/prometheus/answer.",
    "extender/prometheus/limits.",
    "extender/prometheus/query.",
    "extender/kubectl/convert/pod.",
    "extender/kubectl/convert/vocabularies.",
    "extender/kubectl/convert/rewrite.",
    "extender/kubectl/fact.",
    "extender/kubectl/doctor/fact",
    "extender/kubectl/doctor/finding.",
    "extender/kubectl/doctor/check",
    "extender/kubectl/doctor/metrics_text.",
    "extender/kubectl/doctor/version_number.",
    // Apart from the random keys of new certificates.
    "extender/certificates/facts.",
    "extender/certificates/issue.",
    "extender/certificates/bundle.",
    "extender/election/candidate.",
};
// The headers of the repository that pure code may include, besides those of its own folder.
const Paths kValueHeaders = {
    "common/base/units.h",
    "common/base/ids.h",
    "common/base/check.h",
    "common/base/result.h",
    "common/base/limits.h",
    "common/contract/limits.h",
    "common/kube/limits.h",
    "common/base/base64.h",
    "common/kube/config/exec_credential.h",
    "common/kube/config/config.h",
    "common/kube/objects/json_value.h",
    "common/kube/config/token_source.h",
    "common/contract/quantity.h",
    "common/contract/contract.h",
    "common/contract/card_links.h",
    "common/contract/container_kind.h",
    "common/contract/drift.h",
    "common/base/digest.h",
    "common/contract/gpu_request.h",
    "common/contract/pod_requests.h",
    "plugin/allocation/device_set.h",
    "plugin/allocation/record.h",
    "plugin/allocation/limits.h",
    "extender/kubectl/fact.h",
    "extender/kubectl/limits.h",
    "common/base/text.h",
    "common/base/rfc3339.h",
    "common/base/executor.h",
    "common/http/address.h",
    "common/kube/objects/objects.h",
    "common/kube/objects/pod_owner.h",
    "common/kube/request.h",
    "common/kube/watch/watcher.h",
    "common/kube/transport.h",
    "common/kube/objects/object_json.h",
    "common/kube/objects/object_protobuf.h",
    "extender/election/limits.h",
};
const Paths kImpureStandardHeaders = {
    "mutex",    "shared_mutex", "thread",     "condition_variable",
    "future",   "atomic",       "random",     "iostream",
    "fstream",  "filesystem",   "ctime",      "semaphore",
    "latch",    "barrier",      "stop_token", "csignal",
    "unistd.h", "time.h",
};

struct Ban {
  std::string_view word;
  std::string_view instead;
};
constexpr Ban kImpure[] = {
    {"::now(", "take an Instant as a parameter"},
    {"system_clock", "take an Instant as a parameter"},
    {"time(", "take an Instant as a parameter"},
    {"std::mutex", "leave locks to the caller"},
    {"std::thread", "leave threads to the caller"},
    {"std::atomic", "leave sharing to the caller"},
    {"rand(", "take the random number as a parameter"},
    {"random()", "take the random number as a parameter"},
    {"random_device", "take the random number as a parameter"},
    {"std::cout", "return a value"},
    {"std::cerr", "return an Error"},
    {"printf(", "return a value"},
    {"fopen(", "take the text as a parameter"},
    {"ifstream", "take the text as a parameter"},
    {"ofstream", "return the text"},
    {"getenv(", "take the value as a parameter"},
    {"log_debug(", "return a value, and let the caller log it"},
    {"log_info(", "return a value, and let the caller log it"},
    {"log_warn(", "return a value, and let the caller log it"},
    {"log_error(", "return a value, and let the caller log it"},
};

// --- calls and words -----------------------------------------------------------------------------

constexpr Ban kBannedCalls[] = {
    {"assert(", "use MGPU_CHECK, which stays on"},
    {"std::stoi(", "use std::from_chars, which does not throw"},
    {"std::stol(", "use std::from_chars, which does not throw"},
    {"std::stoll(", "use std::from_chars, which does not throw"},
    {"std::stod(", "use std::from_chars, which does not throw"},
    {"atoi(", "use std::from_chars, which reports failure"},
    {"strtok(", "use std::string_view"},
    {"sprintf(", "use fmt::format"},
    {"rand(", "use Executor::random"},
    {"localtime(", "print UTC"},
    {"sleep_for(", "use Executor::after"},
    {"sleep(", "use Executor::after"},
    {".detach()", "own the thread and join it"},
    {"using namespace std;", "name what is used"},
    {"boost::beast::http::write(", "use the asynchronous form"},
};
const Paths kProduct = {"common/", "extender/", "plugin/"};
// Words that the project does not use any more, also in comments.
struct Renamed {
  Paths in;  // the folders that have been read for it
  std::string_view word;
  std::string_view instead;
};
const Renamed kRenamed[] = {
    {{"extender/kubectl/"}, "harmless(", "sanitize_for_terminal()"},
    {{"extender/kubectl/"}, "without_formulas", "escape_csv_formula()"},
    {{"extender/"}, "kind_name", "to_string(), as for every enum"},
    {{"extender/"}, "level_name", "to_string(), as for every enum"},
    {{"common/", "extender/"}, "link_name", "to_string(), as for every enum"},
    {{"plugin/"}, "label(", "to_string(), as for every enum"},
    {{"bench/gpu/"}, "to_text(", "to_string(), as for every enum"},
    {kProduct, "insists", "\"requires\""},
    {kProduct, "wishes", "\"requests\""},
    {kProduct, "bystander", "\"another container\", or what it is"},
    {kProduct, "empty where", "\"empty if\": \"where\" is for places"},
    {kProduct, "null where", "\"null if\": \"where\" is for places"},
    {kProduct, "none where", "\"none if\": \"where\" is for places"},
    {kProduct, "nothing where", "\"nothing if\": \"where\" is for places"},
    {kProduct, "zero where", "\"zero if\": \"where\" is for places"},
    {kProduct, "true where", "\"true if\": \"where\" is for places"},
    {kProduct, "false where", "\"false if\": \"where\" is for places"},
    {kProduct, "// Of", "a verb, as in \"Returns\", or the noun that it is"},
    {kProduct, "// None:", "\"Returns nullopt if\", or \"Empty if\""},
};
// In two parts, so that this file does not contain them.
const std::string kBannedWords[] = {std::string("TO") + "DO", std::string("FIX") + "ME",
                                    std::string("XX") + "X", std::string("HA") + "CK"};

// -------------------------------------------------------------------------------------------------

bool is_test(const SourceFile& file) {
  return file.path.starts_with("test/");
}

bool is_header(const SourceFile& file) {
  return file.path.ends_with(".h");
}

bool starts_with_any(std::string_view path, const Paths& beginnings) {
  return std::any_of(beginnings.begin(), beginnings.end(),
                     [&](std::string_view beginning) { return path.starts_with(beginning); });
}

bool is_one_of(std::string_view path, const Paths& paths) {
  return std::find(paths.begin(), paths.end(), path) != paths.end();
}

bool is_cxx(const SourceFile& file) {
  return file.path.ends_with(".h") || file.path.ends_with(".cc");
}

std::string complaint(const SourceFile& file, std::size_t line, const std::string& what) {
  return file.path + ":" + std::to_string(line) + ": " + what;
}

// "extender/placement/" of "extender/placement/fit.h"
std::string_view folder_of(std::string_view path) {
  return path.substr(0, path.rfind('/') + 1);
}

const Library* library_of(const Include& include) {
  for (const Library& library : kLibraries) {
    if (starts_with_any(include.path, library.includes)) return &library;
  }
  return nullptr;
}

std::string check_direction(const SourceFile& file, const Include& include) {
  for (const Direction& direction : kDirections) {
    if (file.path.starts_with(direction.from) && include.path.starts_with(direction.never)) {
      return "includes " + include.path + ": " + std::string(direction.instead);
    }
  }
  if (file.path.starts_with("common/base/") && !include.angled &&
      !include.path.starts_with("common/base/")) {
    return "includes " + include.path + ": common/base only includes common/base";
  }
  return include.path.ends_with(".cc") ? "includes the source " + include.path +
                                             ": include its header, or move what is shared"
                                       : "";
}

std::string check_library(const SourceFile& file, const Include& include) {
  const Library* const library = library_of(include);
  if (library == nullptr || starts_with_any(file.path, library->homes)) return "";
  std::string homes;
  for (const std::string_view home : library->homes) homes += " " + std::string(home);
  return "includes " + include.path + ": the home of " + std::string(library->name) + " is" +
         homes + "; use what those offer";
}

std::string check_pure_include(const SourceFile& file, const Include& include) {
  const bool fmt_in_source = include.path.starts_with("fmt/") && !is_header(file);
  const bool known_library = library_of(include) != nullptr || fmt_in_source;
  const std::string pure = "includes " + include.path + ": this code is pure; ";
  if (!include.angled) {
    const bool own = folder_of(include.path).starts_with(folder_of(file.path)) &&
                     !file.path.starts_with("common/");
    if (own || is_one_of(include.path, kValueHeaders)) return "";
    // The registry includes the policies, and they include the interface and the prices.
    const Paths placement = {"extender/placement/", "extender/pricing/"};
    if (starts_with_any(include.path, placement) && starts_with_any(file.path, placement))
      return "";
    return pure + "use values of the standard library and common's value headers";
  }
  if (is_one_of(include.path, kImpureStandardHeaders)) {
    return pure + "leave I/O, clocks, locks and randomness to the caller";
  }
  const bool standard = include.path.find('/') == std::string::npos;
  return standard || known_library ? "" : pure + "use the standard library";
}

std::string_view stem_of(std::string_view path) {
  return path.substr(0, path.rfind('.'));
}

// Adds a complaint for each banned word in the code.
template <class Bans>
void add_banned(const SourceFile& file, const Bans& bans, std::vector<std::string>& complaints) {
  const std::string code = code_only(file.text);
  const auto lines = lines_of(code);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    for (const Ban& ban : bans) {
      if (!has_word(lines[i], ban.word)) continue;
      complaints.push_back(complaint(
          file, i + 1, std::string(ban.word) + " is banned: " + std::string(ban.instead)));
    }
  }
}

// The number of characters: continuation bytes of UTF-8 have no column.
std::size_t columns(std::string_view line) {
  return static_cast<std::size_t>(std::count_if(line.begin(), line.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  }));
}

void add_line_complaints(const SourceFile& file, std::vector<std::string>& complaints) {
  const auto lines = lines_of(file.text);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    // Recorded messages in tests are not wrapped.
    const bool recorded = is_test(file) && lines[i].find("R\"(") != std::string_view::npos;
    if (columns(lines[i]) > kColumnsMax && !recorded) {
      complaints.push_back(complaint(file, i + 1, "over 100 columns: run clang-format"));
    }
    if (lines[i].ends_with(' ') || lines[i].find('\t') != std::string_view::npos) {
      complaints.push_back(complaint(file, i + 1, "a tab or a blank at its end: run clang-format"));
    }
  }
}

// Counts the functions that a class at the level of its namespace declares, in the form of this
// repository, without constructors, destructors and operators.
void add_class_complaints(const SourceFile& file, std::vector<std::string>& complaints) {
  static const std::regex kClass(
      R"(^(?:class|struct)(?: \w+\([^)]*\))* (\w+)(?: final)?(?: :.*)? \{$)");
  static const std::regex kFunction(R"(^  \w[^=()]*[ &*](\w+)\(.*$)");
  const std::string code = code_only(file.text);
  const auto lines = lines_of(code);
  std::string name;
  std::size_t functions = 0;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const std::string line(lines[i]);
    std::smatch match;
    if (std::regex_match(line, match, kClass)) {
      name = match[1];
      functions = 0;
    } else if (std::regex_match(line, match, kFunction)) {
      if (match[1] != name && !match[1].str().starts_with("MGPU_")) ++functions;
    } else if (line == "};" && !name.empty()) {
      if (functions > kClassFunctionsMax) {
        complaints.push_back(complaint(file, i + 1,
                                       name + " has " + std::to_string(functions) +
                                           " functions, over 25: split it where its state splits"));
      }
      name.clear();
    }
  }
}

}  // namespace

std::vector<std::string> include_complaints(const SourceFile& file) {
  std::vector<std::string> complaints;
  const auto add = [&](const Include& include, const std::string& what) {
    if (!what.empty()) complaints.push_back(complaint(file, include.line, what));
  };
  for (const Include& include : includes_of(file)) {
    add(include, check_direction(file, include));
    add(include, check_library(file, include));
    if (is_header(file) && !is_test(file) && include.path.starts_with("fmt/")) {
      add(include, "includes " + include.path + ": format in the source, headers stay light");
    }
    if (starts_with_any(file.path, kPure)) add(include, check_pure_include(file, include));
  }
  return complaints;
}

std::vector<std::string> purity_complaints(const SourceFile& file) {
  std::vector<std::string> complaints;
  // check.h prints one line before it aborts the process.
  const bool prints = file.path == "common/base/check.h";
  if (starts_with_any(file.path, kPure) && !prints) add_banned(file, kImpure, complaints);
  return complaints;
}

std::vector<std::string> wording_complaints(const SourceFile& file) {
  std::vector<std::string> complaints;
  const bool product = starts_with_any(file.path, kProduct);
  if (is_cxx(file) && product) add_banned(file, kBannedCalls, complaints);
  const auto lines = lines_of(file.text);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    for (const std::string& word : kBannedWords) {
      if (!has_word(lines[i], word)) continue;
      complaints.push_back(complaint(file, i + 1, word + ": do it, or open an issue"));
    }
    for (const Renamed& renamed : kRenamed) {
      if (!is_cxx(file) || !starts_with_any(file.path, renamed.in)) continue;
      const bool found =
          has_word(lines[i], renamed.word) || has_word(lower_case(lines[i]), renamed.word);
      if (!found) continue;
      complaints.push_back(complaint(
          file, i + 1, std::string(renamed.word) + ": use " + std::string(renamed.instead)));
    }
  }
  return complaints;
}

std::vector<std::string> form_complaints(const SourceFile& file) {
  std::vector<std::string> complaints;
  add_line_complaints(file, complaints);
  if (!file.path.starts_with("test/")) add_class_complaints(file, complaints);
  if (is_header(file) && file.text.find("#pragma once\n") == std::string::npos) {
    complaints.push_back(complaint(file, 1, "no #pragma once: add it below the header's comment"));
  }
  if (!file.text.empty() && file.text.back() != '\n') {
    complaints.push_back(
        complaint(file, lines_of(file.text).size(), "no line end at its end: run clang-format"));
  }
  return complaints;
}

std::vector<std::string> length_warnings(const SourceFile& file) {
  std::vector<std::string> warnings;
  for (const Function& function : functions_of(file)) {
    if (function.length <= kFunctionLinesMax) continue;
    warnings.push_back(complaint(file, function.line,
                                 "a function of " + std::to_string(function.length) +
                                     " lines, over 70: consider to split it"));
  }
  return warnings;
}

std::vector<std::string> dead_headers(const std::vector<SourceFile>& files) {
  std::set<std::string> included;
  for (const SourceFile& file : files) {
    for (const Include& include : includes_of(file)) {
      // The include in the source of the same name does not count.
      if (stem_of(include.path) != stem_of(file.path)) included.insert(include.path);
    }
  }
  std::vector<std::string> complaints;
  for (const SourceFile& file : files) {
    if (!is_header(file) || included.contains(file.path)) continue;
    complaints.push_back(complaint(file, 1, "no file includes this header: remove it"));
  }
  return complaints;
}

}  // namespace mgpu::test
