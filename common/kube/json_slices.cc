#include "common/kube/json_slices.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "common/text.h"

namespace mgpu::kube {
namespace {

bool is_space(char c) {
  return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

bool is_literal(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || c == '-' || c == '+' || c == '.' ||
         c == 'E';
}

// Each function reads one thing at the position and leaves it behind; false: it is not there.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {}

  template <class OnMember>
  bool object(const OnMember& on_member) {
    return token('{') && (token('}') || members(on_member));
  }

  template <class OnElement>
  bool array(const OnElement& on_element) {
    return token('[') && (token(']') || elements(on_element));
  }

  bool at_end() {
    skip_space();
    return at_ == text_.size();
  }

  Error failure(std::string_view wanted) const {
    return error(fmt::format("not a JSON {}: at byte {} of {}, near {}", wanted, at_, text_.size(),
                             in_quotes(text_.substr(at_))));
  }

 private:
  template <class OnMember>
  bool members(const OnMember& on_member) {
    do {
      std::string_view name, value;
      if (!slice(name, &Scanner::string) || !token(':')) return false;
      if (!slice(value, &Scanner::value)) return false;
      on_member(JsonMember{name.substr(1, name.size() - 2), value});
    } while (token(','));
    return token('}');
  }

  template <class OnElement>
  bool elements(const OnElement& on_element) {
    do {
      std::string_view element;
      if (!slice(element, &Scanner::value)) return false;
      on_element(element);
    } while (token(','));
    return token(']');
  }

  bool slice(std::string_view& out, bool (Scanner::*read)()) {
    skip_space();
    const std::size_t begin = at_;
    if (!(this->*read)()) return false;
    out = text_.substr(begin, at_ - begin);
    return true;
  }

  bool value() {
    skip_space();
    if (at_ == text_.size()) return false;
    switch (text_[at_]) {
      case '{':
      case '[':
        return nested();
      case '"':
        return string();
      default:
        return literal();
    }
  }

  // An object or array of any depth, to its end. What is inside is left to who reads it: one object
  // that cannot be read must not hide those beside it.
  bool nested() {
    std::string closing;
    do {
      if (at_ == text_.size()) return false;
      const char c = text_[at_];
      if (c == '"') {
        if (!string()) return false;
        continue;
      }
      if (c == '{' || c == '[') closing.push_back(c == '{' ? '}' : ']');
      if (c == '}' || c == ']') {
        if (closing.back() != c) return false;
        closing.pop_back();
      }
      ++at_;
    } while (!closing.empty());
    return true;
  }

  bool string() {
    if (!token('"')) return false;
    for (; at_ < text_.size() && static_cast<unsigned char>(text_[at_]) >= 0x20; ++at_) {
      if (text_[at_] == '"') return ++at_, true;
      if (text_[at_] == '\\') ++at_;
    }
    at_ = std::min(at_, text_.size());
    return false;
  }

  bool literal() {
    const std::size_t begin = at_;
    while (at_ < text_.size() && is_literal(text_[at_])) ++at_;
    const std::string_view word = text_.substr(begin, at_ - begin);
    if (word.empty()) return false;
    const bool number = word[0] == '-' || (word[0] >= '0' && word[0] <= '9');
    return number || word == "true" || word == "false" || word == "null";
  }

  bool token(char c) {
    skip_space();
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  void skip_space() {
    while (at_ < text_.size() && is_space(text_[at_])) ++at_;
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace

Result<std::vector<JsonMember>> json_members(std::string_view text) {
  std::vector<JsonMember> members;
  Scanner scanner(text);
  const bool read = scanner.object([&](const JsonMember& member) { members.push_back(member); });
  if (!read || !scanner.at_end()) return scanner.failure("object");
  return members;
}

Result<std::vector<std::string_view>> json_elements(std::string_view text) {
  std::vector<std::string_view> elements;
  Scanner scanner(text);
  const bool read = scanner.array([&](std::string_view element) { elements.push_back(element); });
  if (!read || !scanner.at_end()) return scanner.failure("array");
  return elements;
}

std::string_view json_member(const std::vector<JsonMember>& members, std::string_view name) {
  const auto found = std::find_if(members.rbegin(), members.rend(),
                                  [&](const JsonMember& member) { return member.name == name; });
  return found == members.rend() ? std::string_view() : found->value;
}

}  // namespace mgpu::kube
