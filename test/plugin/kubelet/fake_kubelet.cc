#include "test/plugin/kubelet/fake_kubelet.h"

#include <deviceplugin.grpc.pb.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <mutex>
#include <thread>
#include <utility>

#include "common/base/check.h"

namespace mgpu::test {

using namespace plugin;

namespace {

using Clock = std::chrono::system_clock;
using Ids = std::vector<std::string>;

Error error_of(const grpc::Status& status) {
  return error(std::to_string(status.error_code()) + " " + status.error_message());
}

AllocateAnswer value_of(const v1beta1::ContainerAllocateResponse& response) {
  AllocateAnswer answer;
  for (const auto& [name, value] : response.envs()) answer.environment[name] = value;
  for (const auto& device : response.cdi_devices()) answer.cdi_devices.push_back(device.name());
  answer.annotations = {response.annotations().begin(), response.annotations().end()};
  return answer;
}

// One plugin, as kubelet's client.go.
struct Client {
  std::shared_ptr<grpc::Channel> channel;
  std::unique_ptr<v1beta1::DevicePlugin::Stub> stub;
  grpc::ClientContext stream;
  bool pre_start_required = false;
  std::optional<Ids> devices;
};

int open_socket(const std::string& path, sockaddr_un& address) {
  MGPU_CHECK(path.size() < sizeof address.sun_path, "a short path");
  address.sun_family = AF_UNIX;
  std::ranges::copy(path, address.sun_path);
  return ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
}

}  // namespace

bool eventually(const std::function<bool()>& condition) {
  const auto until = Clock::now() + kKubeletWait;
  while (!condition()) {
    if (Clock::now() >= until) return false;
    ::poll(nullptr, 0, 2);
  }
  return true;
}

TemporaryFolder::TemporaryFolder() {
  path_ = std::filesystem::temp_directory_path() / "mgpu-kubelet-XXXXXX";
  MGPU_CHECK(mkdtemp(path_.data()) != nullptr, "a temporary folder can be made");
}

TemporaryFolder::~TemporaryFolder() {
  std::filesystem::remove_all(path_);
}

struct FakeKubelet::State final : v1beta1::Registration::Service {
  explicit State(std::string at) : folder(std::move(at)) {}

  grpc::Status Register(grpc::ServerContext* context, const v1beta1::RegisterRequest* request,
                        v1beta1::Empty* response) override;
  grpc::Status connect(const std::string& resource, const std::string& endpoint);
  void read_list(const std::string& resource, Client& client);
  void drop(const std::string& resource);
  std::shared_ptr<Client> client(const std::string& resource) const;

  const std::string folder;
  mutable std::mutex mutex;
  std::map<std::string, std::shared_ptr<Client>> clients;    // as in handler.go
  std::map<std::string, std::shared_ptr<Client>> endpoints;  // as in manager.go; calls go there
  std::map<std::string, int> lists;
  std::vector<std::string> registrations;
  std::string refusal;
  bool hold = false;
  std::vector<std::shared_ptr<Client>> connected;  // since it started
  std::vector<std::thread> readers;
  std::unique_ptr<grpc::Server> server;
};

grpc::Status FakeKubelet::State::Register(grpc::ServerContext* context,
                                          const v1beta1::RegisterRequest* request,
                                          v1beta1::Empty*) {
  std::unique_lock lock(mutex);
  registrations.push_back(request->resource_name() + " " + request->endpoint() + " " +
                          request->version());
  const std::string reason = refusal;
  lock.unlock();
  if (!reason.empty()) return {grpc::StatusCode::UNKNOWN, reason};
  const auto held = [&] {
    const std::lock_guard guard(mutex);
    return hold && !context->IsCancelled();
  };
  eventually([&] { return !held(); });
  return connect(request->resource_name(), request->endpoint());
}

grpc::Status FakeKubelet::State::connect(const std::string& resource, const std::string& endpoint) {
  auto made = std::make_shared<Client>();
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  made->channel = grpc::CreateCustomChannel("unix:" + folder + "/" + endpoint,
                                            grpc::InsecureChannelCredentials(), arguments);
  made->stub = v1beta1::DevicePlugin::NewStub(made->channel);
  std::unique_lock lock(mutex);
  clients[resource] = made;
  lock.unlock();
  grpc::ClientContext context;
  context.set_deadline(Clock::now() + std::chrono::seconds(10));
  context.set_wait_for_ready(true);
  v1beta1::DevicePluginOptions options;
  const auto status = made->stub->GetDevicePluginOptions(&context, {}, &options);
  lock.lock();
  if (!status.ok()) {
    clients.erase(resource);
    return status;
  }
  made->pre_start_required = options.pre_start_required();
  endpoints[resource] = made;
  connected.push_back(made);
  readers.emplace_back([this, resource, made] { read_list(resource, *made); });
  return grpc::Status::OK;
}

void FakeKubelet::State::read_list(const std::string& resource, Client& client) {
  const auto stream = client.stub->ListAndWatch(&client.stream, {});
  v1beta1::ListAndWatchResponse response;
  while (stream->Read(&response)) {
    Ids devices;
    for (const auto& device : response.devices()) {
      MGPU_CHECK(device.health() == "Healthy", "only healthy devices are sent");
      devices.push_back(device.id());
    }
    const std::lock_guard lock(mutex);
    ++lists[resource];
    client.devices = std::move(devices);
  }
  (void)stream->Finish();
  drop(resource);
}

// Also a plugin that has registered since then, as kubelet's deregisterClient.
void FakeKubelet::State::drop(const std::string& resource) {
  const std::lock_guard lock(mutex);
  const auto found = clients.find(resource);
  if (found == clients.end()) return;
  found->second->stream.TryCancel();
  clients.erase(found);
  endpoints.erase(resource);
}

std::shared_ptr<Client> FakeKubelet::State::client(const std::string& resource) const {
  const std::lock_guard lock(mutex);
  const auto found = endpoints.find(resource);
  return found == endpoints.end() ? nullptr : found->second;
}

FakeKubelet::FakeKubelet(std::string folder) : state_(std::make_unique<State>(std::move(folder))) {
  for (const auto& entry : std::filesystem::directory_iterator(state_->folder)) {
    if (entry.is_socket()) std::filesystem::remove(entry.path());
  }
  grpc::ServerBuilder builder;
  builder.AddListeningPort("unix:" + state_->folder + "/kubelet.sock",
                           grpc::InsecureServerCredentials());
  builder.RegisterService(state_.get());
  state_->server = builder.BuildAndStart();
  MGPU_CHECK(state_->server != nullptr, "kubelet.sock can be served");
}

FakeKubelet::~FakeKubelet() {
  state_->server->Shutdown(Clock::now());
  std::vector<std::thread> readers;
  {
    const std::lock_guard lock(state_->mutex);
    for (auto& client : state_->connected) client->stream.TryCancel();
    readers.swap(state_->readers);
  }
  for (std::thread& reader : readers) reader.join();
}

void FakeKubelet::refuse(std::string reason) {
  const std::lock_guard lock(state_->mutex);
  state_->refusal = std::move(reason);
}

void FakeKubelet::hold_registrations(bool hold) {
  const std::lock_guard lock(state_->mutex);
  state_->hold = hold;
}

void FakeKubelet::cut_stream(const std::string& resource) {
  if (const auto client = state_->client(resource)) client->stream.TryCancel();
}

std::vector<std::string> FakeKubelet::registrations() const {
  const std::lock_guard lock(state_->mutex);
  return state_->registrations;
}

int FakeKubelet::lists(const std::string& resource) const {
  const std::lock_guard lock(state_->mutex);
  const auto found = state_->lists.find(resource);
  return found == state_->lists.end() ? 0 : found->second;
}

std::optional<Ids> FakeKubelet::devices(const std::string& resource) const {
  const std::lock_guard lock(state_->mutex);
  const auto found = state_->endpoints.find(resource);
  if (found == state_->endpoints.end()) return std::nullopt;
  return found->second->devices;
}

bool FakeKubelet::pre_start_required(const std::string& resource) const {
  const auto client = state_->client(resource);
  return client && client->pre_start_required;
}

Result<std::vector<AllocateAnswer>> FakeKubelet::allocate(const std::string& resource,
                                                          const std::vector<Ids>& requests) {
  const auto client = state_->client(resource);
  if (!client) return error("no plugin");
  v1beta1::AllocateRequest request;
  for (const Ids& ids : requests) {
    auto& added = *request.add_container_requests();
    for (const std::string& id : ids) added.add_devices_ids(id);
  }
  grpc::ClientContext context;
  v1beta1::AllocateResponse response;
  const auto status = client->stub->Allocate(&context, request, &response);
  if (!status.ok()) return error_of(status);
  std::vector<AllocateAnswer> answers;
  for (const auto& one : response.container_responses()) answers.push_back(value_of(one));
  return answers;
}

Result<void> FakeKubelet::pre_start(const std::string& resource, const Ids& ids,
                                    std::chrono::milliseconds timeout) {
  const auto client = state_->client(resource);
  if (!client) return error("no plugin");
  v1beta1::PreStartContainerRequest request;
  for (const std::string& id : ids) request.add_devices_ids(id);
  grpc::ClientContext context;
  context.set_deadline(Clock::now() + timeout);
  v1beta1::PreStartContainerResponse response;
  const auto status = client->stub->PreStartContainer(&context, request, &response);
  if (!status.ok()) return error_of(status);
  return {};
}

Result<void> FakeKubelet::preferred_allocation(const std::string& resource) {
  const auto client = state_->client(resource);
  if (!client) return error("no plugin");
  grpc::ClientContext context;
  v1beta1::PreferredAllocationResponse response;
  const auto status = client->stub->GetPreferredAllocation(&context, {}, &response);
  if (!status.ok()) return error_of(status);
  return {};
}

int call_with_bytes(const std::string& socket, const std::string& method, std::string_view bytes) {
  grpc::GenericStub stub(grpc::CreateChannel("unix:" + socket, grpc::InsecureChannelCredentials()));
  const grpc::Slice slice(bytes.data(), bytes.size());
  const grpc::ByteBuffer request(&slice, 1);
  grpc::ByteBuffer response;
  grpc::ClientContext context;
  context.set_deadline(Clock::now() + kKubeletWait);
  grpc::CompletionQueue queue;
  const auto call = stub.PrepareUnaryCall(&context, "/" + method, request, &queue);
  call->StartCall();
  grpc::Status status;
  call->Finish(&response, &status, nullptr);
  void* tag = nullptr;
  bool ok = false;
  (void)queue.Next(&tag, &ok);
  return status.error_code();
}

void send_raw_bytes(const std::string& socket, std::string_view bytes) {
  sockaddr_un address{};
  const int connection = open_socket(socket, address);
  if (::connect(connection, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) {
    (void)::send(connection, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    char answer[256];
    pollfd readable{.fd = connection, .events = POLLIN, .revents = 0};
    if (::poll(&readable, 1, 5) > 0) (void)::recv(connection, answer, sizeof answer, MSG_DONTWAIT);
  }
  ::close(connection);
}

void leave_dead_socket(const std::string& path) {
  std::filesystem::remove(path);
  sockaddr_un address{};
  const int socket = open_socket(path, address);
  MGPU_CHECK(::bind(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0,
             "a socket can be made");
  ::close(socket);
}

}  // namespace mgpu::test
