// (method, path) -> handler. Unknown paths are 404, known paths with another method 405.
#pragma once

#include <map>
#include <string>

#include "common/http/message.h"

namespace mgpu::http {

class Router {
 public:
  void add(const std::string& method, const std::string& path, Handler handler);
  // Safe for concurrent use once all handlers have been added.
  void route(Request request, Respond respond) const;

 private:
  std::map<std::string, std::map<std::string, Handler>> handlers_;  // path -> method -> handler
};

}  // namespace mgpu::http
