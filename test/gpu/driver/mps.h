// Whether this process is a client of MPS, and what limits it: MPS, the compute mode of a card, and
// the driver's limits of cgroups.
//
// It is a client if the folder CUDA_MPS_PIPE_DIRECTORY has a socket "control" that accepts
// connections (test/gpu/mps_control.cc). It sends "client <pid>", reads "ok", with the limits of
// its namespace if it has one, "full" or "fault", and keeps the connection open. Without a
// connection it runs without MPS and its limits, as CUDA does. Of a list, the entry of the card is
// read.
//
// Faults (faults.h):
//   no-mps              programs run outside of MPS, as if there were no daemon
//   no-limit            neither MPS nor the driver enforces a memory limit
//   limit-together      in a container only the first allocation of over 1 GiB succeeds, as if the
//                       limit counted for all its processes
//   no-share            MPS does not enforce the thread percentage of a client
//   no-read-only-pipe   clients of MPS fail if their pipe directory is read-only
//   shared-fault        a client that is killed while its kernels run ends those beside it (seen on
//                       an H200)
//   no-exclusive        EXCLUSIVE_PROCESS has no effect
//   stays-exclusive     another mode that is set afterwards has none
#pragma once

#include <cstdint>
#include <optional>

namespace mgpu::fake_gpu {

// Once the machine is open.
void join_mps();
bool is_mps_client();
// Whether the server has closed the connection of a client.
bool has_lost_mps();
// The result of a call of a client whose context MPS has ended.
int failure_of_mps();
// In the child of a fork.
void leave_mps();

// Waits. Returns false as soon as the server has closed the connection of a client.
bool wait_connected(std::int64_t nanoseconds);

// The result of a context's beginning where MPS or the compute mode allows none.
int refuse_context(int card);
// The part of the multiprocessors that this process can use.
double percent_of_card();
// What this process may take of the card beyond what it has; not set without a limit.
std::optional<std::uint64_t> left_of_limits(int card);
// Whether the limits allow it.
bool may_take(int card, std::uint64_t bytes);

}  // namespace mgpu::fake_gpu
