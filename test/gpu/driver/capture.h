// Streams that are captured: their work becomes a graph and is not run.
#pragma once

#include <functional>
#include <set>
#include <thread>

#include "test/gpu/driver/graphs.h"

namespace mgpu::fake_gpu {

struct Stream;

// CUstreamCaptureMode
enum class CaptureMode : int { global = 0, thread = 1, relaxed = 2 };

struct Capture {
  Graph* graph = nullptr;
  Stream* origin = nullptr;
  std::uint64_t id = 0;
  CaptureMode mode = CaptureMode::global;
  std::thread::id thread{};
  bool invalid = false;
  std::set<const Stream*> unjoined{};  // whose work the origin does not wait for yet
};

// --- with the lock of the process ---

// Null if it is not captured.
Capture* capture_of(const Stream* stream);
// For a call that a captured stream does not allow, which ends the capture.
int refuse_captured(Capture& capture, int code);
// A call that may not be made while something is captured, as modes say: kSuccess where it may.
int check_uncaptured();

// --- without it ---

// Runs the work of a function that queues it, or adds it to what is captured.
int queue(Stream* stream, NodeKind kind, Work work);

}  // namespace mgpu::fake_gpu
