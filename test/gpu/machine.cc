#include "test/gpu/machine.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>

namespace mgpu::fake_gpu {
namespace {

// Bytes of the file that are locked. They need not exist.
constexpr int kMachineByte = 0;
constexpr int kFirstProcessByte = 1 << 20;
constexpr int kFirstSharedByte = 2 << 20;

struct flock lock_of(short type, int byte) {
  struct flock lock {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  lock.l_start = byte;
  lock.l_len = 1;
  return lock;
}

void lock_byte(int file, short type, int byte) {
  struct flock lock = lock_of(type, byte);
  while (::fcntl(file, F_OFD_SETLKW, &lock) != 0 && errno == EINTR) {
  }
}

bool has_bit(const Word* words, int bit) {
  return ((words[bit / 64] >> (bit % 64)) & 1) != 0;
}

void set_bit(Word* words, int bit) {
  words[bit / 64] |= std::uint64_t{1} << (bit % 64);
}

void clear_bit(Word* words, int bit) {
  words[bit / 64] &= ~(std::uint64_t{1} << (bit % 64));
}

std::uint64_t pid_on_node(const std::string& machine) {
  char target[32] = {};
  const std::string link = machine.substr(0, machine.rfind('/') + 1) + "proc/self";
  const bool known = ::readlink(link.c_str(), target, sizeof target - 1) > 0;
  return known ? std::strtoull(target, nullptr, 10) : static_cast<std::uint64_t>(::getpid());
}

}  // namespace

Machine::Lock::Lock(Machine& machine, bool removes_ended)
    : machine_(machine), guard_(machine.mutex_) {
  lock_byte(machine_.file_, F_WRLCK, kMachineByte);
  if (removes_ended) machine_.remove_ended();
}

Machine::Lock::~Lock() {
  lock_byte(machine_.file_, F_UNLCK, kMachineByte);
}

std::unique_ptr<Machine> Machine::open(const std::string& path, std::string& why) {
  const int file = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (file < 0) {
    why = "cannot open the machine \"" + path + "\": " + std::strerror(errno);
    return nullptr;
  }
  struct stat status {};
  void* memory = MAP_FAILED;
  if (::fstat(file, &status) == 0 && status.st_size == sizeof(MachineState)) {
    memory = ::mmap(nullptr, sizeof(MachineState), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  }
  auto* const state = static_cast<MachineState*>(memory);
  if (memory == MAP_FAILED || std::memcmp(state->magic, kMagic, sizeof kMagic) != 0 ||
      state->size != sizeof(MachineState)) {
    if (memory != MAP_FAILED) ::munmap(memory, sizeof(MachineState));
    ::close(file);
    why = "\"" + path + "\" is not a machine of this version; want a file of fake_gpu_machine";
    return nullptr;
  }
  return std::unique_ptr<Machine>(new Machine(path, file, state));
}

Machine::Machine(std::string path, int file, MachineState* state)
    : path_(std::move(path)), file_(file), state_(state) {
  for (; count_ < state_->device_count; ++count_) order_[count_] = count_;
}

void Machine::enumerate_as_cuda() {
  int count = 0;
  for (int i = 0; i < state_->device_count; ++i) {
    if (state_->cards[i].is_mig == 0 && state_->cards[i].parent < 0) order_[count++] = i;
    if (state_->cards[i].parent < 0) continue;
    order_[0] = i;
    count = 1;
    break;
  }
  count_ = count;
}

int Machine::index_of(const std::string& uuid) const {
  int found = count_ - 1;
  while (found >= 0 && uuid != card(found).uuid) --found;
  return found;
}

std::string Machine::link(int index, int other) const {
  return order_[other] < kCardsMax ? card(index).links[order_[other]].text : "";
}

bool Machine::is_lost(int index) const {
  const CardState& found = card(index);
  return (found.parent < 0 ? found : state_->cards[found.parent]).health.lost != 0;
}

// Whoever reads the count finds the number.
void Machine::send_xid(int index, std::uint32_t xid) {
  const Lock lock(*this);
  CardState& reporting = card(index);
  reporting.sent_xids[reporting.sent_count % kXidsMax] = xid;
  ++reporting.sent_count;
}

Machine::~Machine() {
  if (file_ >= 0) forget_in_child();
}

// The mapping would keep the locks as well.
void Machine::forget_in_child() {
  ::munmap(state_, sizeof(MachineState));
  ::close(file_);
  file_ = -1;
}

// --- ended processes -----------------------------------------------------------------------------

// Whether another open file has a lock on the byte.
bool Machine::is_held(int byte) const {
  struct flock lock = lock_of(F_WRLCK, byte);
  return ::fcntl(file_, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

bool Machine::has_holder(const SharedState& shared) const {
  return std::any_of(std::begin(shared.holders), std::end(shared.holders),
                     [](const Word& word) { return word != 0; });
}

void Machine::remove_ended() {
  for (int i = 0; i < state_->processes_end; ++i) {
    ProcessState& process = state_->processes[i];
    if (process.used == 0 || i == slot_ || is_held(kFirstProcessByte + i)) continue;
    for (SharedState& shared : shared_in_use()) clear_bit(shared.holders, i);
    if (process.has_work != 0) ++state_->broken_clients;
    process.used = 0;
  }
  for (int i = 0; i < state_->shared_end; ++i) {
    SharedState& shared = state_->shared[i];
    if (shared.used == 0 || has_holder(shared) || is_held(kFirstSharedByte + i)) continue;
    shared.used = 0;
  }
}

bool Machine::join() {
  const Lock lock(*this);
  for (int i = 0; i < kProcessesMax && slot_ < 0; ++i) {
    ProcessState& process = state_->processes[i];
    if (process.used != 0) continue;
    for (int card = 0; card < kDevicesMax; ++card) {
      process.charged[card] = process.hidden[card] = 0;
      for (BusyState& busy : process.busy[card]) busy.all = busy.before = busy.percent = 0;
    }
    process.pid = pid_on_node(path_);
    process.is_mps_client = process.has_work = 0;
    process.uses_time = process.waiting = process.running = 0;
    lock_byte(file_, F_WRLCK, kFirstProcessByte + i);
    state_->processes_end = std::max(state_->processes_end.load(), i + 1);
    process.used = 1;
    slot_ = i;
  }
  return slot_ >= 0;
}

std::uint64_t Machine::pid() const {
  return slot_ >= 0 ? state_->processes[slot_].pid.load() : 0;
}

void Machine::become_mps_client() {
  if (slot_ >= 0) state_->processes[slot_].is_mps_client = 1;
}

void Machine::set_work(bool has_work) {
  if (slot_ >= 0) state_->processes[slot_].has_work = has_work ? 1 : 0;
}

std::uint64_t Machine::broken_clients() {
  const Lock lock(*this);
  return state_->broken_clients;
}

// --- memory --------------------------------------------------------------------------------------

std::uint64_t Machine::total(int index) const {
  const CardState& state = card(index);
  return state.memory - std::min(state.reserved, state.memory);
}

std::uint64_t Machine::free_locked(int index) const {
  const int card = order_[index];
  std::uint64_t used = state_->cards[card].idle;
  for (int i = 0; i < state_->processes_end; ++i) {
    const ProcessState& process = state_->processes[i];
    if (process.used != 0) used += process.charged[card] + process.hidden[card];
  }
  for (const SharedState& shared : shared_in_use()) {
    if (shared.used != 0 && shared.card == static_cast<std::uint64_t>(card)) used += shared.bytes;
  }
  return total(index) - std::min(used, total(index));
}

std::uint64_t Machine::free(int card, std::uint64_t enough) {
  const Lock lock(*this, false);
  if (free_locked(card) < enough) remove_ended();
  return free_locked(card);
}

std::int64_t Machine::occupy(int card, std::int64_t from, std::int64_t duration) {
  Word& busy = state_->cards[order_[card]].busy_until;
  std::uint64_t before = busy;
  std::uint64_t end = 0;
  do {
    end = std::max(before, static_cast<std::uint64_t>(from)) + static_cast<std::uint64_t>(duration);
  } while (!busy.compare_exchange_weak(before, end));
  return static_cast<std::int64_t>(end);
}

unsigned Machine::utilization(int card) const {
  const CardState& its = state_->cards[order_[card]];
  if (is_virtual()) return static_cast<unsigned>(its.busy[state_->step % 2].percent);
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  const auto nanoseconds = std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
  return its.busy_until > static_cast<std::uint64_t>(nanoseconds) ? 100 : 0;
}

bool Machine::take(int card, std::uint64_t bytes, Account account) {
  const Lock lock(*this, false);
  if (bytes > free_locked(card)) remove_ended();
  if (slot_ < 0 || bytes > free_locked(card)) return false;
  ProcessState& mine = state_->processes[slot_];
  (account == Account::charged ? mine.charged : mine.hidden)[order_[card]] += bytes;
  return true;
}

void Machine::give_back(int card, std::uint64_t bytes, Account account) {
  const Lock lock(*this, false);
  if (slot_ < 0) return;
  ProcessState& mine = state_->processes[slot_];
  (account == Account::charged ? mine.charged : mine.hidden)[order_[card]] -= bytes;
}

std::uint64_t Machine::taken(int card) const {
  if (slot_ < 0) return 0;
  const ProcessState& mine = state_->processes[slot_];
  return mine.charged[order_[card]] + mine.hidden[order_[card]];
}

std::vector<ProcessUse> Machine::processes(int index) {
  const Lock lock(*this);
  const int card = order_[index];
  std::vector<ProcessUse> uses(kProcessesMax);
  for (int i = 0; i < state_->processes_end; ++i) {
    const ProcessState& process = state_->processes[i];
    if (process.used != 0)
      uses.at(static_cast<std::size_t>(i)) = {
          process.pid, process.charged[card], process.is_mps_client != 0,
          static_cast<unsigned>(process.busy[card][state_->step % 2].percent)};
  }
  for (const SharedState& shared : shared_in_use()) {
    if (shared.used == 0 || shared.card != static_cast<std::uint64_t>(card)) continue;
    int holder = static_cast<int>(shared.owner.load());
    for (int i = 0; i < kProcessesMax && !has_bit(shared.holders, holder); ++i) holder = i;
    if (has_bit(shared.holders, holder))
      uses.at(static_cast<std::size_t>(holder)).bytes += shared.bytes;
  }
  std::erase_if(uses, [](const ProcessUse& use) { return use.bytes == 0; });
  return uses;
}

// --- shared memory -------------------------------------------------------------------------------

SharedMemory Machine::share(int card, std::uint64_t bytes) {
  const Lock lock(*this);
  for (int i = 0; i < kSharedMax && slot_ >= 0; ++i) {
    SharedState& shared = state_->shared[i];
    if (shared.used != 0) continue;
    shared.id = ++state_->last_id;
    shared.card = static_cast<std::uint64_t>(order_[card]);
    shared.bytes = bytes;
    shared.owner = static_cast<std::uint64_t>(slot_);
    for (Word& word : shared.holders) word = 0;
    set_bit(shared.holders, slot_);
    state_->shared_end = std::max(state_->shared_end.load(), i + 1);
    shared.used = 1;
    state_->processes[slot_].charged[order_[card]] -= bytes;
    return {i, shared.id};
  }
  return {};
}

SharedState* Machine::find(const SharedMemory& shared) {
  if (shared.index < 0 || shared.index >= kSharedMax) return nullptr;
  SharedState& found = state_->shared[shared.index];
  return found.used != 0 && found.id == shared.id ? &found : nullptr;
}

int Machine::hold(const SharedMemory& shared, std::uint64_t& bytes) {
  const Lock lock(*this);
  SharedState* const found = find(shared);
  const int* const end = order_ + count_;
  const int* card = found != nullptr ? order_ : end;
  while (card != end && static_cast<std::uint64_t>(*card) != found->card) ++card;
  if (card == end || slot_ < 0) return -1;
  set_bit(found->holders, slot_);
  bytes = found->bytes;
  return static_cast<int>(card - order_);
}

void Machine::drop(const SharedMemory& shared) {
  const Lock lock(*this);
  SharedState* const found = find(shared);
  if (found == nullptr || slot_ < 0) return;
  clear_bit(found->holders, slot_);
  remove_ended();
}

// The file is this one, opened again, so that its lock is its own. Its offset is the index, which a
// file descriptor that is sent to another process keeps.
int Machine::export_file(const SharedMemory& shared) {
  const Lock lock(*this);
  if (find(shared) == nullptr) return -1;
  const std::string path = "/proc/self/fd/" + std::to_string(file_);
  const int file = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (file < 0) return -1;
  lock_byte(file, F_RDLCK, kFirstSharedByte + shared.index);
  ::lseek(file, kFirstSharedByte + shared.index, SEEK_SET);
  return file;
}

SharedMemory Machine::imported(int file) {
  const Lock lock(*this);
  struct stat mine {};
  struct stat other {};
  if (::fstat(file_, &mine) != 0 || ::fstat(file, &other) != 0 || mine.st_ino != other.st_ino ||
      mine.st_dev != other.st_dev) {
    return {};
  }
  const int index = static_cast<int>(::lseek(file, 0, SEEK_CUR)) - kFirstSharedByte;
  if (index < 0 || index >= kSharedMax || state_->shared[index].used == 0) return {};
  return {index, state_->shared[index].id};
}

}  // namespace mgpu::fake_gpu
