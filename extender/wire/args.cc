#include <deque>
#include <optional>

#include "common/kube/limits.h"
#include "common/kube/object_json.h"
#include "extender/wire/json.h"
#include "extender/wire/wire.h"

// filter and prioritize are asked for every pod with every node's name: the message is walked once,
// on demand, and names are left where they stand. What such a walk skips it does not check, so a
// message with members or nodes that were skipped is checked whole afterwards.

namespace mgpu::extender {

struct ExtenderArgs::Message {
  std::string body;                   // views point into it
  std::deque<std::string> unescaped;  // names that were written with escapes
  kube::Pod pod;
  std::vector<std::string_view> names;
  std::vector<FullNode> full_nodes;
  bool has_full_nodes = false;
};

namespace {

namespace ondemand = simdjson::ondemand;

// Parsers keep their buffers, some six times the message: one for each thread, unless a message
// was unusually large.
class ThreadParser {
 public:
  ~ThreadParser() {
    if (parser().capacity() > kube::kJsonParserKeptBytes) parser() = ondemand::parser();
  }
  ondemand::parser& parser() {
    static thread_local ondemand::parser parser;
    return parser;
  }
};

class ArgsReader {
 public:
  explicit ArgsReader(std::deque<std::string>& unescaped) : unescaped_(unescaped) {}

  Result<void> read(ondemand::document& document);

  std::string_view pod;  // JSON text; empty where there is none
  std::vector<std::string_view> names;
  std::vector<FullNode> full_nodes;
  bool has_names = false;
  bool has_full_nodes = false;
  bool skipped = false;

 private:
  Result<void> member(std::string_view name, ondemand::value value);
  Result<void> read_pod_text(ondemand::value value);
  Result<void> read_names(ondemand::value value);
  Result<void> read_nodes(ondemand::value value);
  Result<void> read_items(ondemand::value value);
  Result<FullNode> read_node(std::size_t index, ondemand::value value);
  std::optional<std::string_view> text(ondemand::value& value);

  std::deque<std::string>& unescaped_;
};

bool is_null(ondemand::value& value) {
  bool null = false;
  return value.is_null().get(null) == simdjson::SUCCESS && null;
}

// A wrong type is told as such, anything else as broken JSON.
Error wrong(std::string_view field, ondemand::value& value, simdjson::error_code code,
            std::string_view expected) {
  if (code != simdjson::INCORRECT_TYPE) return malformed(code);
  return unexpected(field, value.raw_json_token(), expected);
}

Error wrong_text(const std::string& field, ondemand::value& value) {
  const std::string_view token = value.raw_json_token();
  if (token.starts_with('"')) return malformed(simdjson::STRING_ERROR);
  return unexpected(field, token, "a string");
}

Result<void> ArgsReader::read(ondemand::document& document) {
  ondemand::object object;
  if (const auto code = document.get_object().get(object)) {
    if (code != simdjson::INCORRECT_TYPE) return malformed(code);
    return error("request is not a JSON object");
  }
  for (auto field : object) {
    std::string_view name;
    ondemand::value value;
    if (const auto code = field.unescaped_key().get(name)) return malformed(code);
    if (const auto code = field.value().get(value)) return malformed(code);
    if (auto read = member(name, value); !read) return read;
  }
  const bool at_end = document.current_location().error() == simdjson::OUT_OF_BOUNDS;
  if (!at_end) return malformed(simdjson::TRAILING_CONTENT);
  return {};
}

Result<void> ArgsReader::member(std::string_view name, ondemand::value value) {
  if (equal_fold(name, "pod")) return read_pod_text(value);
  if (equal_fold(name, "nodenames")) return read_names(value);
  if (equal_fold(name, "nodes")) return read_nodes(value);
  skipped = true;
  return {};
}

Result<void> ArgsReader::read_pod_text(ondemand::value value) {
  pod = {};
  if (is_null(value)) return {};
  ondemand::object object;
  if (const auto code = value.get_object().get(object)) {
    return wrong("Pod", value, code, "an object");
  }
  if (const auto code = object.raw_json().get(pod)) return malformed(code);
  return {};
}

Result<void> ArgsReader::read_names(ondemand::value value) {
  names.clear();
  has_names = !is_null(value);
  if (!has_names) return {};
  ondemand::array array;
  if (const auto code = value.get_array().get(array)) {
    return wrong("NodeNames", value, code, "a list of names");
  }
  for (auto element : array) {
    ondemand::value name;
    if (const auto code = element.get(name)) return malformed(code);
    auto read = text(name);
    if (!read) return wrong_text(element_name("NodeNames", names.size()), name);
    names.push_back(*read);
  }
  return {};
}

Result<void> ArgsReader::read_nodes(ondemand::value value) {
  full_nodes.clear();
  has_full_nodes = !is_null(value);
  if (!has_full_nodes) return {};
  skipped = true;
  ondemand::object object;
  if (const auto code = value.get_object().get(object)) {
    return wrong("Nodes", value, code, "a NodeList");
  }
  for (auto field : object) {
    std::string_view name;
    ondemand::value member_value;
    if (const auto code = field.unescaped_key().get(name)) return malformed(code);
    if (const auto code = field.value().get(member_value)) return malformed(code);
    if (!equal_fold(name, "items")) continue;
    if (auto read = read_items(member_value); !read) return read;
  }
  return {};
}

Result<void> ArgsReader::read_items(ondemand::value value) {
  full_nodes.clear();
  if (is_null(value)) return {};
  ondemand::array array;
  if (const auto code = value.get_array().get(array)) {
    return wrong("Nodes.items", value, code, "a list of nodes");
  }
  for (auto element : array) {
    ondemand::value item;
    if (const auto code = element.get(item)) return malformed(code);
    auto node = read_node(full_nodes.size(), item);
    if (!node) return node.error();
    full_nodes.push_back(*node);
  }
  return {};
}

Result<FullNode> ArgsReader::read_node(std::size_t index, ondemand::value value) {
  const std::string field = element_name("Nodes.items", index);
  ondemand::object object;
  if (const auto code = value.get_object().get(object)) return wrong(field, value, code, "a node");
  FullNode node;
  if (const auto code = object.raw_json().get(node.json)) return malformed(code);
  // raw_json has walked past the object.
  if (const auto code = object.reset().error()) return malformed(code);
  ondemand::value name;
  if (object.find_field_unordered("metadata").find_field_unordered("name").get(name)) {
    return error(field + " has no metadata.name");
  }
  auto read = text(name);
  if (!read) return wrong_text(field + ".metadata.name", name);
  node.name = *read;
  return node;
}

// Nothing where it is no string, or a broken one.
std::optional<std::string_view> ArgsReader::text(ondemand::value& value) {
  const std::string_view token = value.raw_json_token();
  if (!token.starts_with('"')) return std::nullopt;
  if (token.find('\\') == std::string_view::npos) {
    // The token runs to the next one, over white space.
    const std::size_t end = token.rfind('"');
    return end > 0 ? std::optional(token.substr(1, end - 1)) : std::nullopt;
  }
  std::string_view unescaped;
  if (value.get_string().get(unescaped)) return std::nullopt;
  return std::string_view(unescaped_.emplace_back(unescaped));
}

Result<void> check_whole(std::string_view body) {
  simdjson::dom::parser parser;
  const auto code = parser.parse(body.data(), body.size(), /*realloc_if_needed=*/false).error();
  if (code) return malformed(code);
  return {};
}

Result<void> read_message(std::string_view body, std::size_t padded, ArgsReader& reader) {
  ThreadParser thread;
  ondemand::document document;
  const simdjson::padded_string_view padded_body(body, padded);
  if (const auto code = thread.parser().iterate(padded_body).get(document)) return malformed(code);
  if (auto read = reader.read(document); !read) return read;
  if (reader.skipped) return check_whole(body);
  return {};
}

}  // namespace

ExtenderArgs::ExtenderArgs(std::unique_ptr<Message> message) : message_(std::move(message)) {}
ExtenderArgs::~ExtenderArgs() = default;
ExtenderArgs::ExtenderArgs(ExtenderArgs&&) noexcept = default;
ExtenderArgs& ExtenderArgs::operator=(ExtenderArgs&&) noexcept = default;

Result<ExtenderArgs> ExtenderArgs::parse(std::string body) {
  auto message = std::make_unique<Message>();
  const std::size_t size = body.size();
  message->body = std::move(body);
  message->body.append(simdjson::SIMDJSON_PADDING, '\0');
  ArgsReader reader(message->unescaped);
  const std::string_view text(message->body.data(), size);
  if (auto read = read_message(text, message->body.size(), reader); !read) return read.error();
  if (reader.pod.empty()) return error("request has no Pod");
  auto pod = kube::read_pod(reader.pod);
  if (!pod) return error("Pod: " + pod.error().message);
  message->pod = std::move(*pod);
  message->names = std::move(reader.names);
  // kube-scheduler sends one form; names alone are the cheaper answer where both came.
  message->has_full_nodes = reader.has_full_nodes && !reader.has_names;
  if (message->has_full_nodes) {
    for (const FullNode& node : reader.full_nodes) message->names.push_back(node.name);
    message->full_nodes = std::move(reader.full_nodes);
  }
  return ExtenderArgs(std::move(message));
}

ExtenderArgs ExtenderArgs::of(kube::Pod pod, std::vector<std::string_view> names) {
  auto message = std::make_unique<Message>();
  message->pod = std::move(pod);
  message->names = std::move(names);
  return ExtenderArgs(std::move(message));
}

const kube::Pod& ExtenderArgs::pod() const {
  return message_->pod;
}

std::span<const std::string_view> ExtenderArgs::node_names() const {
  return message_->names;
}

std::span<const FullNode> ExtenderArgs::full_nodes() const {
  return message_->full_nodes;
}

bool ExtenderArgs::names_as_written() const {
  return !message_->body.empty() && message_->unescaped.empty();
}

bool ExtenderArgs::has_full_nodes() const {
  return message_->has_full_nodes;
}

}  // namespace mgpu::extender
