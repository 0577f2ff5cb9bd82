// Feeds the bytes of a watch, as the API server sends them after a list, to LineBuffer, Watcher and
// Reflector.
//
// Properties: the consumer gets the same calls wherever the parts of the stream begin and end; no
// line is over the limit; a call has an object of the stream; and after any stream the consumer
// agrees with the next complete list.
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/kube/objects/object_json.h"
#include "common/kube/watch/line_buffer.h"
#include "common/kube/watch/reflector.h"
#include "test/fuzz/fuzz.h"
#include "test/support/manual_executor.h"

namespace mgpu::fuzz {
namespace {

using kube::Pod;

// Short, so that the inputs of a fuzzer have lines over it.
constexpr std::size_t kLineMax = 512;
constexpr std::size_t kLineKept = 128;
constexpr std::string_view kFirstList =
    R"({"metadata":{"resourceVersion":"5"},"items":[{"metadata":{"name":"a","resourceVersion":"3"}}]})";
constexpr std::string_view kLastList =
    R"({"metadata":{"resourceVersion":"9"},"items":[{"metadata":{"name":"z","resourceVersion":"8"}}]})";
constexpr std::string_view kExpired =
    R"({"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired"}})";

// Keeps the request or the watch that the reflector waits for.
class OpenTransport final : public kube::Transport {
 public:
  void send(kube::Request, std::function<void(kube::Response)> done) override {
    answer_ = std::move(done);
  }
  std::unique_ptr<kube::Stream> stream(kube::Request, kube::StreamEvents events) override {
    events_ = std::move(events);
    return std::make_unique<kube::Stream>();
  }
  test::ManualExecutor& executor() override { return executor_; }

  bool lists() const { return answer_ != nullptr; }
  bool watches() const { return events_.on_line != nullptr; }

  void list(std::string_view page) {
    std::exchange(answer_, nullptr)(
        {.status = 200, .body = std::string(page), .retry_after = {}, .failure = {}});
    executor_.run_ready();
  }
  void line(std::string_view line) {
    const auto on_line = events_.on_line;
    on_line(line);
    executor_.run_ready();
  }
  // Ends each watch with 410, and runs timers, until the reflector lists.
  void expire() {
    for (int i = 0; i < 100 && !lists(); ++i) {
      if (watches()) {
        line(kExpired);
        events_ = {};
      } else {
        executor_.advance_to_next_timer();
      }
    }
  }

 private:
  test::ManualExecutor executor_;
  std::function<void(kube::Response)> answer_;
  kube::StreamEvents events_;
};

// A reflector of pods whose consumer records its calls.
class Consumed {
 public:
  Consumed() : reflector_("pods", kube::all_pods(), transport_, consumer(), events()) {
    reflector_.start();
    transport_.executor().run_ready();
    transport_.list(kFirstList);
  }

  // The lines of `text`. Lines after the end of the watch are those of a connection that is closed.
  void receive(std::string_view text) {
    while (!text.empty() && !transport_.lists()) {
      const std::size_t end = text.find('\n');
      expect(end <= kLineMax, "a line is not over the limit");
      if (end > 0) transport_.line(text.substr(0, end));
      text.remove_prefix(end + 1);
    }
  }
  void relist() {
    transport_.expire();
    expect(transport_.lists(), "a watch that has expired is followed by a list");
    transport_.list(kLastList);
  }

  const std::string& calls() const { return calls_; }
  const std::map<std::string, std::string>& pods() const { return pods_; }

 private:
  kube::Consumer<Pod> consumer() {
    return {.read = kube::read_pod,
            .apply =
                [this](const Pod& pod) {
                  pods_[pod.metadata.name] = pod.metadata.resource_version;
                  calls_ += "apply " + pod.metadata.name + "\n";
                },
            .remove =
                [this](const Pod& pod) {
                  pods_.erase(pod.metadata.name);
                  calls_ += "remove " + pod.metadata.name + "\n";
                },
            .relist =
                [this](const std::vector<Pod>& pods, bool complete) {
                  pods_.clear();
                  for (const Pod& pod : pods) {
                    pods_[pod.metadata.name] = pod.metadata.resource_version;
                  }
                  calls_ += complete ? "relist\n" : "relist, not complete\n";
                }};
  }
  kube::ReflectorEvents events() {
    const auto record = [this](const std::string& sentence) {
      expect_sentence(sentence);
      calls_ += sentence + "\n";
    };
    return {.on_problem = record, .on_unreadable = record, .on_change = {}};
  }

  OpenTransport transport_;
  std::map<std::string, std::string> pods_;
  std::string calls_;
  kube::Reflector reflector_;
};

void receive(Consumed& consumed, const std::vector<std::string_view>& parts) {
  kube::LineBuffer lines(kLineMax, kLineKept);
  for (const std::string_view part : parts) {
    lines.append(part);
    consumed.receive(lines.take(false));
  }
  consumed.receive(lines.take(true));
}

}  // namespace

MGPU_FUZZER(watch) {
  Consumed whole;
  receive(whole, {input});
  Consumed in_pieces;
  receive(in_pieces, in_parts(input));
  expect(whole.calls() == in_pieces.calls(), "calls do not depend on the parts of a stream: " +
                                                 whole.calls() + "and " + in_pieces.calls());
  whole.relist();
  const std::map<std::string, std::string> listed{{"z", "8"}};
  expect(whole.pods() == listed, "the consumer agrees with the last list");
}

}  // namespace mgpu::fuzz
