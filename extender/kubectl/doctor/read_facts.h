// Reads the facts from JSON. Absent members are empty. Pure.
#pragma once

#include <string>
#include <string_view>

#include "common/base/result.h"
#include "extender/kubectl/cluster.h"
#include "extender/kubectl/doctor/facts.h"

namespace mgpu::kubectl {

// Errors of all: the text is not JSON; a member has a wrong type.
Result<ServerVersion> read_server_version(std::string_view json);

// The value in `body`, if there is one. `what` begins the sentence of a text that cannot be read.
template <class T>
Fact<T> read_fact(const Fact<std::string>& body, const std::string& what,
                  Result<T> (*read)(std::string_view json)) {
  if (!body.known()) return body.as<T>();
  auto value = read(body.value());
  if (value) return *std::move(value);
  return {Missing::kFailed, what + ": " + value.error().message};
}

}  // namespace mgpu::kubectl
