// Names of different kinds of objects as distinct types, so that they cannot be confused.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

namespace mgpu {

// The name of one kind of object. Construction is explicit.
template <class Tag>
class Name {
 public:
  Name() = default;
  explicit Name(std::string text) : text_(std::move(text)) {}
  explicit Name(std::string_view text) : text_(text) {}
  explicit Name(const char* text) : text_(text) {}

  const std::string& str() const { return text_; }
  bool empty() const { return text_.empty(); }
  auto operator<=>(const Name&) const = default;

 private:
  std::string text_;
};

using NodeName = Name<struct NodeNameTag>;
using PodUid = Name<struct PodUidTag>;
using CardUuid = Name<struct CardUuidTag>;

// A card's index on its node, 0 .. kCardIndexMax. It is never assigned to another card.
class CardIndex {
 public:
  constexpr CardIndex() = default;
  constexpr explicit CardIndex(std::int32_t value) : value_(value) {}
  constexpr std::int32_t value() const { return value_; }
  constexpr auto operator<=>(const CardIndex&) const = default;

 private:
  std::int32_t value_ = 0;
};

// The namespace and name of a pod. A later pod, with another uid, may have the same name.
struct PodRef {
  std::string name_space;  // metadata.namespace
  std::string name;
  auto operator<=>(const PodRef&) const = default;
};

// "namespace/name", as Kubernetes writes it.
inline std::string to_string(const PodRef& pod) {
  return pod.name_space + "/" + pod.name;
}

}  // namespace mgpu

template <class Tag>
struct std::hash<mgpu::Name<Tag>> {
  std::size_t operator()(const mgpu::Name<Tag>& name) const noexcept {
    return std::hash<std::string>()(name.str());
  }
};
