// kubectl mgpu web
#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <string>

#include "common/base/text.h"
#include "extender/kubectl/cluster.h"
#include "extender/kubectl/extender_access.h"
#include "extender/kubectl/limits.h"
#include "extender/kubectl/verb.h"

namespace mgpu::kubectl {
namespace {

constexpr int kChildPollMs = 200;

volatile std::sig_atomic_t end_asked = 0;

// A program that is started afterwards has the defaults of these signals.
void note_end_signals() {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP})
    std::signal(signal, [](int) { end_asked = 1; });
}

// Waits until a signal ends this command. False if a child of this process, which is kubectl, has
// ended before.
bool wait_for_end() {
  while (end_asked == 0) {
    if (::waitpid(-1, nullptr, WNOHANG) > 0) return false;
    ::poll(nullptr, 0, kChildPollMs);
  }
  return true;
}

// Opens the URL with the program that the desktop has for it. There may be none.
void open_url(const std::string& url) {
  std::string program = "xdg-open";
  std::string argument = url;
  char* words[] = {program.data(), argument.data(), nullptr};
  pid_t child = 0;
  if (::posix_spawnp(&child, words[0], nullptr, nullptr, words, environ) == 0) {
    ::waitpid(child, nullptr, 0);
  }
}

class WebVerb {
 public:
  void add_flags(Options& options) {
    add_mgpu_namespace_flag(options, "n,namespace", extender_.name_space);
    add_extender_pod_flags(options, extender_);
    options.add_number("port", "Port of the page on 127.0.0.1; 0 is any free port.", port_, 0,
                       65535);
    options.add_flag("open", "Open the page with xdg-open.", open_);
    add_cluster_flags(options, cluster_);
  }

  Result<int> run(Console& console) {
    const auto cluster = Cluster::connect(cluster_);
    if (!cluster) return cluster.error();
    // The leader has the newest state.
    const auto found = find_extender_pod((*cluster)->api(), extender_);
    if (!found) return found.error();
    const PodRef& pod = found->ref;
    note_end_signals();
    const auto forward = (*cluster)->forward(pod, extender_.port, port_);
    if (!forward) return forward.error();
    const std::string url = "http://127.0.0.1:" + std::to_string((*forward)->port()) + "/web/";
    console.print(url + "\n");
    console.print_error(
        fmt::format("The page is served through pod {} until Ctrl+C.\n", to_string(pod)));
    if (open_) open_url(url);
    if (wait_for_end()) return kSucceeded;
    return error(fmt::format("kubectl port-forward to pod {} has ended", to_string(pod)));
  }

 private:
  ClusterFlags cluster_;
  ExtenderFlags extender_;
  std::int64_t port_ = 0;
  bool open_ = false;
};

}  // namespace

Run add_web(Options& options) {
  return add_command<WebVerb>(options);
}

}  // namespace mgpu::kubectl
