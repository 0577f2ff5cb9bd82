// The certificate of the server, from files or texts. Files are reloaded when they change. If the
// new files are not valid, this is reported once and the old certificate stays in use. A handshake
// uses one certificate from its start to its end.
#pragma once

#include <boost/asio/ssl/context.hpp>
#include <memory>
#include <string>

#include "common/base/mutex.h"
#include "common/base/result.h"
#include "common/http/server.h"

namespace mgpu::http {

class Tls {
 public:
  // Errors: a file that cannot be read, an invalid file, a key that does not match the certificate.
  static Result<std::unique_ptr<Tls>> load(TlsOptions options);

  // It has no context before use().
  static std::unique_ptr<Tls> from_texts(TlsOptions options);

  // For one handshake; null before the first certificate. Thread-safe.
  std::shared_ptr<boost::asio::ssl::context> context() const;

  // Reads the files, on one thread at a time. An error is returned once per change of the files.
  Result<void> reload();
  // Errors: as of load(). Thread-safe.
  Result<void> use(const TlsTexts& texts);

 private:
  explicit Tls(TlsOptions options) : options_(std::move(options)) {}

  const TlsOptions options_;
  std::string read_error_;  // of the last reload()
  std::string digest_;      // of the files at the last reload()
  mutable Mutex mutex_;
  std::shared_ptr<boost::asio::ssl::context> context_ MGPU_GUARDED_BY(mutex_);
};

}  // namespace mgpu::http
