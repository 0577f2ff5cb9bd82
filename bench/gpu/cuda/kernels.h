// The kernels of the test programs as PTX. The driver compiles them for its card, so no CUDA
// toolkit is needed. The target is Volta, the oldest architecture on which MPS has limits.
#pragma once

namespace mgpu::gpu_trial::cuda {

// vector_add(a, b, c, n): c[i] = a[i] + b[i] for n floats.
// spin(out, iterations): every thread executes `iterations` multiply-add instructions. It compares
// the result with an impossible value and could store it, so that the compiler keeps the loop.
inline constexpr char kKernels[] = R"(
.version 6.3
.target sm_70
.address_size 64

.visible .entry vector_add(.param .u64 a, .param .u64 b, .param .u64 c, .param .u32 n)
{
  .reg .pred %outside;
  .reg .f32 %f<4>;
  .reg .b32 %r<6>;
  .reg .b64 %rd<8>;
  mov.u32 %r1, %ctaid.x;
  mov.u32 %r2, %ntid.x;
  mov.u32 %r3, %tid.x;
  mad.lo.u32 %r4, %r1, %r2, %r3;
  ld.param.u32 %r5, [n];
  setp.ge.u32 %outside, %r4, %r5;
  @%outside bra done;
  ld.param.u64 %rd1, [a];
  ld.param.u64 %rd2, [b];
  ld.param.u64 %rd3, [c];
  mul.wide.u32 %rd4, %r4, 4;
  add.u64 %rd5, %rd1, %rd4;
  add.u64 %rd6, %rd2, %rd4;
  add.u64 %rd7, %rd3, %rd4;
  ld.global.f32 %f1, [%rd5];
  ld.global.f32 %f2, [%rd6];
  add.f32 %f3, %f1, %f2;
  st.global.f32 [%rd7], %f3;
done:
  ret;
}

.visible .entry spin(.param .u64 out, .param .u32 iterations)
{
  .reg .pred %p<3>;
  .reg .f32 %f<4>;
  .reg .b32 %r<4>;
  .reg .b64 %rd<2>;
  mov.u32 %r1, %tid.x;
  cvt.rn.f32.u32 %f1, %r1;
  mov.f32 %f2, 0f3F000000;
  mov.f32 %f3, 0f3F800000;
  ld.param.u32 %r2, [iterations];
  mov.u32 %r3, 0;
loop:
  fma.rn.f32 %f1, %f1, %f2, %f3;
  add.u32 %r3, %r3, 1;
  setp.lt.u32 %p1, %r3, %r2;
  @%p1 bra loop;
  setp.neu.f32 %p2, %f1, 0fBF800000;
  @%p2 bra done;
  ld.param.u64 %rd1, [out];
  st.global.f32 [%rd1], %f1;
done:
  ret;
}

)";

}  // namespace mgpu::gpu_trial::cuda
