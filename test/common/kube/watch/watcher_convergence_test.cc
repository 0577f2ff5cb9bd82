// Whatever faults happen in between, a consumer of the watcher's events ends up with the objects of
// the collection. The collection is a small model with history; the faults are random.

#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <random>
#include <set>

#include "common/kube/objects/object_json.h"
#include "common/kube/watch/watcher.h"

namespace mgpu::kube {
namespace {

using Content = std::map<std::string, std::string>;  // name -> resourceVersion

std::string object_text(const std::string& name, const std::string& version) {
  return R"({"metadata":{"name":")" + name + R"(","resourceVersion":")" + version + R"("}})";
}

class Model {
 public:
  void change(std::mt19937& random) {
    const std::string name = "o" + std::to_string(random() % 12);
    const std::string version = std::to_string(++version_);
    const bool known = content_.contains(name);
    const bool remove = known && random() % 3 == 0;
    if (remove) {
      content_.erase(name);
    } else {
      content_[name] = version;
    }
    const std::string type = remove ? "DELETED" : known ? "MODIFIED" : "ADDED";
    history_[version_] =
        R"({"type":")" + type + R"(","object":)" + object_text(name, version) + "}";
  }

  void compact() { history_.clear(); }
  const Content& content() const { return content_; }
  int version() const { return version_; }

  // The line after `version`; none: there is none. Empty: the history no longer holds `version`.
  std::optional<std::string> line_after(int version) const {
    if (version == version_) return std::nullopt;
    const auto next = history_.find(version + 1);
    return next == history_.end() ? "" : next->second;
  }

 private:
  Content content_;
  std::map<int, std::string> history_;
  int version_ = 100;
};

class Consumer {
 public:
  void take(const WatchEvent& event) {
    using Kind = WatchEvent::Kind;
    switch (event.kind) {
      case Kind::kRelistBegin:
        relisted_.clear();
        return;
      case Kind::kRelistObject:
        relisted_.insert(put(event.object));
        return;
      case Kind::kRelistEnd:
        std::erase_if(content_, [&](const auto& held) { return !relisted_.contains(held.first); });
        return;
      case Kind::kApply:
        put(event.object);
        return;
      case Kind::kDelete:
        content_.erase(read_pod(event.object)->metadata.name);
        return;
    }
  }

  const Content& content() const { return content_; }

 private:
  std::string put(const std::string& text) {
    const Pod pod = read_pod(text).value();
    content_[pod.metadata.name] = pod.metadata.resource_version;
    return pod.metadata.name;
  }

  Content content_;
  std::set<std::string> relisted_;
};

Response answer(int status, std::string body = "") {
  return {status, std::move(body), std::nullopt, std::nullopt};
}

Response lost() {
  return {0, "", std::nullopt, TransportFailure{"lost", true}};
}

// Takes the part of server and reflector: performs the actions of the watcher, with random faults.
class World {
 public:
  explicit World(unsigned seed) : random_(seed) {
    for (int i = 0; i < 8; ++i) model_.change(random_);
    take(watcher_.start());
  }

  void step(bool faults) {
    now_ += Duration(random_() % 3000);
    if (faults && random_() % 3 == 0) model_.change(random_);
    if (faults && random_() % 20 == 0) model_.compact();
    switch (action_.kind) {
      case WatchAction::Kind::kList:
        return take(watcher_.on_list(faults ? faulty_page() : next_page(), now_, fraction()));
      case WatchAction::Kind::kWait:
        now_ += action_.delay;
        return take(watcher_.on_waited(now_, fraction()));
      default:
        return serve_watch(faults);
    }
  }

  bool equal() const { return consumer_.content() == model_.content(); }
  bool settled() const {
    return action_.kind == WatchAction::Kind::kWatch && at_ == model_.version();
  }

 private:
  double fraction() { return static_cast<double>(random_() % 1000) / 1000; }

  void take(const WatchStep& step) {
    for (const WatchEvent& event : step.events) consumer_.take(event);
    if (step.action.kind == WatchAction::Kind::kNone) return;
    action_ = step.action;
    if (action_.kind == WatchAction::Kind::kWatch) at_ = number_after("resourceVersion=");
  }

  int number_after(std::string_view key) const {
    const auto found = action_.request.target.find(key);
    if (found == std::string::npos) return 0;
    return std::stoi(action_.request.target.substr(found + key.size()));
  }

  Response faulty_page() {
    switch (random_() % 8) {
      case 0:
        return answer(503);
      case 1:
        return answer(410);
      case 2:
        return answer(200, "{");
      case 3:
        return lost();
      default:
        return next_page();
    }
  }

  // Pages of three over a snapshot taken with the first one; the token is the next item's number.
  Response next_page() {
    const std::size_t from = static_cast<std::size_t>(number_after("continue="));
    if (from == 0) {
      snapshot_.assign(model_.content().begin(), model_.content().end());
      snapshot_version_ = model_.version();
    }
    const std::size_t to = std::min(snapshot_.size(), from + 3);
    std::string items;
    for (std::size_t i = from; i < to; ++i) {
      items += (i > from ? "," : "") + object_text(snapshot_[i].first, snapshot_[i].second);
    }
    const std::string token = to < snapshot_.size() ? std::to_string(to) : "";
    return answer(200, R"({"metadata":{"resourceVersion":")" + std::to_string(snapshot_version_) +
                           R"(","continue":")" + token + R"("},"items":[)" + items + "]}");
  }

  void serve_watch(bool faults) {
    if (faults && random_() % 6 == 0) return take(break_watch());
    const auto line = model_.line_after(at_);
    if (!line) return;
    if (line->empty()) return take(too_old());
    ++at_;
    take(watcher_.on_line(*line, now_, fraction()));
  }

  WatchStep too_old() {
    if (random_() % 2 == 0) return watcher_.on_end(answer(410), now_, fraction());
    return watcher_.on_line(R"({"type":"ERROR","object":{"code":410}})", now_, fraction());
  }

  WatchStep break_watch() {
    switch (random_() % 6) {
      case 0:
        return watcher_.on_end(lost(), now_, fraction());
      case 1:
        return watcher_.on_end(answer(200), now_, fraction());
      case 2:
        return watcher_.on_end(answer(500), now_, fraction());
      case 3:
        return watcher_.on_silence(now_, fraction());
      case 4:
        return watcher_.on_line("{\"type\":", now_, fraction());
      default:
        return watcher_.on_line(
            R"({"type":"BOOKMARK","object":)" + object_text("", std::to_string(at_)) + "}", now_,
            fraction());
    }
  }

  std::mt19937 random_;
  Instant now_{};
  Model model_;
  Consumer consumer_;
  Watcher watcher_{Resource{"/objects", ""}};
  WatchAction action_;
  int at_ = 0;
  std::vector<std::pair<std::string, std::string>> snapshot_;
  int snapshot_version_ = 0;
};

TEST(Watcher, ConvergesAfterAnySequenceOfFaults) {
  for (unsigned seed = 0; seed < 300; ++seed) {
    World world(seed);
    for (int i = 0; i < 150; ++i) world.step(true);
    int calm = 0;
    while (!world.settled() && calm < 200) {
      world.step(false);
      ++calm;
    }
    ASSERT_TRUE(world.settled()) << "seed " << seed;
    ASSERT_TRUE(world.equal()) << "seed " << seed;
  }
}

}  // namespace
}  // namespace mgpu::kube
