// kubectl mgpu explain
#include <fmt/format.h>

#include "common/base/query_text.h"
#include "common/base/text.h"
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
    const std::string path =
        fmt::format("/inspect/explain?namespace={}&name={}&limit=1000&after={}",
                    query_text(pod.name_space), query_text(pod.name), query_text(after));
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

// The message of kube-scheduler about a pod that waits; empty if the user may not get the pod.
std::string scheduler_message(Api& api, const PodRef& pod) {
  const auto body = api.get(kube::get_pod(pod).target, "get the pod");
  if (!body.known()) return {};
  const auto read = read_gpu_pod(body.value());
  return read ? read->unscheduled_message : "";
}

class ExplainVerb {
 public:
  void add_flags(Options& options) {
    options.add_words("POD", names_, 1, 1);
    add_namespace_flag(options, name_space_);
    add_output_flag(options, output_, {"table", "wide", "json", "yaml"});
    add_cluster_flags(options, access_);
    add_extender_flags(options, extender_);
    options.check([this] { return check_name("POD", names_.front()); });
  }
  Result<int> run(Console& console) {
    const auto cluster = Cluster::connect(access_);
    if (!cluster) return cluster.error();
    const auto extender = Extender::connect(**cluster, extender_);
    if (!extender) return extender.error();
    const PodRef pod{namespace_of(name_space_, (*cluster)->config()), names_.front()};
    auto explained = whole_explanation(**extender, pod);
    if (!explained) return explained.error();
    if (explained->contains("node")) {
      const auto held =
          (*extender)->get(fmt::format("/inspect/pod?namespace={}&name={}",
                                       query_text(pod.name_space), query_text(pod.name)),
                           "read the cards of pod " + to_string(pod));
      if (held) (*explained)["holds"] = *held;
    } else {
      const std::string message = scheduler_message((*cluster)->api(), pod);
      if (!message.empty()) (*explained)["schedulerMessage"] = message;
    }
    if (output_ == "json" || output_ == "yaml") {
      console.print(output_ == "json" ? json_text(*explained) : yaml_text(*explained));
      return kFine;
    }
    const auto text = explain_text(*explained, output_ == "wide", console.colors);
    if (!text) return text.error();
    console.print(*text);
    return kFine;
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
