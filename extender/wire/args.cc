#include <cstring>
#include <optional>
#include <utility>

#include "common/kube/limits.h"
#include "common/kube/objects/object_json.h"
#include "extender/wire/json.h"
#include "extender/wire/wire.h"

// filter and prioritize carry the names of all nodes for every pod. The message is read once, on
// demand, and names are views into it. On-demand reading does not check what it skips, so a message
// with unknown members is checked as a whole afterwards.

namespace mgpu::extender {
namespace {

namespace ondemand = simdjson::ondemand;

// The room for names is reserved as if each had this many bytes with its quotes and comma. Few
// names have more, and a list of shorter names only grows once or twice.
constexpr std::size_t kReservedNameBytes = 40;

// A parser's buffers take some six times the size of the message. Each thread keeps one parser,
// and drops it after an unusually large message.
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

bool is_null(ondemand::value& value) {
  bool null = false;
  return value.is_null().get(null) == simdjson::SUCCESS && null;
}

// An object or an array. Errors: another type, named `field`; JSON that is malformed there.
template <class T>
Result<T> read_as(ondemand::value& value, std::string_view field, std::string_view expected) {
  T read;
  const auto code = value.get(read);
  if (code == simdjson::INCORRECT_TYPE) {
    return unexpected(field, value.raw_json_token(), expected);
  }
  if (code) return malformed(code);
  return read;
}

Error no_text(const std::string& field, ondemand::value& value) {
  const std::string_view token = value.raw_json_token();
  if (token.starts_with('"')) return malformed(simdjson::STRING_ERROR);
  return unexpected(field, token, "a string");
}

// `visit` returns a Result<void>; the first error ends the loop.
template <class Visit>
Result<void> for_each_member(ondemand::object& object, const Visit& visit) {
  for (auto field : object) {
    std::string_view name;
    ondemand::value value;
    if (const auto code = field.unescaped_key().get(name)) return malformed(code);
    if (const auto code = field.value().get(value)) return malformed(code);
    if (auto visited = visit(name, value); !visited) return visited;
  }
  return {};
}

template <class Visit>
Result<void> for_each_element(ondemand::array& array, const Visit& visit) {
  for (auto element : array) {
    ondemand::value value;
    if (const auto code = element.get(value)) return malformed(code);
    if (auto visited = visit(value); !visited) return visited;
  }
  return {};
}

}  // namespace

class ExtenderArgs::Reader {
 public:
  explicit Reader(ExtenderArgs& args) : args_(args) {}

  // `body` is the message in args.body_, without the padding.
  Result<void> read(std::string_view body);

 private:
  Result<void> read_member(std::string_view name, ondemand::value value);
  Result<void> read_pod(ondemand::value value);
  Result<void> read_names(ondemand::value value);
  std::optional<std::string_view> text(ondemand::value& value);

  ExtenderArgs& args_;
  std::string_view pod_;  // JSON text; empty if the request has no Pod
  bool skipped_ = false;  // something was not checked
  // The last backslash of the message, or null. Names have none as a rule, and come after the Pod.
  const char* last_escape_ = nullptr;
};

Result<void> ExtenderArgs::Reader::read(std::string_view body) {
  last_escape_ = static_cast<const char*>(memrchr(body.data(), '\\', body.size()));
  ThreadParser thread;
  ondemand::document document;
  const simdjson::padded_string_view padded(body, args_.body_.size());
  if (const auto code = thread.parser().iterate(padded).get(document)) return malformed(code);
  ondemand::object object;
  if (const auto code = document.get_object().get(object)) {
    if (code != simdjson::INCORRECT_TYPE) return malformed(code);
    return error("request is not a JSON object");
  }
  auto read = for_each_member(object, [this](std::string_view name, ondemand::value& value) {
    return read_member(name, value);
  });
  if (!read) return read;
  const bool at_end = document.current_location().error() == simdjson::OUT_OF_BOUNDS;
  if (!at_end) return malformed(simdjson::TRAILING_CONTENT);
  if (skipped_) {
    simdjson::dom::parser parser;
    const auto code = parser.parse(body.data(), body.size(), /*realloc_if_needed=*/false).error();
    if (code) return malformed(code);
  }
  if (pod_.empty()) return error("request has no Pod");
  auto pod = kube::read_pod(pod_);
  if (!pod) return error("Pod: " + pod.error().message);
  args_.pod_ = *std::move(pod);
  return {};
}

Result<void> ExtenderArgs::Reader::read_member(std::string_view name, ondemand::value value) {
  if (equal_fold(name, "pod")) return read_pod(value);
  if (equal_fold(name, "nodenames")) return read_names(value);
  if (equal_fold(name, "nodes")) {
    if (is_null(value)) return {};  // what kube-scheduler sends beside NodeNames
    return error(
        "Nodes are whole nodes, expected NodeNames alone: set nodeCacheCapable: true in the "
        "configuration of kube-scheduler");
  }
  skipped_ = true;
  return {};
}

Result<void> ExtenderArgs::Reader::read_pod(ondemand::value value) {
  pod_ = {};
  if (is_null(value)) return {};
  auto object = read_as<ondemand::object>(value, "Pod", "an object");
  if (!object) return object.error();
  if (const auto code = object->raw_json().get(pod_)) return malformed(code);
  return {};
}

Result<void> ExtenderArgs::Reader::read_names(ondemand::value value) {
  args_.names_.clear();
  if (is_null(value)) return {};
  auto array = read_as<ondemand::array>(value, "NodeNames", "a list of names");
  if (!array) return array.error();
  args_.names_.reserve(args_.body_.size() / kReservedNameBytes);
  return for_each_element(*array, [this](ondemand::value& element) -> Result<void> {
    const auto name = text(element);
    if (!name) return no_text(element_name("NodeNames", args_.names_.size()), element);
    // Not push_back: the copy of 16 bytes would wait until both halves have been written.
    args_.names_.emplace_back(name->data(), name->size());
    return {};
  });
}

// Nothing if the value is not a string, or a malformed one.
std::optional<std::string_view> ExtenderArgs::Reader::text(ondemand::value& value) {
  const std::string_view token = value.raw_json_token();
  if (!token.starts_with('"')) return std::nullopt;
  const bool may_have_escapes = last_escape_ != nullptr && last_escape_ >= token.data();
  if (!may_have_escapes || token.find('\\') == std::string_view::npos) {
    // The token includes the white space up to the next one.
    const std::size_t end = token.ends_with('"') ? token.size() - 1 : token.rfind('"');
    return end > 0 ? std::optional(token.substr(1, end - 1)) : std::nullopt;
  }
  std::string_view unescaped;
  if (value.get_string().get(unescaped)) return std::nullopt;
  return std::string_view(args_.unescaped_.emplace_back(unescaped));
}

Result<ExtenderArgs> ExtenderArgs::parse(std::string body) {
  ExtenderArgs args;
  const std::size_t size = body.size();
  args.body_ = std::move(body);
  args.body_.append(simdjson::SIMDJSON_PADDING, '\0');
  if (auto read = Reader(args).read({args.body_.data(), size}); !read) return read.error();
  return args;
}

ExtenderArgs ExtenderArgs::of(kube::Pod pod, std::vector<std::string_view> names) {
  ExtenderArgs args;
  args.pod_ = std::move(pod);
  args.names_ = std::move(names);
  return args;
}

}  // namespace mgpu::extender
