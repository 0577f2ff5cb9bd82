// `kubectl mgpu` as users call it, and servers that answer by a script in place of the API server
// and the extender.
#pragma once

#include <algorithm>
#include <array>
#include <ctime>
#include <fstream>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "extender/kubectl/verb.h"
#include "test/support/scratch_folder.h"
#include "test/support/scripted_server.h"

namespace mgpu::test {

struct Ran {
  int code = 0;
  std::string out;
  std::string err;
};

inline Ran run(std::vector<std::string> words) {
  words.insert(words.begin(), "kubectl-mgpu");
  std::vector<const char*> arguments;
  for (const std::string& word : words) arguments.push_back(word.c_str());
  Ran ran;
  kubectl::Console console{.print = [&](std::string_view text) { ran.out += text; },
                           .print_error = [&](std::string_view text) { ran.err += text; }};
  ran.code =
      kubectl::run_kubectl_mgpu(static_cast<int>(arguments.size()), arguments.data(), console);
  return ran;
}

// Answers GET and POST by the begin of the target; the longest one counts.
class Answers {
 public:
  struct Answer {
    int status = 200;
    std::string body;
  };

  void set(const std::string& target, std::string body, int status = 200) {
    const std::lock_guard lock(mutex_);
    answers_[target] = {status, std::move(body)};
  }
  // Answers what has no answer of its own.
  std::function<Answer(const std::string& request, const std::string& target)> otherwise;

  void clear() {
    const std::lock_guard lock(mutex_);
    answers_.clear();
  }
  // The token that a client must have; empty: none.
  void require_token(const std::string& token) { token_ = token; }
  // The tenant that a client must name, as at Mimir.
  void require_tenant(const std::string& tenant) { tenant_ = tenant; }
  std::vector<std::string> requests() {
    const std::lock_guard lock(mutex_);
    return requests_;
  }

  // The bodies of PATCH requests.
  std::vector<std::string> patches() {
    const std::lock_guard lock(mutex_);
    return patches_;
  }
  // The next PATCH is answered so.
  void refuse_patch(int status) {
    const std::lock_guard lock(mutex_);
    patch_status_ = status;
  }

  void serve(Peer& peer) {
    for (std::string request = peer.read_request(); !request.empty();
         request = peer.read_request()) {
      const std::size_t begin = request.find(' ') + 1;
      const std::string target = request.substr(begin, request.find(' ', begin) - begin);
      peer.send(answer(request, target));
    }
  }

 private:
  std::string answer(const std::string& request, const std::string& target) {
    const std::lock_guard lock(mutex_);
    requests_.push_back(target);
    if (request.starts_with("PATCH ") && !otherwise) {
      patches_.push_back(request.substr(request.find("\r\n\r\n") + 4));
      if (patch_status_ != 200) return answer_text(std::exchange(patch_status_, 200), "{}");
    }
    const bool probe = target == "/readyz";
    if (!token_.empty() && !probe && header_of(request, "Authorization") != "Bearer " + token_) {
      return answer_text(401, "{}");
    }
    if (header_of(request, "X-Scope-OrgID") != tenant_) return answer_text(401, "no org id\n");
    Answer found{404, R"({"kind": "Status", "code": 404, "message": "not found"})"};
    bool is_found = false;
    for (const auto& [begin, one] : answers_) {
      if (!target.starts_with(begin)) continue;
      found = one;  // longer ones come later
      is_found = true;
    }
    if (!is_found && otherwise) found = otherwise(request, target);
    const std::string date = "Date: " + http_date() + "\r\n";
    return answer_text(found.status, found.body, date);
  }

  static std::string http_date() {
    std::array<char, 64> text{};
    const std::time_t at = std::time(nullptr);
    std::tm utc{};
    ::gmtime_r(&at, &utc);
    std::strftime(text.data(), text.size(), "%a, %d %b %Y %H:%M:%S GMT", &utc);
    return text.data();
  }

  std::mutex mutex_;
  std::map<std::string, Answer> answers_;
  std::vector<std::string> requests_;
  std::vector<std::string> patches_;
  int patch_status_ = 200;
  std::string token_;
  std::string tenant_;
};

inline std::string list_of(const std::string& items) {
  return R"({"metadata": {"resourceVersion": "1"}, "items": [)" + items + "]}";
}

// An API server and an extender without any answers, and a kubeconfig for them.
class ScriptedCluster {
 public:
  ScriptedCluster() { write_config(""); }

  // `more` is put into the context, such as ", namespace: research".
  void write_config(const std::string& more) {
    std::ofstream(folder.path("config"))
        << "{current-context: c, contexts: [{name: c, context: {cluster: k, user: u" << more
        << "}}], clusters: [{name: k, cluster: {server: 'http://127.0.0.1:" << api_server.port()
        << "'}}], users: [{name: u, user: {token: secret}}]}";
  }
  std::string url() const { return "http://127.0.0.1:" + std::to_string(extender_server.port()); }
  // Runs a command with the kubeconfig, and with the extender at its URL.
  Ran at_url(std::vector<std::string> words) const {
    words.insert(words.end(), {"--url", url()});
    return with_config(std::move(words));
  }
  Ran with_config(std::vector<std::string> words) const {
    words.insert(words.end(), {"--kubeconfig", folder.path("config")});
    return run(std::move(words));
  }

  ScratchFolder folder;
  Answers api;
  Answers extender;
  const ScriptedServer api_server{[this](Peer& peer) { api.serve(peer); }};
  const ScriptedServer extender_server{[this](Peer& peer) { extender.serve(peer); }};
};

}  // namespace mgpu::test
