// The bearer token, which kubelet replaces in its file before it expires. Not thread-safe.
#pragma once

#include <string>

#include "common/base/executor.h"
#include "common/base/result.h"
#include "common/kube/config.h"
#include "common/kube/limits.h"

namespace mgpu::kube {

class TokenSource {
 public:
  // Errors: the file cannot be read, or holds no token.
  static Result<TokenSource> create(const Config& config, Instant now);

  // Empty: none. From a file it is read again when it is older than kTokenRereadInterval;
  // where that fails, the last one stays.
  const std::string& token(Instant now);
  // The server refused `refused`: true when the file has another one.
  bool replaced(const std::string& refused, Instant now);

 private:
  Result<void> read(Instant now);

  std::string file_;
  std::string token_;
  Instant read_at_{};
};

}  // namespace mgpu::kube
