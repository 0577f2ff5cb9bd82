// The bearer token. kubelet replaces the one in the file before it expires. Not thread-safe.
#pragma once

#include <string>

#include "common/base/executor.h"
#include "common/base/result.h"
#include "common/kube/config/config.h"
#include "common/kube/limits.h"

namespace mgpu::kube {

// Whether it can be sent in a header: a line end would begin another one. True for the empty text.
bool is_bearer_token(const std::string& text);

class TokenSource {
 public:
  // Errors: the file cannot be read, or holds no token.
  static Result<TokenSource> create(const Config& config, Instant now);

  // Empty: there is none. The file is read again when the token is older than kTokenRereadInterval;
  // if that fails, the last token is kept.
  const std::string& token(Instant now);
  // Reads the file again after the server refused the token `refused`. True: there is another one.
  bool replaced(const std::string& refused, Instant now);

 private:
  Result<void> read(Instant now);

  std::string file_;
  std::string token_;
  Instant read_at_{};
};

}  // namespace mgpu::kube
