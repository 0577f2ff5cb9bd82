#include "extender/kubectl/doctor/read_facts.h"

#include <charconv>

#include "common/base/text.h"
#include "common/kube/json_value.h"

namespace mgpu::kubectl {
namespace {

// Removes the number that `text` starts with; false without one.
bool take_number(std::string_view& text, std::int32_t& number) {
  const auto [stop, failure] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (failure != std::errc()) return false;
  text.remove_prefix(static_cast<std::size_t>(stop - text.data()));
  return true;
}

bool take(std::string_view& text, char c) {
  if (!text.starts_with(c)) return false;
  text.remove_prefix(1);
  return true;
}

}  // namespace

// "v1.36.3", or "v1.29.4-gke.1043002" of a provider
Result<ServerVersion> read_server_version(std::string_view json) {
  ServerVersion version;
  auto read = kube::read_json(
      json,
      [&](kube::JsonValue& root) {
        root.read({{"gitVersion", version.text}});
      },
      true);
  if (!read) return read.error();
  std::string_view text = version.text;
  const bool good = take(text, 'v') && take_number(text, version.major) && take(text, '.') &&
                    take_number(text, version.minor) && take(text, '.') &&
                    take_number(text, version.patch);
  if (good) return version;
  return error("gitVersion must be a version such as \"v1.36.3\", is " + in_quotes(version.text));
}

}  // namespace mgpu::kubectl
