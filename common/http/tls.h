// The server's certificate, kept equal to its files.
//
//   Serving --files changed, usable--> Serving the new ones
//      |
//      +--files changed, not usable--> reported once; goes on with the old ones
//
// Handshakes that have begun keep the context they began with.
#pragma once

#include <array>
#include <boost/asio/ssl/context.hpp>
#include <memory>
#include <string>

#include "common/base/mutex.h"
#include "common/base/result.h"
#include "common/http/net.h"
#include "common/http/server.h"

namespace mgpu::http {

class Tls {
 public:
  // Errors: a file that cannot be read or used (named), a key of another certificate.
  static Result<std::unique_ptr<Tls>> load(TlsOptions options);

  // For one handshake. Any thread.
  std::shared_ptr<ssl::context> context() const;

  // Looks at the files; blocks for as long as reading them takes. One thread at a time.
  // Errors: they have changed and cannot be used; told once per change.
  Result<void> reload();

 private:
  using Digest = std::array<unsigned char, 32>;
  explicit Tls(TlsOptions options) : options_(std::move(options)) {}
  Result<void> build(const std::string& certificate, const std::string& key,
                     const std::string& client_ca);

  const TlsOptions options_;
  std::string last_error_;  // of reading the files
  Digest seen_{};           // of the files when they were last looked at
  mutable Mutex mutex_;
  std::shared_ptr<ssl::context> context_ MGPU_GUARDED_BY(mutex_);
};

}  // namespace mgpu::http
