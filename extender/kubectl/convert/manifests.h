// Manifests whose pods are rewritten. Pure.
#pragma once

#include <string>
#include <vector>

#include "common/base/result.h"
#include "extender/kubectl/convert/pod.h"

namespace mgpu::kubectl::convert {

struct Converted {
  std::string text;                   // the input, byte for byte, if there are no changes
  std::vector<std::string> changes;   // each names the object
  std::vector<std::string> refusals;  // if there are any, nothing was changed
  std::vector<std::string> left;      // what was not converted, and may have to be
  std::size_t without_toleration =
      0;  // pods that are converted, and do not tolerate nvidia.com/gpu
};

// Rewrites the pods of all objects. Objects of kinds whose pods are not read are refused if they
// have a resource of another vocabulary. Errors: those of kube::read_manifest() and
// yaml::write_documents().
Result<Converted> convert_manifests(const std::string& text, const ConvertOptions& options);

}  // namespace mgpu::kubectl::convert
