// Every function of the driver: a jump to the address in its slot, which names.cc fills. They are weak, so that
// the functions that this library replaces take their place. Programs that are linked against this library
// need all of them: what is only in a library behind it is undefined for the linker.
#if defined(__x86_64__)
#define DRIVER_FUNCTION(name, kind) \
  .text; .p2align 4; .weak name; .type name, @function; \
  name: endbr64; jmp *mgpu_real_##name(%rip); .size name, . - name; \
  .data; .p2align 3; .globl mgpu_real_##name; .hidden mgpu_real_##name; \
  .type mgpu_real_##name, @object; .size mgpu_real_##name, 8; \
  mgpu_real_##name: .quad 0
#elif defined(__aarch64__)
#define DRIVER_FUNCTION(name, kind) \
  .text; .p2align 4; .weak name; .type name, %function; \
  name: bti c; adrp x16, mgpu_real_##name; ldr x16, [x16, :lo12:mgpu_real_##name]; br x16; \
  .size name, . - name; \
  .data; .p2align 3; .globl mgpu_real_##name; .hidden mgpu_real_##name; \
  .type mgpu_real_##name, %object; .size mgpu_real_##name, 8; \
  mgpu_real_##name: .quad 0
#endif
#include "plugin/share/driver_functions.def"
.section .note.GNU-stack
