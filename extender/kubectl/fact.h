// Values that may be missing. Values only.
#pragma once

#include <string>
#include <utility>

namespace mgpu::kubectl {

enum class Missing {
  kNotAsked,
  kForbidden,  // the user has no right
  kAbsent,     // the API server does not have it
  kFailed,     // no answer, or one that cannot be read
};

// A value from outside, or one sentence with the reason why there is none.
template <class T>
class Fact {
 public:
  Fact() = default;
  Fact(T value) : value_(std::move(value)), known_(true) {}
  Fact(Missing missing, std::string problem) : missing_(missing), problem_(std::move(problem)) {}

  bool known() const { return known_; }
  // REQUIRES: known().
  const T& value() const { return value_; }
  const T* operator->() const { return &value_; }
  Missing missing() const { return missing_; }
  bool absent() const { return !known_ && missing_ == Missing::kAbsent; }
  const std::string& problem() const { return problem_; }
  // The same problem for a value of another type. REQUIRES: !known().
  template <class Other>
  Fact<Other> as() const {
    return Fact<Other>(missing_, problem_);
  }

 private:
  T value_{};
  bool known_ = false;
  Missing missing_ = Missing::kNotAsked;
  std::string problem_;
};

// The text with this name; empty if there is none.
template <class Texts>
std::string text_or_empty(const Texts& texts, const std::string& name) {
  const auto found = texts.find(name);
  return found == texts.end() ? std::string() : found->second;
}

}  // namespace mgpu::kubectl
