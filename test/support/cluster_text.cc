#include "test/support/cluster_text.h"

#include <charconv>
#include <sstream>

#include "common/base/check.h"
#include "extender/placement/card_model.h"

namespace mgpu::test {

namespace {

using extender::Card;

std::int64_t number_of(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  MGPU_CHECK(failure == std::errc() && end == text.data() + text.size(), "not a number in a test");
  return value;
}

std::int32_t small_number_of(std::string_view text) {
  return static_cast<std::int32_t>(number_of(text));
}

// Blanks inside brackets do not separate.
std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words;
  std::string word;
  bool inside = false;
  for (const char c : text) {
    inside = c == '[' || (inside && c != ']');
    if (c == ' ' && !inside) {
      if (!word.empty()) words.push_back(std::move(word));
      word.clear();
    } else {
      word += c;
    }
  }
  if (!word.empty()) words.push_back(std::move(word));
  return words;
}

bool take_prefix(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

void read_fact(std::string_view fact, Card& card) {
  if (take_prefix(fact, "expected=")) {
    card.expected = share_of(fact);
  } else if (take_prefix(fact, "used=")) {
    card.used = share_of(fact);
  } else if (take_prefix(fact, "model=")) {
    card.model = fact;
    card.instance = extender::is_instance(card.model);
  } else if (take_prefix(fact, "uuid=")) {
    card.uuid = CardUuid(fact);
  } else {
    MGPU_CHECK(fact == "unhealthy" || fact == "uncertain" || fact == "cordoned",
               "unknown fact of a card in a test");
    if (fact == "cordoned") card.cordoned = true;
    if (fact == "unhealthy") card.healthy = false;
    if (fact == "uncertain") card.uncertain = true;
  }
}

Card card_of(std::string_view text) {
  const std::size_t open = text.find('[');
  MGPU_CHECK(open != text.npos && text.back() == ']', "a card in a test lacks its brackets");
  Card card;
  card.index = CardIndex(small_number_of(text.substr(0, open)));
  card.uuid = CardUuid("GPU-" + std::string(text.substr(0, open)));
  const auto words = words_of(text.substr(open + 1, text.size() - open - 2));
  const Share free = share_of(words.at(0));
  std::size_t next = 1;
  const bool of = words.size() > 2 && words[1] == "of";
  card.capacity = {kWholeCard, of ? MiB(number_of(words[2])) : free.memory};
  card.used = card.capacity - free;
  for (next = of ? 3 : 1; next < words.size(); ++next) read_fact(words[next], card);
  return card;
}

ContainerRequest container_of(std::string_view text) {
  ContainerRequest container;
  if (take_prefix(text, "init:")) container.kind = ContainerKind::kInit;
  if (take_prefix(text, "side:")) container.kind = ContainerKind::kSidecar;
  if (const std::size_t x = text.find('x'); x != text.npos) {
    container.cards = small_number_of(text.substr(x + 1));
    text = text.substr(0, x);
  }
  container.whole = text == "whole";
  container.per_card = container.whole ? Share{kWholeCard, MiB{}} : share_of(text);
  return container;
}

std::vector<CardIndex> indices_of(std::string_view text) {
  std::vector<CardIndex> cards;
  std::istringstream in{std::string(text)};
  for (std::string entry; std::getline(in, entry, ',');) {
    cards.emplace_back(small_number_of(entry));
  }
  return cards;
}

}  // namespace

Share share_of(std::string_view text) {
  const std::size_t slash = text.find('/');
  MGPU_CHECK(slash != text.npos, "a share in a test lacks its slash");
  return {Percent(number_of(text.substr(0, slash))), MiB(number_of(text.substr(slash + 1)))};
}

extender::Node node_of(std::string_view text) {
  const std::size_t colon = text.find(':');
  MGPU_CHECK(colon != text.npos, "a node in a test lacks its name");
  extender::Node node;
  node.name = NodeName(text.substr(0, colon));
  for (const std::string& card : words_of(text.substr(colon + 1))) {
    node.cards.push_back(card_of(card));
  }
  return node;
}

GpuRequest request_of(std::string_view text) {
  GpuRequest request;
  for (const std::string& word : words_of(text)) {
    request.containers.push_back(container_of(word));
    request.containers.back().name = "c" + std::to_string(request.containers.size() - 1);
  }
  return request;
}

Placement placement_of(std::string_view text) {
  Placement placement;
  for (const std::string& word : words_of(text)) {
    if (word != "|") placement.cards_of.push_back(indices_of(word));
  }
  return placement;
}

std::string text_of(const Share& share) {
  return std::to_string(share.core.value()) + "/" + std::to_string(share.memory.value());
}

std::string text_of(const Placement& placement) {
  std::string text;
  for (const auto& cards : placement.cards_of) {
    if (!text.empty()) text += " | ";
    for (const CardIndex card : cards) {
      if (card != cards.front()) text += ",";
      text += std::to_string(card.value());
    }
  }
  return text;
}

std::string text_of(const std::vector<extender::CardHold>& holds) {
  std::string text;
  for (const auto& hold : holds) {
    if (!text.empty()) text += " ";
    text += std::to_string(hold.card.value()) + "=" + text_of(hold.share);
  }
  return text;
}

}  // namespace mgpu::test
