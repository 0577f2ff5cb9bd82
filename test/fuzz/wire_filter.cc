// Feeds the arguments of filter and prioritize to their reader.
//
// Properties: an error names a member of the request; replies are JSON and have the names that were
// read, in their order, also those that need escapes.
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "extender/wire/wire.h"
#include "test/fuzz/fuzz.h"

namespace mgpu::fuzz {
namespace {

using extender::ExtenderArgs;
using nlohmann::json;

void expect_wire_error(const std::string& message) {
  expect_sentence(message);
  bool named = false;
  for (const char* name : {"request", "Pod", "NodeNames", "Nodes", "victims of node ", "Node"}) {
    named = named || message.starts_with(name);
  }
  expect(named, "an error names a member of the request: " + message);
}

json parsed_reply(const std::string& reply) {
  json read = json::parse(reply, nullptr, false);
  expect(!read.is_discarded(), "a reply is JSON: " + reply);
  return read;
}

void expect_names(const json& listed, const ExtenderArgs& args) {
  const auto names = args.node_names();
  expect(listed.size() == names.size(), "a reply has each name");
  for (std::size_t i = 0; i < names.size(); ++i) {
    expect(listed[i] == json(names[i]), "a name is written as it was read");
  }
}

void expect_filter_replies(const ExtenderArgs& args) {
  extender::FilterReply fitting;
  extender::FilterReply failed;
  const std::string sentence = "no \"card\"\n";
  fitting.fitting.assign(args.node_names().begin(), args.node_names().end());
  for (const std::string_view node : args.node_names()) failed.failed.push_back({node, sentence});
  const json all = parsed_reply(extender::write_filter_reply(fitting, args));
  expect_names(all["NodeNames"], args);
  const json none = parsed_reply(extender::write_filter_reply(failed, args));
  for (const std::string_view node : args.node_names()) {
    const bool nominated = !node.empty() && node == args.pod().nominated_node;
    const json& list = none[nominated ? "FailedNodes" : "FailedAndUnresolvableNodes"];
    expect(list.at(std::string(node)) == sentence, "a node that does not fit has its reason");
  }
}

void expect_prioritize_reply(const ExtenderArgs& args) {
  std::vector<extender::HostScore> scores;
  for (const std::string_view node : args.node_names()) scores.push_back({node, 7});
  const json reply = parsed_reply(extender::write_prioritize_reply(scores, args));
  json hosts = json::array();
  for (const json& score : reply) hosts.push_back(score["Host"]);
  expect_names(hosts, args);
}

}  // namespace

MGPU_FUZZER(wire_filter) {
  const auto args = ExtenderArgs::parse(std::string(input));
  if (!args) return expect_wire_error(args.error().message);
  expect_filter_replies(*args);
  expect_prioritize_reply(*args);
}

}  // namespace mgpu::fuzz
