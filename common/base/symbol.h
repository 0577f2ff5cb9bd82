// A function of a library that is loaded at run time.
#pragma once

namespace mgpu {

// Its address, which converts to a pointer to a function of any type.
struct Symbol {
  template <class Type>
  operator Type*() const {
    return reinterpret_cast<Type*>(address);
  }

  void* address = nullptr;
};

}  // namespace mgpu
