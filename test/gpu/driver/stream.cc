// Streams and events. All work but kernels that take time (time.h) completes as soon as it is
// queued.
#include <algorithm>

#include "test/gpu/driver/pools.h"
#include "test/gpu/driver/process.h"

using namespace mgpu::fake_gpu;

namespace mgpu::fake_gpu {
namespace {

// This gives what was measured: one takes nothing, 64 take 34 MiB, 128 70, and 1,128 616.
constexpr std::size_t kPagesOfStreams = 35;
constexpr std::size_t kStreamsOfPages = 128;

// The result of run(context), with the context of the stream.
template <class Run>
int on_stream(Stream* stream, Run run) {
  return in_context([&](Context& current) {
    if (is_default(stream)) return run(current);
    return process().streams.contains(stream) ? run(*stream->context) : kInvalidHandle;
  });
}

int create_stream(Stream** result, unsigned flags, int priority) {
  return in_context([&](Context& context) {
    if (result == nullptr || flags > 1) return kInvalidValue;
    const std::size_t pages = (context.streams.size() + 1) * kPagesOfStreams / kStreamsOfPages;
    while (context.stream_blocks.size() < pages) {
      const BlockPointer block = take_block(context.card, kPage);
      if (block == nullptr) return kOutOfMemory;
      context.stream_blocks.push_back(block);
    }
    *result = new Stream{.context = &context, .flags = flags, .priority = priority};
    context.streams.insert(*result);
    process().streams.insert(*result);
    return kSuccess;
  });
}

// A stream that waits for a captured event is captured with it.
int wait_for_event(Context& context, Stream* stream, const Event& event) {
  Capture* const own = capture_of(stream);
  if (own == nullptr && event.capture == nullptr) {
    add_before_next(context, stream, event.after);
    return kSuccess;
  }
  if (own == nullptr && is_default(stream)) {
    return refuse_captured(*event.capture, kCaptureUnsupported);
  }
  if (own == nullptr) {
    stream->capture = event.capture;
    event.capture->unjoined.insert(stream);
    return kSuccess;
  }
  if (event.capture == nullptr) {
    return event.recorded ? refuse_captured(*own, kCaptureIsolation) : kSuccess;
  }
  if (event.capture.get() != own) return refuse_captured(*own, kCaptureMerge);
  own->unjoined.erase(event.stream);
  return kSuccess;
}

// kNever until it is known.
std::int64_t time_of(const Event& event) {
  return std::max(event.recorded_at, latest(event.after));
}

template <class Run>
int on_event(Event* event, Run run) {
  return initialized(
      [&] { return process().events.contains(event) ? run(*event) : kInvalidHandle; });
}

}  // namespace
}  // namespace mgpu::fake_gpu

FAKE_CUDA int cuStreamCreate(Stream** stream, unsigned flags) {
  return create_stream(stream, flags, 0);
}

FAKE_CUDA int cuStreamCreateWithPriority(Stream** stream, unsigned flags, int priority) {
  return create_stream(stream, flags, priority);
}

FAKE_CUDA int cuStreamDestroy_v2(Stream* stream) {
  return initialized([&] {
    if (process().streams.erase(stream) == 0) return kInvalidHandle;
    Context& context = *stream->context;
    if (stream->capture != nullptr) stream->capture->invalid = true;
    context.streams.erase(stream);
    const std::size_t pages = context.streams.size() * kPagesOfStreams / kStreamsOfPages;
    if (context.stream_blocks.size() > pages) context.stream_blocks.resize(pages);
    delete stream;
    return kSuccess;
  });
}

FAKE_CUDA int cuStreamSynchronize(Stream* stream) {
  Moments before;
  const int code = on_stream(stream, [&](Context& context) {
    if (Capture* const capture = capture_of(stream)) {
      return refuse_captured(*capture, kCaptureUnsupported);
    }
    settle_pools(context.card);
    before = before_next(context, stream);
    return kSuccess;
  });
  return code == kSuccess ? wait_for(before) : code;
}
FAKE_CUDA_ALIAS(cuStreamSynchronize_ptsz, cuStreamSynchronize);

FAKE_CUDA int cuStreamQuery(Stream* stream) {
  const int code = on_stream(stream, [&](Context& context) {
    Capture* const capture = capture_of(stream);
    if (capture != nullptr) return refuse_captured(*capture, kCaptureUnsupported);
    settle();
    return latest(before_next(context, stream)) <= now() ? kSuccess : kNotReady;
  });
  if (code == kNotReady) pass_time_of_query();
  return code;
}
FAKE_CUDA_ALIAS(cuStreamQuery_ptsz, cuStreamQuery);

FAKE_CUDA int cuStreamWaitEvent(Stream* stream, Event* event, unsigned) {
  return on_stream(stream, [&](Context& context) {
    return process().events.contains(event) ? wait_for_event(context, stream, *event)
                                            : kInvalidHandle;
  });
}
FAKE_CUDA_ALIAS(cuStreamWaitEvent_ptsz, cuStreamWaitEvent);

FAKE_CUDA int cuStreamGetFlags(Stream* stream, unsigned* flags) {
  return on_stream(stream, [&](Context&) {
    *flags = is_default(stream) ? 0 : stream->flags;
    return kSuccess;
  });
}
FAKE_CUDA_ALIAS(cuStreamGetFlags_ptsz, cuStreamGetFlags);

FAKE_CUDA int cuStreamGetPriority(Stream* stream, int* priority) {
  return on_stream(stream, [&](Context&) {
    *priority = is_default(stream) ? 0 : stream->priority;
    return kSuccess;
  });
}
FAKE_CUDA_ALIAS(cuStreamGetPriority_ptsz, cuStreamGetPriority);

FAKE_CUDA int cuStreamGetId(Stream* stream, std::uint64_t* id) {
  return on_stream(stream, [&](Context&) {
    *id = reinterpret_cast<std::uint64_t>(stream);
    return kSuccess;
  });
}
FAKE_CUDA_ALIAS(cuStreamGetId_ptsz, cuStreamGetId);

FAKE_CUDA int cuStreamGetCtx(Stream* stream, Context** result) {
  return on_stream(stream, [&](Context& context) {
    *result = &context;
    return kSuccess;
  });
}
FAKE_CUDA_ALIAS(cuStreamGetCtx_ptsz, cuStreamGetCtx);

FAKE_CUDA int cuStreamGetDevice(Stream* stream, int* device) {
  return on_stream(stream, [&](Context& context) {
    *device = context.card;
    return kSuccess;
  });
}
FAKE_CUDA_ALIAS(cuStreamGetDevice_ptsz, cuStreamGetDevice);

FAKE_CUDA int cuStreamAttachMemAsync(Stream* stream, Pointer pointer, std::size_t, unsigned) {
  return on_stream(stream, [&](Context&) {
    return find_range(pointer, 1) != nullptr ? kSuccess : kInvalidValue;
  });
}
FAKE_CUDA_ALIAS(cuStreamAttachMemAsync_ptsz, cuStreamAttachMemAsync);

// The function of the program is called without the lock.
FAKE_CUDA int cuLaunchHostFunc(Stream* stream, void (*function)(void*), void* data) {
  const int code = on_stream(stream, [](Context&) { return kSuccess; });
  if (code != kSuccess) return code;
  return queue(stream, NodeKind::host, [=] {
    function(data);
    return kSuccess;
  });
}
FAKE_CUDA_ALIAS(cuLaunchHostFunc_ptsz, cuLaunchHostFunc);

FAKE_CUDA int cuStreamAddCallback(Stream* stream, void (*function)(Stream*, int, void*), void* data,
                                  unsigned) {
  const int code = on_stream(stream, [&](Context&) {
    Capture* const capture = capture_of(stream);
    return capture != nullptr ? refuse_captured(*capture, kCaptureUnsupported) : kSuccess;
  });
  if (code == kSuccess) function(stream, kSuccess, data);
  return code;
}
FAKE_CUDA_ALIAS(cuStreamAddCallback_ptsz, cuStreamAddCallback);

// --- events --------------------------------------------------------------------------------------

FAKE_CUDA int cuEventCreate(Event** event, unsigned) {
  return in_context([&](Context& context) {
    if (event == nullptr) return kInvalidValue;
    *event = new Event{.context = &context};
    process().events.insert(*event);
    return kSuccess;
  });
}

FAKE_CUDA int cuEventRecord(Event* event, Stream* stream) {
  return on_stream(stream, [&](Context& context) {
    if (!process().events.contains(event)) return kInvalidHandle;
    event->capture = is_default(stream) ? nullptr : stream->capture;
    event->stream = stream;
    event->recorded = event->capture == nullptr;
    event->recorded_at = now();
    event->after = before_next(context, stream);
    return kSuccess;
  });
}
FAKE_CUDA_ALIAS(cuEventRecord_ptsz, cuEventRecord);

FAKE_CUDA int cuEventRecordWithFlags(Event* event, Stream* stream, unsigned) {
  return cuEventRecord(event, stream);
}
FAKE_CUDA_ALIAS(cuEventRecordWithFlags_ptsz, cuEventRecordWithFlags);

FAKE_CUDA int cuEventQuery(Event* event) {
  const int code = on_event(event, [](Event& asked) {
    if (asked.capture != nullptr) return refuse_captured(*asked.capture, kCapturedEvent);
    settle();
    return time_of(asked) <= now() ? kSuccess : kNotReady;
  });
  if (code == kNotReady) pass_time_of_query();
  return code;
}

FAKE_CUDA int cuEventSynchronize(Event* event) {
  Moments before;
  const int code = on_event(event, [&](Event& waited) {
    if (waited.capture != nullptr) return refuse_captured(*waited.capture, kCapturedEvent);
    if (waited.recorded) settle_pools(waited.context->card);
    before = waited.after;
    return kSuccess;
  });
  return code == kSuccess ? wait_for(before) : code;
}

FAKE_CUDA int cuEventElapsedTime(float* milliseconds, Event* begin, Event* end) {
  return on_event(begin, [&](Event& first) {
    if (!process().events.contains(end) || !first.recorded || !end->recorded) {
      return kInvalidHandle;
    }
    settle();
    const std::int64_t begun = time_of(first);
    const std::int64_t ended = time_of(*end);
    if (std::max(begun, ended) > now()) return kNotReady;
    *milliseconds = static_cast<float>(ended - begun) / 1e6F;
    return kSuccess;
  });
}
FAKE_CUDA_ALIAS(cuEventElapsedTime_v2, cuEventElapsedTime);

FAKE_CUDA int cuEventDestroy_v2(Event* event) {
  return on_event(event, [](Event& ended) {
    process().events.erase(&ended);
    delete &ended;
    return kSuccess;
  });
}
