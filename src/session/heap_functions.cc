// The functions of allocators, by their symbols. Where one function has several names the first one here is
// meant.
#include "session/heap.h"

namespace backstep::session {

const std::vector<HeapFunction>& heap_functions() {
  using F = HeapFunction;
  constexpr auto M = HeapFamily::Malloc, N = HeapFamily::New, A = HeapFamily::NewArray;
  static const std::vector<F> all = {
      {F::Allocate, "malloc", "malloc", M, 0},
      {F::Allocate, "calloc", "calloc", M, 0, 1, false, false, true},
      {F::Resize, "realloc", "realloc", M, 1},
      {F::Resize, "reallocarray", "reallocarray", M, 1, 2},
      {F::Allocate, "aligned_alloc", "aligned_alloc", M, 1},
      {F::Allocate, "memalign", "memalign", M, 1},
      {F::Allocate, "posix_memalign", "posix_memalign", M, 2, -1, true},
      {F::Allocate, "valloc", "valloc", M, 0},
      {F::Allocate, "pvalloc", "pvalloc", M, 0},
      {F::Free, "free", "free", M},
      {F::Free, "cfree", "cfree", M},
      {F::Free, "free_sized", "free_sized", M, 1},
      {F::Free, "free_aligned_sized", "free_aligned_sized", M, 2},
      // jemalloc's own.
      {F::Allocate, "mallocx", "mallocx", M, 0},
      {F::Resize, "rallocx", "rallocx", M, 1},
      {F::Free, "dallocx", "dallocx", M},
      {F::Free, "sdallocx", "sdallocx", M, 1},
      // operator new and delete of C++, as they are mangled: m is size_t.
      {F::Allocate, "_Znwm", "operator new", N, 0},
      {F::Allocate, "_ZnwmRKSt9nothrow_t", "operator new", N, 0},
      {F::Allocate, "_ZnwmSt11align_val_t", "operator new", N, 0},
      {F::Allocate, "_ZnwmSt11align_val_tRKSt9nothrow_t", "operator new", N, 0},
      {F::Allocate, "_Znam", "operator new[]", A, 0},
      {F::Allocate, "_ZnamRKSt9nothrow_t", "operator new[]", A, 0},
      {F::Allocate, "_ZnamSt11align_val_t", "operator new[]", A, 0},
      {F::Allocate, "_ZnamSt11align_val_tRKSt9nothrow_t", "operator new[]", A, 0},
      {F::Free, "_ZdlPv", "operator delete", N},
      {F::Free, "_ZdlPvm", "operator delete", N, 1},
      {F::Free, "_ZdlPvRKSt9nothrow_t", "operator delete", N},
      {F::Free, "_ZdlPvSt11align_val_t", "operator delete", N},
      {F::Free, "_ZdlPvmSt11align_val_t", "operator delete", N, 1},
      {F::Free, "_ZdlPvSt11align_val_tRKSt9nothrow_t", "operator delete", N},
      {F::Free, "_ZdaPv", "operator delete[]", A},
      {F::Free, "_ZdaPvm", "operator delete[]", A, 1},
      {F::Free, "_ZdaPvRKSt9nothrow_t", "operator delete[]", A},
      {F::Free, "_ZdaPvSt11align_val_t", "operator delete[]", A},
      {F::Free, "_ZdaPvmSt11align_val_t", "operator delete[]", A, 1},
      {F::Free, "_ZdaPvSt11align_val_tRKSt9nothrow_t", "operator delete[]", A},
      // ld.so's own, before there is a libc. Its symbols are seen only where it is not stripped.
      {F::Allocate, "__minimal_malloc", "malloc", M, 0, -1, false, true},
      {F::Allocate, "__minimal_calloc", "calloc", M, 0, 1, false, true},
      {F::Resize, "__minimal_realloc", "realloc", M, 1, -1, false, true},
      {F::Free, "__minimal_free", "free", M, -1, -1, false, true},
  };
  return all;
}

}  // namespace backstep::session
