// A fake of nvidia-cuda-mps-control and the server that it starts. With "-f" it is the daemon.
// Without, it sends its input to the daemon of CUDA_MPS_PIPE_DIRECTORY and prints the response. The
// file "behaviour" next to the pipe directory configures the daemon with a line each; it is read
// again at every command and every client, and so is the file MGPU_FAKE_MPS:
//
//   crash             ends at its start
//   slow              does not listen as long as this line is there
//   no-response       accepts commands and never responds; each is written to the file "calls"
//   fault             its server is in FAULT, and refuses clients
//   server-fails      its server ends at its start
//   initializing      its server is being started as long as this line is there
//   no-status         does not know "get_server_status", like the daemon of 535
//   no-quit           ignores the command "quit"
//   long-response     responds with a megabyte
//   invalid-response  responds with text that does not belong to any command
//   clients <pid>*    clients of its one server in addition to those that are connected, until
//                     they are terminated
//   max_clients <n>   the limit of connected clients, 48 by default
//   no-terminate      terminate_client does nothing
//   terminate-all     terminate_client ends all connected clients
//   no-multiuser      does not know "-multiuser-server". With an unknown argument, the program of
//                     drivers before R555 ignores "-f" and acts as a client.
//   v3                is the program of a driver from R615 on: it knows "-p 3" (docs.nvidia.com,
//                     "MPS v3 Interface"), and its commands are its arguments
//   no-namespaces     a daemon of v3 makes no namespaces
//   server-ends       its server ends, and is not started as long as this line is there
//   slow-help         "--help" does not end as long as this line is there
//   other-percentage  a namespace has another percentage than it was given
//
// Starts, "quit", "terminate_client" and what changes servers and namespaces is written to the file
// "calls" next to it, a line each. A daemon that ends because another one is running writes none.
//
// The pipe directory has the socket "control" for clients (test/gpu/driver/mps.h) and their
// questions, "control_privileged" for commands of root, "control_lock", which only one daemon can
// lock, and the FIFO "log", which stays empty. A client sends "client <pid>" and receives "ok",
// "full" or "fault". After "ok" it is connected until one side closes the connection. Each
// connection is greeted; one that sends nothing blocks the daemon. NVIDIA's program has one more
// file there, and its server is a separate process, which outlives a daemon that was killed.
//
// A daemon of v3 also has a socket for each namespace, by which a client gets its limits: after
// "ok" follow the percentage and the MiB (0: no limit). As measured by NVIDIA's engineers, the
// limits of a namespace with clients cannot be set.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

namespace {

// Clients of one server on Volta and later.
constexpr char kClientsMax[] = "48";
constexpr std::size_t kHelloBytesMax = 64;
constexpr std::size_t kPacket = 4096;
// What NVIDIA's daemon sends first, with its zero.
constexpr char kGreeting[] = "OUTBHELL";
constexpr const char* kForRoot[] = {"quit",
                                    "set_",
                                    "start_server",
                                    "terminate_client",
                                    "--quit",
                                    "server create",
                                    "namespace create",
                                    "namespace set",
                                    "namespace delete",
                                    "client terminate"};

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value != nullptr ? value : "";
}

std::string in_pipe(const std::string& name) {
  return variable("CUDA_MPS_PIPE_DIRECTORY") + "/" + name;
}

std::string beside_pipe(const std::string& name) {
  return in_pipe("../" + name);
}

// The rest of the line of the behaviour that begins with `word`; "-" if there is none.
std::string behaviour(const std::string& word) {
  for (const std::string& path : {beside_pipe("behaviour"), variable("MGPU_FAKE_MPS")}) {
    std::ifstream file(path);
    for (std::string line; std::getline(file, line);) {
      if (line == word) return "";
      if (line.starts_with(word + " ")) return line.substr(word.size() + 1);
    }
  }
  return "-";
}

bool behaves(const std::string& word) {
  return behaviour(word) != "-";
}

void note(const std::string& call) {
  std::ofstream(beside_pipe("calls"), std::ios::app) << call << "\n";
}

sockaddr_un address(const std::string& name) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, in_pipe(name).c_str(), sizeof address.sun_path - 1);
  return address;
}

std::string read_all(int from) {
  std::string text;
  char part[kPacket];
  for (ssize_t count; (count = ::read(from, part, sizeof part)) > 0;) {
    text.append(part, static_cast<std::size_t>(count));
  }
  return text;
}

void write_all(int to, const std::string& text) {
  for (std::size_t done = 0; done < text.size();) {
    const ssize_t count = ::write(to, text.data() + done, std::min(kPacket, text.size() - done));
    if (count <= 0) return;
    done += static_cast<std::size_t>(count);
  }
}

// A socket, or a negative number if it cannot be created.
int listen_at(const std::string& name, mode_t mode) {
  const int listener = ::socket(AF_UNIX, SOCK_SEQPACKET, 0);
  const sockaddr_un at = address(name);
  // The socket of a daemon that was killed cannot be bound again.
  ::unlink(at.sun_path);
  if (::bind(listener, reinterpret_cast<const sockaddr*>(&at), sizeof at) != 0) return -1;
  ::chmod(at.sun_path, mode);
  return ::listen(listener, 64) == 0 ? listener : -1;
}

// --- the server ----------------------------------------------------------------------------------

// Of a daemon of v3.
struct Namespace {
  int listener = -1;
  std::string percentage = "100.00";
  std::string mib = "0";
};

struct Client {
  int connection = -1;
  std::string space;   // of a daemon of v3
  std::string limits;  // its own, "" without a namespace
  std::string hello;   // received so far
  std::string pid;     // set after the response "ok"
};

// The connections of clients.
class Server {
 public:
  // Whether NVIDIA's daemon would have started its server by now.
  bool exists() const { return had_client_; }

  std::vector<std::string> pids() const {
    std::vector<std::string> pids;
    for (const Client& client : clients_) {
      if (!client.pid.empty()) pids.push_back(client.pid);
    }
    return pids;
  }

  std::vector<int> connections() const {
    std::vector<int> connections;
    for (const Client& client : clients_) connections.push_back(client.connection);
    return connections;
  }

  void add(int connection, const std::string& space, const std::string& limits) {
    if (connection >= 0) clients_.push_back({connection, space, limits, "", ""});
  }

  // "51023,mgpu,0,default,python"
  std::string csv() const {
    std::string lines;
    for (const Client& client : clients_) {
      if (!client.pid.empty()) lines += client.pid + ",mgpu,0," + client.space + ",program\n";
    }
    return lines;
  }

  bool has_clients(const std::string& space) const {
    return std::any_of(clients_.begin(), clients_.end(), [&](const Client& client) {
      return client.space == space && !client.pid.empty();
    });
  }

  void drop_all(const std::string& space) {
    for (const Client& client : clients_) {
      if (client.space == space) ::close(client.connection);
    }
    std::erase_if(clients_, [&](const Client& client) { return client.space == space; });
  }

  // Reads from a connection that is readable or closed.
  void read_from(int connection) {
    const auto client = std::find_if(clients_.begin(), clients_.end(), [&](const Client& other) {
      return other.connection == connection;
    });
    if (client == clients_.end()) return;
    char part[kHelloBytesMax];
    const ssize_t count = ::recv(connection, part, sizeof part, 0);
    if (count > 0) client->hello.append(part, static_cast<std::size_t>(count));
    if (count <= 0 || !handle_hello(*client)) drop(client);
  }

  void terminate(const std::string& pid) {
    const auto client = std::find_if(clients_.begin(), clients_.end(),
                                     [&](const Client& other) { return other.pid == pid; });
    if (client != clients_.end()) drop(client);
  }

 private:
  void drop(std::vector<Client>::iterator client) {
    ::close(client->connection);
    clients_.erase(client);
  }

  // Returns whether the client stays connected.
  bool handle_hello(Client& client) {
    if (!client.pid.empty()) return true;
    const std::size_t end = client.hello.find('\n');
    if (end == std::string::npos) return client.hello.size() < kHelloBytesMax;
    std::istringstream words(client.hello.substr(0, end));
    std::string word;
    std::string pid;
    if (!(words >> word >> pid) || word != "client") return false;
    const std::string limit = behaviour("max_clients");
    const std::size_t room = std::strtoul(limit == "-" ? kClientsMax : limit.c_str(), nullptr, 10);
    const std::string response = behaves("fault") ? "fault" : pids().size() >= room ? "full" : "ok";
    if (response == "ok") {
      client.pid = pid;
      had_client_ = true;
    }
    write_all(client.connection, response + (response == "ok" ? client.limits : "") + "\n");
    return response == "ok";
  }

  std::vector<Client> clients_;
  bool had_client_ = false;
};

// --- the daemon ----------------------------------------------------------------------------------

struct Daemon {
  Server server;
  std::string percentage = "100.0";  // default of clients
  bool server_started = false;
  std::set<std::string> terminated;
  bool v3 = false;
  std::map<std::string, Namespace> namespaces{};
};

std::string client_list(const Daemon& daemon) {
  const std::string configured = behaviour("clients");
  std::istringstream words(configured == "-" ? "" : configured);
  std::string lines;
  for (std::string pid; words >> pid;) {
    if (!daemon.terminated.contains(pid)) lines += pid + "\n";
  }
  for (const std::string& pid : daemon.server.pids()) lines += pid + "\n";
  return lines;
}

std::string set_percentage(Daemon& daemon, const std::string& argument) {
  const double percentage = std::strtod(argument.c_str(), nullptr);
  if (!(percentage > 0 && percentage <= 100)) return "Failed to set active thread percentage\n";
  char text[16];
  std::snprintf(text, sizeof text, "%.1f", percentage);
  daemon.percentage = text;
  return daemon.percentage + "\n";
}

std::string server_status() {
  if (behaves("no-status")) return "Unknown command \"get_server_status\"\n";
  if (behaves("initializing")) return "INITIALIZING\n";
  return behaves("fault") ? "FAULT\n" : "ACTIVE\n";
}

// Prints what the daemon of 555.58.02 prints on a machine without a card.
std::string start_server(Daemon& daemon) {
  daemon.server_started = !behaves("server-fails");
  if (!daemon.server_started) {
    std::cout
        << "[2026-11-26 11:16:54.240 Other  4242] Failed to start : no CUDA-capable device is "
           "detected\n[2026-11-26 11:16:54.241 Control     7] Server 4242 exited with status 1"
        << std::endl;
  }
  return "";
}

// --- v3 ------------------------------------------------------------------------------------------

// What "--percentage=30" of these words gives for "--percentage="; "" if there is none.
std::string option(const std::vector<std::string>& words, const std::string& name) {
  for (const std::string& word : words) {
    if (word.starts_with(name)) return word.substr(name.size());
  }
  return "";
}

std::string create_namespace(Daemon& daemon, const std::string& name) {
  if (!daemon.server_started) return "!server mgpu not found\n";
  if (behaves("no-namespaces")) return "!Failed to create namespace\n";
  if (daemon.namespaces.contains(name)) return "!namespace " + name + " exists\n";
  std::filesystem::create_directories(in_pipe("mgpu/" + name));
  daemon.namespaces[name].listener = listen_at("mgpu/" + name + "/control", 0666);
  return "";
}

// The files of its sockets stay.
void end_server(Daemon& daemon) {
  for (const auto& [name, space] : daemon.namespaces) {
    daemon.server.drop_all(name);
    ::close(space.listener);
  }
  daemon.namespaces.clear();
  daemon.server_started = false;
}

std::string create_server(Daemon& daemon) {
  if (behaves("server-ends")) return "";
  if (daemon.server_started) return "!server mgpu exists\n";
  std::filesystem::create_directories(in_pipe("mgpu"));
  static_cast<void>(start_server(daemon));
  return daemon.server_started ? create_namespace(daemon, "default") : "";
}

std::string delete_namespace(Daemon& daemon, const std::string& name, bool force) {
  const auto found = daemon.namespaces.find(name);
  if (found == daemon.namespaces.end()) return "!namespace " + name + " not found\n";
  if (!force && daemon.server.has_clients(name)) return "!namespace has active clients\n";
  daemon.server.drop_all(name);
  ::close(found->second.listener);
  daemon.namespaces.erase(found);
  std::filesystem::remove_all(in_pipe("mgpu/" + name));
  return "";
}

std::string set_namespace(Daemon& daemon, const std::vector<std::string>& words) {
  const auto found = daemon.namespaces.find(words[2]);
  if (found == daemon.namespaces.end()) return "!namespace " + words[2] + " not found\n";
  if (daemon.server.has_clients(words[2])) return "!namespace has active clients\n";
  const double percentage =
      std::strtod(option(words, "--active-thread-percentage=").c_str(), nullptr);
  char text[16];
  std::snprintf(text, sizeof text, "%.2f", behaves("other-percentage") ? 100.0 : percentage);
  found->second.percentage = text;
  found->second.mib = option(words, "--pinned-memory-limit=");
  found->second.mib.resize(found->second.mib.find_first_not_of("0123456789"));
  return "";
}

std::string server_line() {
  const std::string status = behaves("initializing") ? "Initializing"
                             : behaves("fault")      ? "Fault"
                                                     : "Ready";
  return "mgpu,0,4242," + status + "," + in_pipe("mgpu") + ",GPU-a,-\n";
}

// A response that begins with "!" is a failure.
std::string response_to_v3(const std::string& command, Daemon& daemon) {
  std::istringstream text(command);
  std::vector<std::string> words;
  for (std::string word; text >> word;) words.push_back(word);
  words.resize(std::max<std::size_t>(words.size(), 3));
  const std::string what = words[0] + " " + words[1];
  if (behaves("long-response")) return std::string(1 << 20, 'x');
  if (behaves("invalid-response")) return "what?\n";
  if (behaves("server-ends") && daemon.server_started) end_server(daemon);
  if (what == "server list") return daemon.server_started ? server_line() : "";
  if (what == "client list" && !daemon.server_started) return "!server mgpu not found\n";
  if (what == "client list") return "x\nFAULT,1,2\n" + daemon.server.csv();
  if (what == "namespace get") {
    const auto found = daemon.namespaces.find(words[2]);
    return found == daemon.namespaces.end() ? "!not found\n" : found->second.percentage + "\n";
  }
  note(command);
  if (what == "server create") return create_server(daemon);
  if (what == "namespace create") return create_namespace(daemon, words[2]);
  if (what == "namespace delete")
    return delete_namespace(daemon, words[2], words.back() == "--force");
  if (what == "namespace set") return set_namespace(daemon, words);
  if (what == "client terminate" && !behaves("no-terminate")) daemon.server.terminate(words[2]);
  return what == "client terminate" ? "" : "!unknown command " + command + "\n";
}

// --- both ----------------------------------------------------------------------------------------

std::string response_to(const std::string& command, Daemon& daemon) {
  if (daemon.v3) return response_to_v3(command, daemon);
  const bool has_server = behaviour("clients") != "-" || behaves("fault") ||
                          daemon.server.exists() || daemon.server_started;
  if (behaves("long-response")) return std::string(1 << 20, 'x');
  if (behaves("invalid-response")) return "what?\n";
  if (command == "get_default_active_thread_percentage") return daemon.percentage + "\n";
  if (command == "get_server_list") return has_server ? "4242\n" : "";
  if (command == "get_server_status 4242") return server_status();
  if (command == "start_server -uid 0") return start_server(daemon);
  if (command == "get_client_list 4242") return client_list(daemon);
  std::istringstream words(command);
  std::string word;
  std::string first;
  std::string second;
  words >> word >> first >> second;
  if (word == "set_default_active_thread_percentage") return set_percentage(daemon, first);
  if (word == "terminate_client") note(command);
  if (word == "terminate_client" && behaves("terminate-all")) {
    for (const std::string& pid : daemon.server.pids()) daemon.server.terminate(pid);
  }
  if (word == "terminate_client" && first == "4242" && !behaves("no-terminate")) {
    daemon.server.terminate(second);
    daemon.terminated.insert(second);
  }
  return "";
}

std::string refusal(const std::string& command, bool privileged) {
  const bool is_for_root = std::any_of(std::begin(kForRoot), std::end(kForRoot),
                                       [&](const char* word) { return command.starts_with(word); });
  if (!is_for_root || privileged) return "";
  return "Not enough privilege to execute " + command + " command\n";
}

// A session: a command for each line. Returns whether the daemon goes on.
bool handle_commands(int connection, Daemon& daemon, bool privileged) {
  std::istringstream commands(read_all(connection));
  std::string responses;
  for (std::string command; std::getline(commands, command);) {
    const std::string refused = refusal(command, privileged);
    const bool quits = (command == "quit" || command == "--quit") && refused.empty();
    if (quits) note("quit");
    if (quits && !behaves("no-quit")) return false;
    // The connection stays open without a response.
    if (behaves("no-response")) {
      note("no response to " + command);
      return true;
    }
    responses += refused.empty() ? response_to(command, daemon) : refused;
  }
  write_all(connection, responses);
  ::close(connection);
  return true;
}

// Returns whether the daemon goes on. `space` has its own listener in a daemon of v3.
bool handle_connection(int connection, Daemon& daemon, bool privileged, const std::string& space) {
  // If this fails, the other side has gone.
  static_cast<void>(::send(connection, kGreeting, sizeof kGreeting, MSG_NOSIGNAL));
  // "client 4711", where "client list" is a command of v3.
  char start[sizeof "client 4" - 1];
  const bool is_client = ::recv(connection, start, sizeof start, MSG_PEEK) == std::ssize(start) &&
                         std::string_view(start, sizeof start).starts_with("client ") &&
                         std::isdigit(start[sizeof start - 1]) != 0;
  if (!is_client) return handle_commands(connection, daemon, privileged);
  const auto found = daemon.namespaces.find(space);
  const bool limited = found != daemon.namespaces.end();
  const Namespace& limits = limited ? found->second : Namespace();
  daemon.server.add(connection, space, limited ? " " + limits.percentage + " " + limits.mib : "");
  return true;
}

// The listeners, and whose they are: "" is that of the daemon, "!" that for root.
std::map<int, std::string> listeners_of(const Daemon& daemon, int control, int privileged) {
  std::map<int, std::string> listeners = {{control, ""}, {privileged, "!"}};
  for (const auto& [name, space] : daemon.namespaces) listeners.emplace(space.listener, name);
  return listeners;
}

void run(int control, int privileged, bool v3) {
  Daemon daemon;
  daemon.v3 = v3;
  while (true) {
    const auto listeners = listeners_of(daemon, control, privileged);
    std::vector<pollfd> ready;
    for (const int connection : daemon.server.connections())
      ready.push_back({connection, POLLIN, 0});
    for (const auto& [listener, whose] : listeners) ready.push_back({listener, POLLIN, 0});
    if (::poll(ready.data(), ready.size(), -1) < 0) continue;
    // Clients are handled before commands, so that no closed connection is listed.
    for (const pollfd& one : ready) {
      if (one.revents == 0) continue;
      const auto listener = listeners.find(one.fd);
      if (listener == listeners.end()) {
        daemon.server.read_from(one.fd);
        continue;
      }
      const int connection = ::accept(one.fd, nullptr, nullptr);
      const std::string& whose = listener->second;
      if (!handle_connection(connection, daemon, whose == "!", whose)) return;
      break;  // it may have changed the listeners
    }
  }
}

// The lock is held until the process ends.
bool is_only_daemon() {
  const int lock = ::open(in_pipe("control_lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  return lock < 0 || ::flock(lock, LOCK_EX | LOCK_NB) == 0;
}

int serve(bool v3) {
  if (!is_only_daemon()) {
    std::cout << "An instance of this daemon is already running\n";
    return 1;
  }
  note(v3 ? "start v3" : "start " + variable("CUDA_VISIBLE_DEVICES"));
  if (behaves("crash")) {
    std::cerr << "first line\nno such card\n";
    return 1;
  }
  while (behaves("slow")) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  // Clients and commands may close their connection at any time.
  ::signal(SIGPIPE, SIG_IGN);
  ::mkfifo(in_pipe("log").c_str(), 0777);
  ::chmod(in_pipe("log").c_str(), 0777);
  // It exists before "control" accepts connections.
  const int privileged = listen_at("control_privileged", 0755);
  const int control = listen_at("control", 0666);
  if (privileged < 0 || control < 0) return 2;
  run(control, privileged, v3);
  return 0;
}

// A connection; negative if there is none.
int connect_to(const std::string& name) {
  const int daemon = ::socket(AF_UNIX, SOCK_SEQPACKET, 0);
  const sockaddr_un at = address(name);
  if (::connect(daemon, reinterpret_cast<const sockaddr*>(&at), sizeof at) == 0) return daemon;
  ::close(daemon);
  return -1;
}

// Sends `command`, or what it reads if that is empty.
int run_client(const std::string& command) {
  int daemon = connect_to("control_privileged");
  if (daemon < 0) daemon = connect_to("control");
  if (daemon < 0) {
    std::cout << "Cannot find MPS control daemon process\n";
    return 1;
  }
  char greeting[sizeof kGreeting];
  if (::recv(daemon, greeting, sizeof greeting, 0) != sizeof greeting) return 1;
  write_all(daemon, command.empty() ? read_all(STDIN_FILENO) : command);
  ::shutdown(daemon, SHUT_WR);
  const std::string response = read_all(daemon);
  const bool failed = response.starts_with('!');
  write_all(STDOUT_FILENO, response.substr(failed ? 1 : 0));
  return failed ? 1 : 0;
}

// The program of a driver from R615 on, with "-p 3".
int run_v3(const std::vector<std::string>& words) {
  if (words == std::vector<std::string>{"-f", "-m", "-p", "3"}) return serve(true);
  std::string command;
  for (std::size_t i = 2; i < words.size(); ++i) command += (command.empty() ? "" : " ") + words[i];
  if (command != "--help") return run_client(command);
  while (behaves("slow-help")) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  std::cout << "Modules: server namespace client device\n";
  return 0;
}

}  // namespace

int main(int count, char** arguments) {
  ::alarm(300);  // in case the test is killed
  const std::vector<std::string> words(arguments + 1, arguments + count);
  const bool v3 = behaves("v3") && std::find(words.begin(), words.end(), "-p") != words.end();
  if (v3) return run_v3(words);
  const bool unknown = behaves("no-multiuser") &&
                       std::find(words.begin(), words.end(), "-multiuser-server") != words.end();
  const bool daemon = !words.empty() && words.front() == "-f" && !unknown;
  return daemon ? serve(false) : run_client("");
}
