// kubectl mgpu convert
#include <fmt/format.h>

#include <algorithm>
#include <iterator>

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
    options.add_texts("f,filename", "File with manifests, YAML or JSON; - is standard input.",
                      files_);
    add_domain_flag(options, domain_);
    options.add_text("scheduler-name",
                     "spec.schedulerName of pods that have that of Kubernetes or of HAMi.",
                     conversion_.scheduler);
    options.add_number("hami-core",
                       "Percent of each card for a container that requests nvidia.com/gpumem "
                       "without nvidia.com/gpucores; 0 refuses its pod.",
                       conversion_.hami_core, 0, 100);
    options.add_number("hami-card-memory-mib",
                       "Memory of a card in MiB, for nvidia.com/gpumem-percentage; 0 refuses pods "
                       "that request a part of it.",
                       conversion_.hami_card_memory_mib, 0, kCardMemoryMiBMax);
    options.add_number("aliyun-core",
                       "Percent of each card for a container that requests aliyun.com/gpu-mem "
                       "without aliyun.com/gpu-core.percentage; 0 refuses its pod.",
                       conversion_.aliyun_core, 0, 100);
    options.add_choice("aliyun-memory-unit", "Unit of aliyun.com/gpu-mem.", unit_, {"GiB", "MiB"});
    options.check([this]() -> Result<void> {
      const bool named = std::ranges::find(files_, "") == files_.end();
      if (!files_.empty() && named) return {};
      return error("--filename is empty; expected a file, or - for standard input");
    });
  }

  Result<int> run(Console& console) {
    conversion_.contract = *Contract::for_domain(domain_);
    conversion_.aliyun_unit_mib = unit_ == "GiB" ? 1024 : 1;
    convert::Converted all;
    for (const std::string& file : files_) {
      const auto text = kube::read_manifest_file(file);
      if (!text) return text.error();
      auto converted = convert::convert_manifests(*text, conversion_);
      if (!converted) return error(in_quotes(file) + ": " + converted.error().message);
      add(*std::move(converted), all);
    }
    for (const std::string& refusal : all.refusals) fail(console, refusal);
    if (!all.refusals.empty()) return kFoundOrFailed;
    for (const std::string& change : all.changes) note(change, console);
    if (all.changes.empty()) note("no pod has requests that are converted", console);
    if (all.without_toleration > 0) {
      note(fmt::format("{} of the pods do not tolerate the taint nvidia.com/gpu, which some "
                       "platforms add only to pods that request nvidia.com/gpu",
                       all.without_toleration),
           console);
    }
    for (const std::string& left : all.left) fail(console, left);
    console.print(all.text);
    return all.left.empty() ? kSucceeded : kFoundOrFailed;
  }

 private:
  static void note(const std::string& sentence, Console& console) {
    console.print_error("# " + sanitize_for_terminal(sentence, kShownSentenceMax) + "\n");
  }

  // Adds what became of the next file.
  static void add(convert::Converted next, convert::Converted& all) {
    const bool is_separate = all.text.empty() || next.text.starts_with("---");
    if (!is_separate) all.text += all.text.ends_with('\n') ? "---\n" : "\n---\n";
    all.text += next.text;
    std::ranges::move(next.changes, std::back_inserter(all.changes));
    std::ranges::move(next.refusals, std::back_inserter(all.refusals));
    std::ranges::move(next.left, std::back_inserter(all.left));
    all.without_toleration += next.without_toleration;
  }

  convert::ConvertOptions conversion_;
  std::vector<std::string> files_;
  std::string domain_ = std::string(kDefaultResourceDomain);
  std::string unit_ = "GiB";
};

}  // namespace

Run add_convert(Options& options) {
  return add_command<ConvertVerb>(options);
}

}  // namespace mgpu::kubectl
