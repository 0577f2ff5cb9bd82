// load_kubeconfig.
#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <filesystem>
#include <optional>
#include <system_error>
#include <vector>

#include "common/base/base64.h"
#include "common/base/files.h"
#include "common/base/limits.h"
#include "common/base/text.h"
#include "common/kube/config/config.h"
#include "common/kube/limits.h"
#include "common/yaml/json.h"
#include "common/yaml/read.h"

namespace mgpu::kube {
namespace {

constexpr std::string_view kExecVersion = "client.authentication.k8s.io/v1";
constexpr std::string_view kExecBetaVersion = "client.authentication.k8s.io/v1beta1";
constexpr std::string_view kExecClusterExtension = "client.authentication.k8s.io/exec";

// Reads members of a YAML map. Absent and null members are empty; the first one of a wrong type is
// recorded in `problem`. No value is quoted, since some are secrets.
class YamlCursor {
 public:
  YamlCursor(const yaml::Value& node, std::string path, std::string& problem)
      : node_(&node), path_(std::move(path)), problem_(&problem) {}

  const std::string& path() const { return path_; }
  bool has(std::string_view name) const { return !member(name).is_null(); }

  std::string text(std::string_view name) const {
    if (has(name) && !member(name).is_text()) note(place(name) + " must be a string");
    return member(name).text;
  }

  bool truth(std::string_view name) const {
    const std::string value = has(name) ? yaml::json_of(member(name)) : "false";
    if (value != "true" && value != "false") note(place(name) + " must be true or false");
    return value == "true";
  }

  // The texts of an array of strings.
  std::vector<std::string> texts(std::string_view name) const {
    std::vector<std::string> all;
    for (const YamlCursor& item : items(name)) {
      if (!item.node_->is_text()) note(item.path_ + " must be a string");
      all.push_back(item.node_->text);
    }
    return all;
  }

  // The elements of an array.
  std::vector<YamlCursor> items(std::string_view name) const {
    std::vector<YamlCursor> all;
    if (has(name) && !member(name).is_list()) note(place(name) + " must be an array");
    if (!member(name).is_list()) return all;
    for (const yaml::Value& item : member(name).items) {
      all.emplace_back(item, fmt::format("{}[{}]", place(name), all.size()), *problem_);
    }
    return all;
  }

  // The value of a member as JSON; empty if it is absent.
  std::string json(std::string_view name) const {
    return has(name) ? yaml::json_of(member(name)) : "";
  }

  YamlCursor map(std::string_view name) const {
    if (has(name) && !member(name).is_map()) note(place(name) + " must be a map");
    return {member(name), place(name), *problem_};
  }

  // The map `member` in the entry of the list `name` whose name is `wanted`.
  std::optional<YamlCursor> entry(std::string_view name, std::string_view wanted,
                                  std::string_view member) const {
    std::optional<YamlCursor> found;
    for (const YamlCursor& at : items(name)) {
      if (at.text("name") != wanted) continue;
      if (found) note(fmt::format("{} has two entries named {}", place(name), in_quotes(wanted)));
      found.emplace(at.map(member));
    }
    return found;
  }

  void note(std::string problem) const {
    if (problem_->empty()) *problem_ = std::move(problem);
  }

 private:
  const yaml::Value& member(std::string_view name) const { return (*node_)[name]; }

  std::string place(std::string_view name) const {
    return path_.empty() ? std::string(name) : fmt::format("{}.{}", path_, name);
  }

  const yaml::Value* node_;
  std::string path_;
  std::string* problem_;
};

std::string resolved(const std::filesystem::path& kubeconfig, const std::string& path) {
  return path.empty() ? path : (kubeconfig.parent_path() / path).lexically_normal().string();
}

// `name` is a path, `name`-data is base64.
PemSource read_pem(const YamlCursor& from, const std::string& name,
                   const std::filesystem::path& kubeconfig) {
  const std::string encoded = from.text(name + "-data");
  PemSource source;
  source.file = resolved(kubeconfig, from.text(name));
  if (encoded.empty()) return source;
  if (!source.file.empty()) {
    from.note(fmt::format("{0} has both {1} and {1}-data, and must have one", from.path(), name));
  }
  const auto decoded = decode_base64(encoded);
  if (!decoded) from.note(fmt::format("{}.{}-data must be base64, and is not", from.path(), name));
  source.pem = decoded.value_or("");
  return source;
}

void read_cluster(const YamlCursor& from, const std::filesystem::path& kubeconfig, Config& config) {
  config.server = from.text("server");
  while (config.server.ends_with('/')) config.server.pop_back();
  if (!config.server.starts_with("https://") && !config.server.starts_with("http://")) {
    from.note(fmt::format("{}.server must start with https:// or http://, is {}", from.path(),
                          in_quotes(config.server)));
  }
  config.ca = read_pem(from, "certificate-authority", kubeconfig);
  config.insecure_skip_tls_verify = from.truth("insecure-skip-tls-verify");
  if (config.insecure_skip_tls_verify && !config.ca.empty()) {
    from.note(from.path() + " has both a certificate authority and insecure-skip-tls-verify");
  }
  config.tls_server_name = from.text("tls-server-name");
  config.proxy_url = from.text("proxy-url");
}

// Without these the client would act as another user than the file specifies.
void refuse_unsupported(const YamlCursor& from) {
  for (const char* name : {"auth-provider", "as", "as-uid", "as-groups", "as-user-extra"}) {
    if (!from.has(name)) continue;
    from.note(
        fmt::format("{}.{} is not supported: use exec, a token, a tokenFile, a client "
                    "certificate, or username and password",
                    from.path(), name));
  }
}

ExecConfig::Interactive read_interactive(const YamlCursor& from, const ExecConfig& exec) {
  using Interactive = ExecConfig::Interactive;
  const std::string mode = from.text("interactiveMode");
  if (mode == "Never") return Interactive::kNever;
  if (mode == "Always") return Interactive::kAlways;
  const bool optional = mode.empty() && exec.api_version != kExecVersion;
  if (mode != "IfAvailable" && !optional) {
    from.note(fmt::format("{}.interactiveMode must be Never, IfAvailable or Always, is {}",
                          from.path(), in_quotes(mode)));
  }
  return Interactive::kIfAvailable;
}

ExecConfig read_exec(const YamlCursor& from, const std::filesystem::path& kubeconfig) {
  ExecConfig exec;
  exec.api_version = from.text("apiVersion");
  if (exec.api_version != kExecVersion && exec.api_version != kExecBetaVersion) {
    from.note(fmt::format("{}.apiVersion must be {} or {}, is {}", from.path(), kExecVersion,
                          kExecBetaVersion, in_quotes(exec.api_version)));
  }
  exec.command = from.text("command");
  if (exec.command.empty()) from.note(from.path() + ".command is missing");
  // A name without a folder is found in $PATH, which must not happen to ./name.
  if (exec.command.find('/') != std::string::npos) {
    exec.command = resolved(std::filesystem::absolute(kubeconfig), exec.command);
  }
  exec.arguments = from.texts("args");
  for (const YamlCursor& variable : from.items("env")) {
    const std::string name = variable.text("name");
    if (name.empty() || name.find('=') != std::string::npos) {
      from.note(fmt::format("{}.name must be the name of a variable, is {}", variable.path(),
                            in_quotes(name)));
    }
    exec.variables.push_back(name + "=" + variable.text("value"));
  }
  exec.interactive = read_interactive(from, exec);
  exec.provide_cluster_info = from.truth("provideClusterInfo");
  exec.install_hint = from.text("installHint");
  return exec;
}

// The plugin's own configuration for this cluster.
std::string read_cluster_config(const YamlCursor& cluster) {
  for (const YamlCursor& extension : cluster.items("extensions")) {
    if (extension.text("name") == kExecClusterExtension) return extension.json("extension");
  }
  return {};
}

void refuse_beside_exec(const YamlCursor& from) {
  for (const char* name : {"token", "tokenFile", "client-certificate", "client-certificate-data",
                           "client-key", "client-key-data", "username", "password"}) {
    if (!from.has(name)) continue;
    from.note(fmt::format("{} has both exec and {}, and must have one", from.path(), name));
  }
}

void read_user(const YamlCursor& from, const std::filesystem::path& kubeconfig, Config& config) {
  refuse_unsupported(from);
  if (from.has("exec")) {
    refuse_beside_exec(from);
    config.exec = read_exec(from.map("exec"), kubeconfig);
    return;
  }
  config.client_certificate = read_pem(from, "client-certificate", kubeconfig);
  config.client_key = read_pem(from, "client-key", kubeconfig);
  if (config.client_certificate.empty() != config.client_key.empty()) {
    from.note(from.path() + " must have both a client certificate and a client key, or neither");
  }
  config.token = from.text("token");
  config.token_file = resolved(kubeconfig, from.text("tokenFile"));
  config.username = from.text("username");
  config.password = from.text("password");
  if (config.username.empty() && !config.password.empty()) {
    from.note(from.path() + " has a password without a username");
  }
  if (!config.username.empty() && !(config.token.empty() && config.token_file.empty())) {
    from.note(from.path() + " has both a token and a username, and must have one");
  }
}

// An entry, and the file that it is from, since paths in it are relative to that file.
struct Entry {
  YamlCursor at;
  std::filesystem::path file;
};

// One file, or several of which the first one that has a value decides, as for kubectl.
class Kubeconfigs {
 public:
  // A file in a list may be empty.
  Result<void> add(const std::string& text, const std::filesystem::path& path, bool in_list) {
    auto root = yaml::read_document(text);
    if (!root) return root.error();
    if (root->is_null() && in_list) return {};
    if (!root->is_map()) return error("it must be a YAML map");
    files_.push_back({YamlCursor(roots_.emplace_back(*std::move(root)), "", problem_), path});
    return {};
  }
  bool empty() const { return files_.empty(); }

  Result<Config> read(const std::string& requested) {
    Config config;
    read_context(requested.empty() ? current_context() : requested, config);
    if (!problem_.empty()) return error(std::move(problem_));
    return config;
  }

 private:
  std::string current_context() const {
    for (const Entry& file : files_) {
      if (std::string name = file.at.text("current-context"); !name.empty()) return name;
    }
    return {};
  }

  std::optional<Entry> entry(const std::string& list, const std::string& name,
                             const std::string& member) const {
    for (const Entry& file : files_) {
      if (auto found = file.at.entry(list, name, member)) return Entry{*found, file.file};
    }
    files_.front().at.note(fmt::format("{} has no entry named {}", list, in_quotes(name)));
    return std::nullopt;
  }

  void read_context(const std::string& context, Config& config) const {
    if (context.empty()) {
      return files_.front().at.note("current-context is not set, and no context was given");
    }
    const auto at = entry("contexts", context, "context");
    if (!at) return;
    config.name_space = at->at.text("namespace");
    const auto cluster = entry("clusters", at->at.text("cluster"), "cluster");
    if (!cluster) return;
    read_cluster(cluster->at, cluster->file, config);
    const std::string user_name = at->at.text("user");
    if (user_name.empty()) return;
    const auto user = entry("users", user_name, "user");
    if (!user) return;
    read_user(user->at, user->file, config);
    if (config.exec) config.exec->cluster_config = read_cluster_config(cluster->at);
  }

  std::string problem_;  // before the files, which refer to both
  std::deque<yaml::Value> roots_;
  std::vector<Entry> files_;
};

Result<void> add_file(const std::string& path, bool in_list, Kubeconfigs& files) {
  const auto text = read_file(path, kCredentialFileBytesMax);
  if (!text) return error("kubeconfig: " + text.error().message);
  if (auto added = files.add(*text, path, in_list); !added) {
    return error(fmt::format("kubeconfig {}: {}", in_quotes(path), added.error().message));
  }
  return {};
}

Result<Config> read_from(Kubeconfigs& files, const std::string& name,
                         const std::string& context) try {
  auto config = files.read(context);
  if (config) return config;
  return error(fmt::format("kubeconfig {}: {}", in_quotes(name), config.error().message));
} catch (const std::exception& failure) {
  return error(
      fmt::format("kubeconfig {}: not YAML: {}", in_quotes(name), in_quotes(failure.what())));
}

}  // namespace

Result<Config> load_kubeconfig(const std::string& path, const std::string& context) {
  Kubeconfigs files;
  if (auto added = add_file(path, false, files); !added) return added.error();
  return read_from(files, path, context);
}

Result<Config> load_kubeconfigs(const std::string& list, const std::string& context) {
  Kubeconfigs files;
  std::size_t count = 0;
  for (std::size_t begin = 0; begin <= list.size();) {
    const std::size_t end = std::min(list.find(':', begin), list.size());
    const std::string path = list.substr(begin, end - begin);
    begin = end + 1;
    std::error_code failed;
    if (path.empty() || !std::filesystem::exists(path, failed)) continue;
    if (++count > kKubeconfigFilesMax) {
      return error(fmt::format("KUBECONFIG must name at most {} files, is {}", kKubeconfigFilesMax,
                               in_quotes(list)));
    }
    if (auto added = add_file(path, true, files); !added) return added.error();
  }
  if (files.empty())
    return error("KUBECONFIG must name a file that exists and is not empty, is " + in_quotes(list));
  return read_from(files, list, context);
}

}  // namespace mgpu::kube
