// Feeds the arguments of preempt to their reader.
//
// Properties: an error names a member of the request; nodes are ascending, none twice; the nodes of
// the reply, which has the form of a request, are read as equal.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "extender/wire/wire.h"
#include "test/fuzz/fuzz.h"

namespace mgpu::fuzz {
namespace {

bool equal_victims(const extender::NodeVictims& a, const extender::NodeVictims& b) {
  return a.node == b.node && a.victims == b.victims && a.pdb_violations == b.pdb_violations;
}

void expect_ascending(const std::vector<extender::NodeVictims>& nodes) {
  for (std::size_t i = 1; i < nodes.size(); ++i) {
    expect(nodes[i - 1].node < nodes[i].node, "nodes are ascending, none twice");
  }
}

}  // namespace

MGPU_FUZZER(wire_preempt) {
  const auto args = extender::read_preemption_args(input);
  if (!args) {
    expect_sentence(args.error().message);
    const bool named = args.error().message.find_first_of("PNrv") == 0;
    return expect(named, "an error names a member of the request: " + args.error().message);
  }
  expect_ascending(args->nodes);
  const std::string reply = extender::write_preemption_reply(args->nodes);
  auto request = nlohmann::json::parse(reply, nullptr, false);
  expect(request.is_object(), "a reply is a JSON object: " + reply);
  request["Pod"] = nlohmann::json::object();
  const auto read = extender::read_preemption_args(request.dump());
  expect(read.has_value(), "a reply is read as a request");
  expect(std::ranges::equal(read->nodes, args->nodes, equal_victims),
         "victims that are written are read as equal");
}

}  // namespace mgpu::fuzz
