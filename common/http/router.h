// Maps a method and a path to a handler. An unknown path results in 404, and an unknown method of a
// known path in 405. HEAD is handled by GET, and the session omits the body.
#pragma once

#include <map>
#include <string>

#include "common/http/message.h"

namespace mgpu::http {

class Router {
 public:
  void add(const std::string& method, const std::string& path, Handler handler);
  // Thread-safe after all handlers have been added.
  void route(Request request, Respond respond) const;

 private:
  std::map<std::string, std::map<std::string, Handler>> handlers_;  // path -> method -> handler
};

}  // namespace mgpu::http
