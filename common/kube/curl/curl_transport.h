// Transport over HTTP(S) with libcurl: its multi interface, driven by one AsioExecutor thread. The
// files curl_*.cc here are the only home of libcurl.
//
//   send ---> waiting ---> in flight ---> done
//                             ^   |
//                             +---+ 401, and the token file has another token: once more;
//                                   401, and there is a client certificate: once more, on a new
//                                   connection
//
// At most kApiConnectionsMax requests are in flight, watches not counted. Redirects are not
// followed. A request on a kept connection that the server closed before any byte of an answer is
// sent again by libcurl.
#pragma once

#include <memory>

#include "common/base/asio_executor.h"
#include "common/kube/config/config.h"
#include "common/kube/limits.h"
#include "common/kube/transport.h"

namespace mgpu::kube {

class CurlTransport final : public Transport {
 public:
  // Errors: a certificate, key or token file that cannot be read or parsed (named).
  // `executor` outlives the transport.
  static Result<std::unique_ptr<CurlTransport>> create(Config config, AsioExecutor& executor);
  // REQUIRES: on the executor's thread, or after executor.stop().
  ~CurlTransport() override;

  void send(Request request, std::function<void(Response)> done) override;
  std::unique_ptr<Stream> stream(Request request, StreamEvents events) override;
  Executor& executor() override;

 private:
  struct State;
  explicit CurlTransport(std::shared_ptr<State> state);
  std::shared_ptr<State> state_;
};

}  // namespace mgpu::kube
