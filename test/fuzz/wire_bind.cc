// Feeds the arguments of bind to their reader.
//
// Properties: an error names a member of the request; no argument is empty; arguments that are
// written as JSON again are read as equal.
#include <nlohmann/json.hpp>
#include <string>

#include "extender/wire/wire.h"
#include "test/fuzz/fuzz.h"

namespace mgpu::fuzz {
namespace {

void expect_binding_error(const std::string& message) {
  expect_sentence(message);
  expect(
      message.starts_with("request ") || message.starts_with("Pod") || message.starts_with("Node"),
      "an error names a member of the request: " + message);
}

}  // namespace

MGPU_FUZZER(wire_bind) {
  const auto args = extender::read_binding_args(input);
  if (!args) return expect_binding_error(args.error().message);
  expect(!args->pod.name.empty() && !args->pod.name_space.empty() && !args->uid.empty() &&
             !args->node.empty(),
         "no argument of a binding is empty");
  const nlohmann::json again = {{"PodName", args->pod.name},
                                {"podNamespace", args->pod.name_space},
                                {"PODUID", args->uid.str()},
                                {"Node", args->node.str()}};
  const auto read = extender::read_binding_args(again.dump());
  expect(read && read->pod == args->pod && read->uid == args->uid && read->node == args->node,
         "arguments that are written again are read as equal");
}

}  // namespace mgpu::fuzz
