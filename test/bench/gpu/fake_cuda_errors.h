// The errors of fake_cuda.cc.
#pragma once

namespace mgpu::gpu_trial::cuda {

// The values of CUresult that this stand-in returns.
inline constexpr int kInvalidValue = 1;
inline constexpr int kOutOfMemory = 2;
inline constexpr int kNotInitialized = 3;
inline constexpr int kDeviceUnavailable = 46;
inline constexpr int kNoDevice = 100;
inline constexpr int kInvalidDevice = 101;
inline constexpr int kInvalidImage = 200;
inline constexpr int kInvalidContext = 201;
inline constexpr int kInvalidHandle = 400;
inline constexpr int kNotFound = 500;
inline constexpr int kIllegalAddress = 700;
inline constexpr int kMpsConnectionFailed = 805;
inline constexpr int kMpsRpcFailure = 806;
inline constexpr int kMpsServerNotReady = 807;
inline constexpr int kMpsMaxClientsReached = 808;
inline constexpr int kMpsMaxConnectionsReached = 809;
inline constexpr int kUnknown = 999;

struct ErrorText {
  int code;
  const char* name;
  const char* text;
};
inline constexpr ErrorText kErrors[] = {
    {kSuccess, "CUDA_SUCCESS", "no error"},
    {kInvalidValue, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {kOutOfMemory, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {kNotInitialized, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {kDeviceUnavailable, "CUDA_ERROR_DEVICE_UNAVAILABLE",
     "CUDA-capable device(s) is/are busy or unavailable"},
    {kNoDevice, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {kInvalidDevice, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {kInvalidImage, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
    {kInvalidContext, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {kInvalidHandle, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {kNotFound, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {kIllegalAddress, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
    {kMpsConnectionFailed, "CUDA_ERROR_MPS_CONNECTION_FAILED",
     "MPS client failed to connect to the MPS control daemon or the MPS server"},
    {kMpsRpcFailure, "CUDA_ERROR_MPS_RPC_FAILURE", "the remote procedural call failed"},
    {kMpsServerNotReady, "CUDA_ERROR_MPS_SERVER_NOT_READY", "MPS server is not ready"},
    {kMpsMaxClientsReached, "CUDA_ERROR_MPS_MAX_CLIENTS_REACHED",
     "the hardware resources required to create MPS client have been exhausted"},
    {kMpsMaxConnectionsReached, "CUDA_ERROR_MPS_MAX_CONNECTIONS_REACHED",
     "the hardware resources required to support device connections have been exhausted"},
    {kUnknown, "CUDA_ERROR_UNKNOWN", "unknown error"},
};

}  // namespace mgpu::gpu_trial::cuda
