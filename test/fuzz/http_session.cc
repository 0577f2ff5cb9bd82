// Feeds what an HTTP client sends to a Session with a Router, over a socket pair in this process.
//
// Properties: the handler gets the same requests, and the client the same bytes, wherever the parts
// of the stream begin and end; the answer is a sequence of complete responses; a body and a path
// that the handler gets are within the limits; a Host of another machine reaches no handler.
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <charconv>
#include <exception>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/files.h"
#include "common/http/router.h"
#include "common/http/session.h"
#include "test/fuzz/fuzz.h"

namespace mgpu::fuzz {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;

constexpr std::size_t kHeaderMax = 512;
constexpr std::size_t kBodyMax = 256;

struct Exchanged {
  std::string requests;
  std::string answer;
};

http::Router echo_router(std::string& requests) {
  http::Router router;
  const http::Handler echo = [&requests](http::Request request, const http::Respond& respond) {
    expect(request.body.size() <= kBodyMax, "a body is within the limit");
    expect(request.path.size() + request.query.size() <= kHeaderMax, "a target is, too");
    requests += request.method + " " + request.path + "?" + request.query + " " +
                request.authorization + " " + request.body + "\n";
    respond({.status = 200, .body = std::move(request.body)});
  };
  router.add("POST", "/filter", echo);
  router.add("GET", "/healthz", echo);
  return router;
}

// Sends without waiting. False where the session has closed the connection.
bool send_all(const UniqueFd& client, std::string_view part) {
  const auto sent = ::send(client.number(), part.data(), part.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  return sent == static_cast<ssize_t>(part.size());
}

void receive_into(std::string& answer, const UniqueFd& client) {
  std::array<char, 4096> bytes;
  ssize_t count = 0;
  while ((count = ::recv(client.number(), bytes.data(), bytes.size(), MSG_DONTWAIT)) > 0) {
    answer.append(bytes.data(), static_cast<std::size_t>(count));
  }
}

Exchanged exchange(const std::vector<std::string_view>& parts) {
  Exchanged exchanged;
  const http::Router router = echo_router(exchanged.requests);
  http::SessionSetup setup;
  setup.options.header_bytes_max = kHeaderMax;
  setup.options.body_bytes_max = kBodyMax;
  setup.loopback = true;
  setup.handler = [&router](http::Request request, http::Respond respond) {
    router.route(std::move(request), std::move(respond));
  };
  std::array<int, 2> ends{};
  expect(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends.data()) == 0, "a pair of sockets");
  const UniqueFd client(ends[0]);
  static asio::io_context context;
  context.restart();
  tcp::socket socket(context);
  socket.assign(tcp::v4(), ends[1]);
  const auto session =
      std::make_shared<http::Session>(std::move(socket), "127.0.0.1", nullptr, setup);
  bool ended = false;
  std::exception_ptr failure;
  asio::co_spawn(context, session->run(), [&](std::exception_ptr failed) {
    failure = std::move(failed);
    ended = true;
  });
  for (const std::string_view part : parts) {
    context.poll();
    receive_into(exchanged.answer, client);
    if (!send_all(client, part)) break;
  }
  ::shutdown(client.number(), SHUT_WR);
  // Timers of the session are not waited for: it ends when the client has sent everything.
  while (context.poll() > 0) receive_into(exchanged.answer, client);
  receive_into(exchanged.answer, client);
  expect(ended, "a session ends after its client");
  if (failure) std::rethrow_exception(failure);
  return exchanged;
}

// The number after "Content-Length: ".
std::size_t length_in(std::string_view head) {
  constexpr std::string_view kName = "\r\nContent-Length: ";
  const std::size_t at = head.find(kName);
  expect(at != head.npos, "a response has a length");
  std::size_t length = 0;
  std::from_chars(head.data() + at + kName.size(), head.data() + head.size(), length);
  return length;
}

// A response to HEAD has a length and no body.
std::vector<std::string_view> responses_in(std::string_view answer, bool heads) {
  std::vector<std::string_view> responses;
  while (!answer.empty()) {
    expect(answer.starts_with("HTTP/1.1 "), "an answer is a sequence of responses");
    const std::size_t end = answer.find("\r\n\r\n");
    expect(end != answer.npos, "the head of a response is complete");
    const std::string_view head = answer.substr(0, end + 4);
    const std::string_view rest = answer.substr(head.size());
    const bool bodiless = head.starts_with("HTTP/1.1 100 ") ||
                          (heads && (rest.empty() || rest.starts_with("HTTP/1.1 ")));
    const std::size_t length = bodiless ? 0 : length_in(head);
    expect(length <= rest.size(), "the body of a response is complete");
    responses.push_back(answer.substr(0, head.size() + length));
    answer = rest.substr(length);
  }
  return responses;
}

// The last response may be that to a request that is not HTTP, or too long. Whether this is found
// before the rest of the request arrives depends on the parts.
void remove_refusal(std::vector<std::string_view>& responses) {
  if (responses.empty()) return;
  for (const char* const status : {"400", "413", "431"}) {
    if (responses.back().substr(9, 3) == status) return responses.pop_back();
  }
}

}  // namespace

MGPU_FUZZER(http_session) {
  const Exchanged whole = exchange({input});
  const Exchanged in_pieces = exchange(in_parts(input));
  // Beast counts a few bytes more or less of a header, which depends on the parts.
  const bool at_limit = whole.answer.find("HTTP/1.1 431 ") != std::string::npos ||
                        in_pieces.answer.find("HTTP/1.1 431 ") != std::string::npos;
  if (at_limit) return;
  expect(whole.requests == in_pieces.requests, "requests do not depend on the parts of a stream");
  const bool heads = input.find("HEAD") != input.npos;
  auto responses = responses_in(whole.answer, heads);
  auto others = responses_in(in_pieces.answer, heads);
  remove_refusal(responses);
  remove_refusal(others);
  expect(responses == others,
         "responses do not depend on the parts of a stream: " + whole.answer + in_pieces.answer);
}

}  // namespace mgpu::fuzz
