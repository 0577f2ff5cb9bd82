// kubectl mgpu explain
#include <fmt/format.h>

#include "common/base/text.h"
#include "common/kube/request.h"
#include "extender/kubectl/doctor/read_facts.h"
#include "extender/kubectl/explain_text.h"
#include "extender/kubectl/limits.h"
#include "extender/kubectl/verb.h"

namespace mgpu::kubectl {
namespace {

// The explanation with the nodes of all pages.
Result<Json> whole_explanation(Extender& extender, const PodRef& pod) {
  Json all;
  std::string after;
  for (std::size_t page = 0; page < kPagesMax; ++page) {
    const std::string path = fmt::format(
        "/inspect/explain?namespace={}&name={}&limit=1000&after={}",
        kube::query_text(pod.name_space), kube::query_text(pod.name), kube::query_text(after));
    auto json = extender.get(path, "explain pod " + to_string(pod));
    if (!json) return json.error();
    if (all.is_null()) {
      all = *json;
    } else if (json->contains("nodes") && (*json)["nodes"].is_array()) {
      for (Json& node : (*json)["nodes"]) all["nodes"].push_back(std::move(node));
    }
    const auto next = json->find("next");
    if (next == json->end() || !next->is_string() || *next == after) break;
    after = next->get<std::string>();
  }
  all.erase("next");
  return all;
}

// Adds what only the API server says of the pod, if the user may get it.
void add_pod(Api& api, const PodRef& pod, Json& explained) {
  const auto body = api.get(kube::get_pod(pod).target, "get the pod");
  if (!body.known()) return;
  const auto read = read_gpu_pod(body.value());
  if (!read) return;
  if (!read->gates.empty()) explained["gates"] = read->gates;
  if (!read->unscheduled_message.empty()) {
    explained["schedulerMessage"] = read->unscheduled_message;
  }
}

// What a user may read who may not reach the extender: the message of kube-scheduler, and mgpu's
// Events of the pod.
Result<Json> without_extender(Api& api, const PodRef& pod) {
  const auto body = api.get(kube::get_pod(pod).target, "get pod " + to_string(pod));
  if (!body.known()) return error(body.problem());
  const auto read = read_gpu_pod(body.value());
  if (!read) return read.error();
  Json said = {{"namespace", pod.name_space}, {"name", pod.name}};
  if (!read->pod.node_name.empty()) said["node"] = read->pod.node_name;
  if (!read->unscheduled_message.empty()) said["schedulerMessage"] = read->unscheduled_message;
  said["events"] = Json::array();
  const std::string events = fmt::format("/api/v1/namespaces/{}/events", pod.name_space);
  const auto add = [&said](const std::string& text) {
    const auto event = Json::parse(text, nullptr, false);
    const std::string reason = event.is_object() ? event.value("reason", "") : "";
    if (!reason.starts_with("MGPU")) return;
    said["events"].push_back({{"reason", reason}, {"message", event.value("message", "")}});
  };
  api.list({events, "involvedObject.name=" + pod.name}, "list the Events of the pod", add);
  return said;
}

// "research/notebook", as the demo and other programs write it, is notebook in research, unless
// --namespace says otherwise.
void take_namespace(std::string& name, std::string& name_space) {
  const std::size_t slash = name.find('/');
  if (slash == name.npos) return;
  const std::string before = name.substr(0, slash);
  if (!check_name("POD", before) || (!name_space.empty() && name_space != before)) return;
  name_space = before;
  name.erase(0, slash + 1);
}

class ExplainVerb {
 public:
  void add_flags(Options& options) {
    options.add_words("POD", names_, 1, 1);
    add_namespace_flag(options, name_space_);
    add_output_flag(options, output_, {"table", "wide", "json", "yaml"});
    add_cluster_flags(options, access_);
    add_extender_flags(options, extender_);
    options.check([this] {
      remove_kind("pod", names_);
      take_namespace(names_.front(), name_space_);
      return check_name("POD", names_.front());
    });
  }
  Result<int> run(Console& console) {
    const auto cluster = Cluster::connect(access_, extender_.url);
    if (!cluster) return cluster.error();
    const PodRef pod{namespace_of(name_space_, (*cluster)->config()), names_.front()};
    const auto extender = Extender::connect(**cluster, extender_);
    if (!extender && is_forbidden(extender.error())) {
      const auto said = without_extender((*cluster)->api(), pod);
      if (!said && !is_forbidden(said.error())) return said.error();
      if (said) print_as(output_, *said, said_text(*said), console);
      return error(
          fmt::format("{}; meanwhile, kubectl describe pod {} --namespace {} has all Events",
                      extender.error().message, pod.name, pod.name_space));
    }
    if (!extender) return extender.error();
    auto explained = whole_explanation(**extender, pod);
    if (!explained) return explained.error();
    if (explained->contains("node")) {
      const auto held = (*extender)->get(
          fmt::format("/inspect/pod?namespace={}&name={}", kube::query_text(pod.name_space),
                      kube::query_text(pod.name)),
          "read the cards of pod " + to_string(pod));
      if (held) (*explained)["holds"] = *held;
    } else {
      add_pod((*cluster)->api(), pod, *explained);
    }
    const auto text = explain_text(*explained, output_ == "wide", console.colors);
    if (!text) return text.error();
    print_as(output_, *explained, *text, console);
    return kSucceeded;
  }

 private:
  ClusterFlags access_;
  ExtenderFlags extender_;
  std::vector<std::string> names_;
  std::string name_space_;
  std::string output_;
};

}  // namespace

Run add_explain(Options& options) {
  return add_command<ExplainVerb>(options);
}

}  // namespace mgpu::kubectl
