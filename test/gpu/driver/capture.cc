// As the documents of cuStreamBeginCapture, cuStreamEndCapture and
// cuThreadExchangeStreamCaptureMode say. The default streams cannot be captured here, also not that
// of a thread.
#include "test/gpu/driver/capture.h"

#include "test/gpu/driver/process.h"

using namespace mgpu::fake_gpu;

namespace mgpu::fake_gpu {
namespace {

thread_local CaptureMode mode_of_thread = CaptureMode::global;

bool forbids(const Capture& capture) {
  if (capture.mode == CaptureMode::relaxed || mode_of_thread == CaptureMode::relaxed) return false;
  if (capture.thread == std::this_thread::get_id()) return true;
  return capture.mode == CaptureMode::global && mode_of_thread == CaptureMode::global;
}

int begin(Stream* stream, int mode) {
  return in_context([&](Context&) {
    if (mode < 0 || mode > 2) return kInvalidValue;
    if (is_default(stream)) return kCaptureUnsupported;
    if (!process().streams.contains(stream)) return kInvalidHandle;
    if (stream->capture != nullptr) return kIllegalState;
    stream->capture = std::make_shared<Capture>(Capture{.graph = create_graph(),
                                                        .origin = stream,
                                                        .id = ++process().last_id,
                                                        .mode = static_cast<CaptureMode>(mode),
                                                        .thread = std::this_thread::get_id()});
    return kSuccess;
  });
}

int end(Stream* stream, Graph** graph) {
  return in_context([&](Context&) {
    if (graph == nullptr) return kInvalidValue;
    if (capture_of(stream) == nullptr) return kIllegalState;
    const std::shared_ptr<Capture> capture = stream->capture;
    if (capture->origin != stream) return refuse_captured(*capture, kCaptureUnmatched);
    if (capture->mode != CaptureMode::relaxed && capture->thread != std::this_thread::get_id()) {
      return refuse_captured(*capture, kCaptureWrongThread);
    }
    for (Stream* const other : process().streams) {
      if (other->capture == capture) other->capture = nullptr;
    }
    const bool whole = !capture->invalid && capture->unjoined.empty();
    *graph = whole ? capture->graph : nullptr;
    if (whole) return kSuccess;
    destroy_graph(capture->graph);
    return capture->invalid ? kCaptureInvalidated : kCaptureUnjoined;
  });
}

int describe(Stream* stream, int* status, std::uint64_t* id, Graph** graph) {
  return in_context([&](Context&) {
    if (!is_default(stream) && !process().streams.contains(stream)) return kInvalidHandle;
    if (status == nullptr) return kInvalidValue;
    const Capture* const capture = capture_of(stream);
    *status = capture == nullptr ? 0 : capture->invalid ? 2 : 1;
    if (capture == nullptr || capture->invalid) return kSuccess;
    if (id != nullptr) *id = capture->id;
    if (graph != nullptr) *graph = capture->graph;
    return kSuccess;
  });
}

}  // namespace

Capture* capture_of(const Stream* stream) {
  if (is_default(stream) || !process().streams.contains(const_cast<Stream*>(stream))) {
    return nullptr;
  }
  return stream->capture.get();
}

int refuse_captured(Capture& capture, int code) {
  capture.invalid = true;
  return code;
}

int check_uncaptured() {
  int code = kSuccess;
  for (const Stream* const stream : process().streams) {
    if (stream->capture == nullptr || !forbids(*stream->capture)) continue;
    code = refuse_captured(*stream->capture, kCaptureUnsupported);
  }
  return code;
}

int queue(Stream* stream, NodeKind kind, Work work) {
  constexpr int kRuns = -1;
  const int code = initialized([&] {
    Capture* const capture = capture_of(stream);
    if (capture == nullptr) return kRuns;
    if (capture->invalid) return kCaptureInvalidated;
    add_work(*capture->graph, kind, std::move(work));
    return kSuccess;
  });
  if (code != kRuns) return code;
  const RunningIn running(stream);
  return work();
}

}  // namespace mgpu::fake_gpu

FAKE_CUDA int cuStreamBeginCapture_v2(Stream* stream, int mode) {
  return begin(stream, mode);
}
FAKE_CUDA_ALIAS(cuStreamBeginCapture_v2_ptsz, cuStreamBeginCapture_v2);

FAKE_CUDA int cuStreamBeginCapture(Stream* stream) {
  return begin(stream, 0);
}
FAKE_CUDA_ALIAS(cuStreamBeginCapture_ptsz, cuStreamBeginCapture);

FAKE_CUDA int cuStreamEndCapture(Stream* stream, Graph** graph) {
  return end(stream, graph);
}
FAKE_CUDA_ALIAS(cuStreamEndCapture_ptsz, cuStreamEndCapture);

FAKE_CUDA int cuStreamIsCapturing(Stream* stream, int* status) {
  return describe(stream, status, nullptr, nullptr);
}
FAKE_CUDA_ALIAS(cuStreamIsCapturing_ptsz, cuStreamIsCapturing);

FAKE_CUDA int cuStreamGetCaptureInfo(Stream* stream, int* status, std::uint64_t* id) {
  return describe(stream, status, id, nullptr);
}
FAKE_CUDA_ALIAS(cuStreamGetCaptureInfo_ptsz, cuStreamGetCaptureInfo);

// Nodes are run in the order in which they were captured, so that none depends on others here.
FAKE_CUDA int cuStreamGetCaptureInfo_v2(Stream* stream, int* status, std::uint64_t* id,
                                        Graph** graph, const void*** nodes, std::size_t* count) {
  if (nodes != nullptr) *nodes = nullptr;
  if (count != nullptr) *count = 0;
  return describe(stream, status, id, graph);
}
FAKE_CUDA_ALIAS(cuStreamGetCaptureInfo_v2_ptsz, cuStreamGetCaptureInfo_v2);

FAKE_CUDA int cuStreamGetCaptureInfo_v3(Stream* stream, int* status, std::uint64_t* id,
                                        Graph** graph, const void*** nodes, const void** edges,
                                        std::size_t* count) {
  if (edges != nullptr) *edges = nullptr;
  return cuStreamGetCaptureInfo_v2(stream, status, id, graph, nodes, count);
}
FAKE_CUDA_ALIAS(cuStreamGetCaptureInfo_v3_ptsz, cuStreamGetCaptureInfo_v3);

FAKE_CUDA int cuThreadExchangeStreamCaptureMode(int* mode) {
  return initialized([&] {
    if (mode == nullptr || *mode < 0 || *mode > 2) return kInvalidValue;
    const CaptureMode before = mode_of_thread;
    mode_of_thread = static_cast<CaptureMode>(*mode);
    *mode = static_cast<int>(before);
    return kSuccess;
  });
}
