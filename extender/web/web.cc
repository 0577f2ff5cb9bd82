#include "extender/web/web.h"

#include <fmt/format.h>
#include <unistd.h>

#include <charconv>
#include <chrono>
#include <span>
#include <utility>
#include <vector>

#include "common/base/text.h"
#include "common/base/version.h"
#include "extender/web/limits.h"
#include "extender/web/static_files.h"

namespace mgpu::extender {
namespace {

std::string event(std::string_view name, std::string_view data) {
  while (data.ends_with('\n')) data.remove_suffix(1);
  return fmt::format("event: {}\ndata: {}\n\n", name, data);
}

std::uint64_t number_in(const std::string& text) {
  std::uint64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

std::string history_event(bool restart, const char* source, std::chrono::milliseconds interval,
                          std::span<const HistoryPoint> points, const std::string& more) {
  return event("history",
               fmt::format(R"({{"restart":{},"source":"{}","intervalSeconds":{},"points":{}{}}})",
                           restart, source, interval.count() / 1000, points_json(points), more));
}

std::string problem_json(const std::string& problem) {
  return problem.empty() ? "" : fmt::format(",\"problem\":\"{}\"", json_escaped(problem));
}

std::string idle_json(const std::vector<PodRef>& idle) {
  std::string pods;
  for (const PodRef& pod : idle) {
    pods += fmt::format(R"({}["{}","{}"])", pods.empty() ? "" : ",", json_escaped(pod.name_space),
                        json_escaped(pod.name));
  }
  return ",\"idle\":[" + pods + "]";
}

void redirect_to_page(const http::Respond& respond, const char* to) {
  respond(with_web_headers(
      {.status = 302, .content_type = "text/plain", .body = {}, .headers = {{"Location", to}}}));
}

}  // namespace

struct Web::Client {
  std::uint64_t version = 0;  // of the nodes that it has
  http::GivePart give;        // set while it waits for a part
  bool started = false;
  bool synced = false;
  std::string status;
  std::uint64_t waiting = 0;
  Instant waiting_sent{};
  std::uint64_t thinned = 0;
  std::size_t points = 0;        // of the history of this process
  std::uint64_t prometheus = 0;  // PrometheusHistory::version
  Instant last_part{};
};

// One of kWebClientsMax, and its client on the executor. The body of the response owns it.
class Web::Slot {
 public:
  // Null if all are taken.
  static std::shared_ptr<Slot> take(Web& web) {
    if (web.slots_taken_.fetch_add(1) >= kWebClientsMax) {
      --web.slots_taken_;
      return nullptr;
    }
    return std::make_shared<Slot>(web);
  }
  explicit Slot(Web& web) : web_(web) {}
  // The slot is free when the executor has removed its client, so that pages which open and close
  // at once do not fill its queue.
  ~Slot() {
    post([&web = web_, id = id_](auto) {
      web.clients_.erase(*id);
      --web.slots_taken_;
    });
  }
  Slot(const Slot&) = delete;
  Slot& operator=(const Slot&) = delete;

  void begin(std::uint64_t version) {
    post([&web = web_, id = id_, version](auto) {
      *id = ++web.next_id_;
      auto client = std::make_unique<Client>();
      client->version = version;
      web.clients_.emplace(*id, std::move(client));
      web.waiting_.follow();
      if (!std::exchange(web.ticking_, true)) web.tick();
    });
  }
  void next(http::GivePart give) {
    post([&web = web_, id = id_, give = std::move(give)](auto) {
      const auto client = web.clients_.find(*id);
      if (client == web.clients_.end()) return;
      client->second->give = give;
      web.send_next(*client->second);
    });
  }

 private:
  template <class Call>
  void post(Call call) {
    web_.executor_.post([run = web_.tasks_.wrap(std::move(call))]() mutable { run(0); });
  }

  Web& web_;
  // Zero before begin(). On the executor.
  const std::shared_ptr<std::uint64_t> id_ = std::make_shared<std::uint64_t>(0);
};

Web::Web(Dependencies dependencies, Executor& executor)
    : dependencies_(std::move(dependencies)),
      executor_(executor),
      started_(dependencies_.unix_ms()),
      epoch_(fmt::format("{:x}-{:x}", started_, ::getpid())),
      feed_(dependencies_.ledger),
      waiting_(dependencies_.transport, dependencies_.options.contract),
      pod_use_(dependencies_.prometheus, executor, dependencies_.unix_ms) {
  if (dependencies_.prometheus != nullptr) {
    prometheus_.emplace(*dependencies_.prometheus, dependencies_.unix_ms);
  }
  executor_.post(tasks_.wrap([this] { add_point(); }));
}

Web::~Web() {
  tasks_.close();
}

void Web::add_routes(http::Router& router) {
  router.add("GET", "/", [](const http::Request&, const http::Respond& respond) {
    redirect_to_page(respond, "web/");
  });
  router.add("GET", "/web", [](const http::Request&, const http::Respond& respond) {
    redirect_to_page(respond, "web/");
  });
  for (const StaticFile& file : web_files()) {
    const std::string name = file.name == "index.html" ? "" : std::string(file.name);
    router.add("GET", "/web/" + name,
               [&file](const http::Request& request, const http::Respond& respond) {
                 respond(file_response(file, request));
               });
  }
  router.add("GET", "/web/events",
             [this](const http::Request& request, const http::Respond& respond) {
               open_events(request, respond);
             });
  router.add("GET", "/web/use", [this](const http::Request& request, const http::Respond& respond) {
    executor_.post(
        tasks_.wrap([this, query = request.query, respond] { pod_use_.answer(query, respond); }));
  });
}

void Web::open_events(const http::Request& request, const http::Respond& respond) {
  const auto slot = Slot::take(*this);
  if (!slot) {
    http::Response busy = http::error_response(
        503, fmt::format("{} pages are open; close one of them", kWebClientsMax));
    busy.headers = {{"Retry-After", "10"}};
    return respond(with_web_headers(std::move(busy)));
  }
  const bool known = http::query_value(request.query, "epoch") == epoch_;
  slot->begin(known ? number_in(http::query_value(request.query, "since")) : 0);
  respond(with_web_headers(
      {.content_type = "text/event-stream",
       .body = {},
       .headers = {{"Cache-Control", "no-store"}, {"X-Accel-Buffering", "no"}},
       .next_part = [slot](http::GivePart give) { slot->next(std::move(give)); }}));
}

// --- on the executor -----------------------------------------------------------------------------

void Web::add_point() {
  history_.add(current_point(dependencies_.ledger, dependencies_.unix_ms()));
  executor_.after(history_.interval(), tasks_.wrap([this] { add_point(); }));
}

// Ends when no page has been open for a while.
void Web::tick() {
  const Instant now = executor_.now();
  if (!clients_.empty()) {
    last_client_ = now;
    update();
    for (auto& [id, client] : clients_) send_next(*client);
  } else if (now - last_client_ >= kWaitingGrace) {
    waiting_.leave();
    ticking_ = false;
    return;
  }
  executor_.after(kWebUpdateInterval, tasks_.wrap([this] { tick(); }));
}

void Web::update() {
  feed_.update(executor_.now());
  status_ = readiness_response(dependencies_.readiness()).body;
  if (prometheus_) prometheus_->poll(executor_.now());
}

void Web::send_next(Client& client) {
  if (!client.give) return;
  std::string text = next_text(client);
  if (text.empty()) return;
  client.last_part = executor_.now();
  std::exchange(client.give, nullptr)(std::move(text));
}

std::string Web::next_text(Client& client) {
  const Instant now = executor_.now();
  std::string out;
  if (!std::exchange(client.started, true)) out += start_event();
  if (client.status != status_) {
    client.status = status_;
    out += event("status", status_);
  }
  const bool waited = client.waiting == 0 || now - client.waiting_sent >= kWaitingInterval;
  if (const auto version = waiting_.version(); waited && client.waiting != version) {
    client.waiting = version;
    client.waiting_sent = now;
    if (waiting_version_ != version) {
      waiting_text_ = event("waiting", waiting_.json());
      waiting_version_ = version;
    }
    out += waiting_text_;
  }
  out += history_text(client);
  if (client.version != feed_.version()) {
    const auto changes = feed_.after(client.version);
    client.version = changes.version;
    out += event("nodes", changes.json);
  }
  if (client.version == feed_.version() && !std::exchange(client.synced, true)) {
    out += event("synced", "{}");
  }
  if (out.empty() && now - client.last_part >= kWebHeartbeatInterval) {
    out = event("beat", fmt::format("{{\"now\":{}}}", dependencies_.unix_ms()));
  }
  return out;
}

std::string Web::start_event() const {
  const PolicyChoice& policy = dependencies_.options.policy;
  std::string name(policy.node->name);
  if (policy.node != policy.card) name += "/" + std::string(policy.card->name);
  return event(
      "hello",
      fmt::format(R"({{"epoch":"{}","started":{},"now":{},"version":"{}","instance":"{}",)"
                  R"("domain":"{}","policy":"{}"}})",
                  epoch_, started_, dependencies_.unix_ms(), MGPU_VERSION,
                  json_escaped(dependencies_.instance),
                  json_escaped(dependencies_.options.contract.domain), json_escaped(name)));
}

// Those of Prometheus are sent as a whole, since the oldest ones leave.
std::string Web::history_text(Client& client) {
  const std::uint64_t version = prometheus_ ? prometheus_->version() : 0;
  const bool answered = std::exchange(client.prometheus, version) != version;
  if (prometheus_ && !prometheus_->points().empty()) {
    if (!answered && client.points == 0) return {};
    client.points = 0;
    return history_event(true, "prometheus", kPrometheusStep, prometheus_->points(),
                         idle_json(prometheus_->idle()));
  }
  const std::vector<HistoryPoint>& points = history_.points();
  const bool restart = client.points == 0 || client.thinned != history_.thinned() || answered;
  if (restart) client.points = 0;
  if (client.points >= points.size()) return {};
  const std::span<const HistoryPoint> more = std::span(points).subspan(client.points);
  client.points = points.size();
  client.thinned = history_.thinned();
  return history_event(restart, "extender", history_.interval(), more,
                       prometheus_ ? problem_json(prometheus_->problem()) : "");
}

}  // namespace mgpu::extender
