// Small files from outside: certificates, keys, tokens, kubeconfigs. Any thread.
#pragma once

#include <string>

#include "common/result.h"

namespace mgpu::kube {

// All of the file. Errors: cannot be read, is no ordinary file (a pipe would block), larger than
// limits::kCredentialFileBytesMax.
Result<std::string> read_bounded_file(const std::string& path);

}  // namespace mgpu::kube
