#include "common/kube/config/token_source.h"

#include <fmt/format.h>

#include <algorithm>

#include "common/base/files.h"
#include "common/base/limits.h"
#include "common/base/text.h"
#include "common/kube/limits.h"

namespace mgpu::kube {

bool is_bearer_token(const std::string& text) {
  return std::ranges::all_of(text, [](char c) { return c > 0x20 && c < 0x7f; });
}

Result<TokenSource> TokenSource::create(const Config& config, Instant now) {
  TokenSource source;
  source.file_ = config.token_file;
  source.token_ = trimmed(config.token);
  if (!is_bearer_token(source.token_)) {
    return error("the token must be one line of printable ASCII without blanks, and is not");
  }
  if (source.file_.empty()) return source;
  const auto read = source.read(now);
  if (!read) return read.error();
  return source;
}

const std::string& TokenSource::token(Instant now) {
  if (!file_.empty() && now - read_at_ >= kTokenRereadInterval) (void)read(now);
  return token_;
}

bool TokenSource::replaced(const std::string& refused, Instant now) {
  if (!file_.empty()) (void)read(now);
  return token_ != refused;
}

Result<void> TokenSource::read(Instant now) {
  // Also if it fails, so that a file that is missing is not read for each request.
  read_at_ = now;
  const auto text = read_file(file_, kCredentialFileBytesMax);
  if (!text) return error("token: " + text.error().message);
  std::string token(trimmed(*text));
  if (token.empty() || !is_bearer_token(token)) {
    return error(fmt::format("token file {} must hold one line of printable ASCII, and does not",
                             in_quotes(file_)));
  }
  token_ = std::move(token);
  return {};
}

}  // namespace mgpu::kube
