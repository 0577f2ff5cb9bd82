// kubectl mgpu convert
#include <fmt/format.h>

#include "common/base/text.h"
#include "common/kube/objects/manifest.h"
#include "extender/kubectl/convert/manifests.h"
#include "extender/kubectl/gpu_pods.h"
#include "extender/kubectl/limits.h"
#include "extender/kubectl/output.h"
#include "extender/kubectl/verb.h"

namespace mgpu::kubectl {
namespace {

class ConvertVerb {
 public:
  void add_flags(Options& options) {
    options.add_text("f,filename", "File with manifests, YAML or JSON; - is standard input.",
                     file_);
    add_domain_flag(options, domain_);
    options.add_text("scheduler-name",
                     "spec.schedulerName of pods that have that of Kubernetes or of HAMi.",
                     settings_.scheduler);
    options.add_number("hami-core",
                       "Percent of each card for a container that requests nvidia.com/gpumem "
                       "without nvidia.com/gpucores; 0 refuses its pod.",
                       settings_.hami_core, 0, 100);
    options.add_number("hami-card-memory-mib",
                       "Memory of a card in MiB, for nvidia.com/gpumem-percentage; 0 refuses pods "
                       "that request a part of it.",
                       settings_.hami_card_memory_mib, 0, kCardMemoryMiBMax);
    options.add_number("aliyun-core",
                       "Percent of each card for a container that requests aliyun.com/gpu-mem "
                       "without aliyun.com/gpu-core.percentage; 0 refuses its pod.",
                       settings_.aliyun_core, 0, 100);
    options.add_choice("aliyun-memory-unit", "Unit of aliyun.com/gpu-mem.", unit_, {"GiB", "MiB"});
    options.check([this]() -> Result<void> {
      if (!file_.empty()) return {};
      return error("--filename is empty; expected a file, or - for standard input");
    });
  }

  Result<int> run(Console& console) {
    settings_.contract = *Contract::for_domain(domain_);
    settings_.aliyun_unit_mib = unit_ == "GiB" ? 1024 : 1;
    const auto text = kube::read_manifest_file(file_);
    if (!text) return text.error();
    const auto converted = convert::convert_manifests(*text, settings_);
    if (!converted) return error(in_quotes(file_) + ": " + converted.error().message);
    for (const std::string& refusal : converted->refusals) fail(console, refusal);
    if (!converted->refusals.empty()) return kFoundOrFailed;
    for (const std::string& change : converted->changes) {
      console.print_error("# " + sanitize_for_terminal(change, kShownSentenceMax) + "\n");
    }
    if (converted->changes.empty()) {
      console.print_error("# no pod has requests that are converted\n");
    }
    console.print(converted->text);
    return kFine;
  }

 private:
  convert::Settings settings_;
  std::string file_;
  std::string domain_ = std::string(kDefaultResourceDomain);
  std::string unit_ = "GiB";
};

}  // namespace

Run add_convert(Options& options) {
  return add_command<ConvertVerb>(options);
}

}  // namespace mgpu::kubectl
