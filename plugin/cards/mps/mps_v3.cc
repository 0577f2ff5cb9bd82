#include "plugin/cards/mps/mps_v3.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <filesystem>
#include <functional>
#include <sstream>
#include <utility>

#include "common/base/check.h"
#include "common/base/files.h"
#include "common/base/process.h"
#include "common/base/text.h"
#include "plugin/cards/limits.h"

namespace mgpu::plugin {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

using Words = std::vector<std::string>;

constexpr char kServer[] = "mgpu";
constexpr char kOfServer[] = "--server=mgpu";
constexpr char kCsv[] = "--format=csv,noheader";
// Columns of "server list" and "client list".
constexpr std::size_t kServerPid = 2;
constexpr std::size_t kServerStatus = 3;
constexpr std::size_t kClientPid = 0;

// The commands of one call to the functions of this file.
class V3Commands {
 public:
  explicit V3Commands(const MpsV3& daemon)
      : daemon_(daemon), deadline_(steady_clock::now() + daemon.timeout) {}

  Result<std::string> run(Words command) const {
    const std::string text = fmt::format("{}", fmt::join(command, " "));
    const auto left = std::chrono::floor<milliseconds>(deadline_ - steady_clock::now());
    if (left <= milliseconds(0)) return error("there is no time left for \"" + text + "\"");
    command.insert(command.begin(), {"-p", "3"});
    auto response = run_with_input({.path = daemon_.control,
                                    .arguments = std::move(command),
                                    .variables = mps_environment(daemon_.folders),
                                    .removed_prefix = kMpsVariables},
                                   "", kMpsResponseBytesMax, left);
    if (response) return response;
    return error(fmt::format("\"{}\" failed: {}", text, response.error().message));
  }

 private:
  const MpsV3& daemon_;
  const steady_clock::time_point deadline_;
};

// The columns of a line without blanks around them.
std::vector<std::string> columns_of(const std::string& line) {
  std::vector<std::string> columns;
  std::istringstream text(line);
  for (std::string column; std::getline(text, column, ',');) columns.emplace_back(trimmed(column));
  return columns;
}

// A column of the lines that have it and for which `wanted` is true, a line each.
std::string column_of(const std::string& csv, std::size_t column,
                      const std::function<bool(const std::vector<std::string>&)>& wanted) {
  std::string values;
  std::istringstream lines(csv);
  for (std::string line; std::getline(lines, line);) {
    const auto columns = columns_of(line);
    if (columns.size() > column && wanted(columns)) values += columns[column] + "\n";
  }
  return values;
}

// The documents name the status "Ready" only.
std::string v2_status(const std::string& status) {
  const std::string lower = lower_case(trimmed(status));
  if (lower == "ready") return "ACTIVE\n";
  return lower.find("fault") != lower.npos ? "FAULT\n" : status;
}

Result<std::string> server_column(const V3Commands& commands, std::size_t column) {
  const auto servers = commands.run({"server", "list", kCsv});
  if (!servers) return servers.error();
  return column_of(*servers, column,
                   [](const std::vector<std::string>& columns) { return columns[0] == kServer; });
}

Result<std::string> client_pids(const V3Commands& commands) {
  const auto running = server_column(commands, kServerPid);
  if (!running || running->empty()) return running;
  const auto clients = commands.run({"client", "list", kOfServer, kCsv});
  if (!clients) return clients.error();
  // A program chooses its name, which may have ends of lines.
  return column_of(*clients, kClientPid, [](const std::vector<std::string>& columns) {
    return columns[kClientPid].find_first_not_of("0123456789") == std::string::npos;
  });
}

// As with v2, it changes nothing if there is one. What an ended one has left of its sockets
// would be taken for those of its namespaces.
Result<std::string> start_server(const MpsV3& daemon, const V3Commands& commands) {
  const auto running = server_column(commands, kServerPid);
  if (!running || !running->empty()) return running ? Result<std::string>("") : running;
  const std::filesystem::path pipe(daemon.folders.pipe);
  std::error_code absent;
  std::filesystem::remove_all(pipe / kServer, absent);
  const std::string card = pipe.parent_path().filename();
  return commands.run({"server", "create", kServer, "--allowed-devices=" + card});
}

Result<std::string> answer(const MpsV3& daemon, const V3Commands& commands,
                           const std::string& line) {
  std::istringstream words(line);
  std::string command;
  std::string first;
  std::string second;
  words >> command >> first >> second;
  // It tells a daemon from other programs. That of v3 has no such default.
  if (command == "get_default_active_thread_percentage") return std::string("100.0\n");
  if (command == "get_server_list") return server_column(commands, kServerPid);
  if (command == "get_client_list") return client_pids(commands);
  if (command == "terminate_client") return commands.run({"client", "terminate", second});
  if (command == "quit") return commands.run({"--quit"});
  if (command == "get_server_status") {
    const auto status = server_column(commands, kServerStatus);
    return status ? Result<std::string>(v2_status(*status)) : status;
  }
  if (command == "start_server") return start_server(daemon, commands);
  return error(in_quotes(line) + " is not a command of MPS v2 that is known here");
}

}  // namespace

Result<bool> knows_mps_v3(const MpsV3& daemon) {
  static const std::atomic<bool> kNotCancelled = false;
  const UniqueFd in(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  // A program that does not know an argument says so, or acts as a client and finds no daemon.
  const auto help = run_for_output({.path = daemon.control,
                                    .arguments = {"-p", "3", "--help"},
                                    .variables = mps_environment(daemon.folders),
                                    .in = in.number(),
                                    .removed_prefix = kMpsVariables},
                                   kMpsResponseBytesMax, daemon.timeout, kNotCancelled);
  if (!help) return help.error();
  return (help->out + help->err).find("namespace") != std::string::npos;
}

Result<std::string> mps_v2_response(const MpsV3& daemon, const std::string& text) {
  const V3Commands commands(daemon);
  std::string responses;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const auto response = answer(daemon, commands, line);
    if (!response) return response.error();
    responses += *response;
  }
  return responses;
}

Result<void> make_mps_namespace(const MpsV3& daemon, const std::string& name, const Share& share) {
  MGPU_DEBUG_CHECK(name.find_first_not_of("0123456789abcdefghijklmnopqrstuvwxyz_") == name.npos,
                   "a namespace has a name that the daemon accepts");
  const std::string percentage = std::to_string(share.core.value());
  const V3Commands commands(daemon);
  // A container that starts again has the name of its last start. The limits of a namespace with
  // clients cannot be set.
  static_cast<void>(commands.run({"namespace", "delete", name, kOfServer, "--force"}));
  for (const Words& command :
       {Words{"namespace", "create", name, kOfServer},
        Words{"namespace", "set", name, kOfServer, "--active-thread-percentage=" + percentage,
              fmt::format("--pinned-memory-limit={}M", share.memory.value())}}) {
    if (const auto done = commands.run(command); !done) return done.error();
  }
  const auto set = commands.run({"namespace", "get", name, kServer, "active-thread-percentage"});
  if (!set) return set.error();
  const std::string text(trimmed(*set));
  double read = 0;
  std::from_chars(text.data(), text.data() + text.size(), read);
  if (read == static_cast<double>(share.core.value())) return {};
  return error(fmt::format("its namespace {} has the percentage {}, expected {}", in_quotes(name),
                           in_quotes(text), percentage));
}

void remove_mps_namespace(const MpsV3& daemon, const std::string& name) {
  static_cast<void>(V3Commands(daemon).run({"namespace", "delete", name, kOfServer, "--force"}));
}

std::string mps_namespace_socket(const MpsFolders& folders, const std::string& name) {
  return folders.pipe + "/" + kServer + "/" + name + "/control";
}

}  // namespace mgpu::plugin
