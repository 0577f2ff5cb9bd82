#include "extender/placement/card_model.h"

#include <algorithm>

#include "common/base/text.h"

namespace mgpu::extender {
namespace {

constexpr std::string_view kVendor = "nvidia";
// What NVIDIA's device plugin appends to the label of a card that it shares.
constexpr std::string_view kShared = "shared";
constexpr std::string_view kInstance = "mig";

constexpr bool is_separator(char c) {
  return c == ' ' || c == '-' || c == '_';
}

// NVIDIA's feature discovery leaves these out of a label (k8s-device-plugin
// internal/lm/resource.go: sanitise).
constexpr bool is_left_out(char c) {
  const bool digit_or_letter = (c >= '0' && c <= '9') || (to_lower(c) >= 'a' && to_lower(c) <= 'z');
  return static_cast<unsigned char>(c) < 0x80 && !digit_or_letter && c != '.' && !is_separator(c);
}

bool is_word(std::string_view text, std::string_view word) {
  return std::ranges::equal(text, word, {}, to_lower);
}

// A name as it is compared: the characters of its words in lower case, with one '-' between words.
class Spelling {
 public:
  explicit Spelling(std::string_view name) : rest_(without_ends(name)) {
    const std::size_t first = std::min(rest_.find_first_of(" -_"), rest_.size());
    has_vendor_ = is_word(rest_.substr(0, first), kVendor);
    if (has_vendor_ && first < rest_.size()) rest_ = without_ends(rest_.substr(first));
    const std::size_t last = rest_.find_last_of(" -_");
    if (last != rest_.npos && is_word(rest_.substr(last + 1), kShared)) {
      rest_ = without_ends(rest_.substr(0, last));
    }
  }

  bool has_vendor() const { return has_vendor_; }
  bool at_end() const { return Spelling(*this).next() == 0; }
  // 0 at the end.
  int next() {
    bool separated = false;
    while (!rest_.empty() && (is_separator(rest_.front()) || is_left_out(rest_.front()))) {
      separated |= is_separator(rest_.front());
      rest_.remove_prefix(1);
    }
    if (rest_.empty()) return 0;
    if (separated) return '-';
    const char c = rest_.front();
    rest_.remove_prefix(1);
    return static_cast<unsigned char>(to_lower(c));
  }

 private:
  static std::string_view without_ends(std::string_view text) {
    while (!text.empty() && is_separator(text.front())) text.remove_prefix(1);
    while (!text.empty() && is_separator(text.back())) text.remove_suffix(1);
    return text;
  }

  std::string_view rest_;
  bool has_vendor_ = false;
};

int compare(std::string_view a, std::string_view b) {
  Spelling left(a);
  Spelling right(b);
  for (;;) {
    const int x = left.next();
    const int y = right.next();
    if (x != y || x == 0) return x - y;
  }
}

bool ends_word(int c) {
  return c == 0 || c == '-';
}

// Both are behind the word then.
bool skip_same_word(Spelling& name, Spelling& model) {
  Spelling a = name;
  Spelling b = model;
  for (;;) {
    const int x = a.next();
    const int y = b.next();
    if (ends_word(x) && ends_word(y)) break;
    if (x != y) return false;
  }
  name = a;
  model = b;
  return true;
}

void skip_word(Spelling& model) {
  while (!ends_word(model.next())) continue;
}

// Whether the model has all words of the name in their order.
bool has_words(Spelling name, Spelling model) {
  while (!name.at_end()) {
    while (!skip_same_word(name, model)) {
      if (model.at_end()) return false;
      skip_word(model);
    }
  }
  return true;
}

bool lists(const std::vector<std::string>& names, std::string_view model) {
  return std::ranges::any_of(names, [&](const auto& name) { return names_model(name, model); });
}

}  // namespace

bool same_model(std::string_view a, std::string_view b) {
  return a == b || compare(a, b) == 0;
}

bool is_instance(std::string_view model) {
  return has_words(Spelling(kInstance), Spelling(model));
}

bool names_model(std::string_view name, std::string_view model) {
  if (same_model(name, model)) return true;
  const Spelling part(name);
  if (part.has_vendor() || part.at_end()) return false;
  return has_words(part, Spelling(model)) && (is_instance(name) || !is_instance(model));
}

bool ModelLess::operator()(std::string_view a, std::string_view b) const {
  return compare(a, b) < 0;
}

bool accepts_model(const std::vector<std::string>& models, const std::vector<std::string>& excluded,
                   std::string_view model) {
  return (models.empty() ? !is_instance(model) : lists(models, model)) && !lists(excluded, model);
}

KindId kind_id(std::string_view model, MiB memory) {
  std::uint64_t hash = 14'695'981'039'346'656'037U;
  const auto add = [&hash](std::uint64_t byte) { hash = (hash ^ byte) * 1'099'511'628'211U; };
  Spelling spelling(model);
  while (const int c = spelling.next()) add(static_cast<std::uint64_t>(c));
  auto left = static_cast<std::uint64_t>(memory.value());
  for (int byte = 0; byte < 8; ++byte, left >>= 8) add(left & 0xFF);
  return hash == 0 ? 1 : hash;
}

}  // namespace mgpu::extender
