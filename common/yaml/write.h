// YAML that is written again. Pure.
#pragma once

#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/yaml/value.h"

namespace mgpu::yaml {

// The documents that are not null, with the quotes and brackets of their values, but without
// comments and aliases. All keys of a document are in quotes if its first one is, as in JSON.
// Errors: the text would not be read as the same documents.
Result<std::string> write_documents(const std::vector<Value>& documents);

}  // namespace mgpu::yaml
