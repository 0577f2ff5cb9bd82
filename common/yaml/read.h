// The one reader of YAML, and so of JSON: kubeconfigs, manifests, files of cards and profiles, CDI
// specs and configurations of kube-scheduler. Pure.
#pragma once

#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "common/yaml/value.h"

namespace mgpu::yaml {

// The documents of a text; one without content is null. A merge key (<<) sets the members of its
// map, or of the maps of its list, of which the first one has precedence; of a merge key and a
// member, the later one decides, as for kubectl. Errors, as the end of a sentence: not YAML, a key
// twice in a map, a key that is no text, a tag other than !!str, !!seq and !!map, an alias within
// what it stands for, a merge key with something else than maps, and what is over the limits.
Result<std::vector<Value>> read_documents(std::string_view text);

// The only document that has content, or null for none. Errors: several.
Result<Value> read_document(std::string_view text);

}  // namespace mgpu::yaml
