#include "common/kube/json_plain.h"

#include <simdjson.h>

#include <string>
#include <utility>

#include "common/limits.h"

namespace mgpu::kube {
namespace {

namespace dom = simdjson::dom;
using Kind = JsonNode::Kind;
using Type = dom::element_type;

// Parsers keep their buffers, some six times the text: one for each thread, unless a text was
// unusually large.
class ThreadParser {
 public:
  ~ThreadParser() {
    if (parser().capacity() > limits::kJsonParserKeptBytes) parser() = dom::parser();
  }
  dom::parser& parser() {
    static thread_local dom::parser parser;
    return parser;
  }
};

// What is nested as deep as this is left to the parser that can tell of it. Small enough that
// neither the text's own nesting nor simdjson's count of it reaches limits::kJsonDepthMax.
constexpr std::size_t kDepthMax = limits::kJsonDepthMax / 2;

class Reader {
 public:
  explicit Reader(JsonFilter wanted) : wanted_(wanted) {}

  // False: a number that is no integer. `depth`: of what the element stands in.
  bool read(const dom::element& from, std::size_t depth, JsonNode& to) const {
    switch (from.type()) {
      case Type::OBJECT:
        return read_object(from, depth + 1, to);
      case Type::ARRAY:
        return read_array(from, depth + 1, to);
      case Type::STRING:
        to.kind = Kind::kString;
        to.text = std::string_view(from);
        return true;
      case Type::BOOL:
        to.kind = Kind::kBoolean;
        to.truth = bool(from);
        return true;
      case Type::NULL_VALUE:
        to.kind = Kind::kNull;
        return true;
      case Type::INT64:
        to.kind = Kind::kNumber;
        to.integer = std::int64_t(from);
        to.text = std::to_string(*to.integer);
        return true;
      default:
        return false;
    }
  }

 private:
  bool read_object(const dom::element& from, std::size_t depth, JsonNode& to) const {
    to.kind = Kind::kObject;
    for (const auto& [name, value] : dom::object(from)) {
      if (!wanted_(depth, name)) continue;
      JsonNode& child = to.children.emplace_back();
      child.name = name;
      if (!read(value, depth, child)) return false;
    }
    return true;
  }

  bool read_array(const dom::element& from, std::size_t depth, JsonNode& to) const {
    to.kind = Kind::kArray;
    for (const dom::element& value : dom::array(from))
      if (!read(value, depth, to.children.emplace_back())) return false;
    return true;
  }

  JsonFilter wanted_;
};

}  // namespace

std::optional<JsonNode> parse_plain_json(std::string_view json, JsonFilter wanted) {
  ThreadParser thread;
  dom::parser& parser = thread.parser();
  if (parser.capacity() < json.size() || parser.max_depth() != kDepthMax) {
    if (parser.allocate(json.size(), kDepthMax)) return std::nullopt;
  }
  dom::element root;
  if (parser.parse(json.data(), json.size()).get(root)) return std::nullopt;
  JsonNode node;
  if (!Reader(wanted).read(root, 0, node)) return std::nullopt;
  return node;
}

}  // namespace mgpu::kube
