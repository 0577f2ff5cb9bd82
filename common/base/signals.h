// How a program of ours ends: at SIGTERM or SIGINT, in order.
#pragma once

namespace mgpu {

// Blocks both signals, and ignores SIGPIPE. Before any thread is started, so that the signals reach
// none but wait_for_shutdown().
void hold_signals();

// Returns at the first signal, having logged it; the second then ends the process at once. Call it
// on the main thread.
void wait_for_shutdown();

}  // namespace mgpu
