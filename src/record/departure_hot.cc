// How a kernel thread of ours takes the registers of a guest thread: through the frame of a signal handler
// that never ran, as rt_sigreturn loads everything at once. FS and GS, which a frame does not have, are set
// before, so this is hot-world code.
#include "record/departure_hot.h"

#include "base/hot.h"

namespace backstep::recorder {

Departures bs_departures;

void depart(ucontext_t& uc) {
  constexpr long kGettid = 186, kGetpid = 39, kFutex = 202, kWaitPrivate = 128, kNanosleep = 35,
                 kTgsigqueue = 297;
  Departures& all = bs_departures;
  const long tid = hot::syscall6(kGettid, 0, 0, 0, 0, 0, 0);
  Departure* mine = nullptr;
  for (unsigned i = 0; i < all.count; i++)
    if (all.list[i].tid == tid) mine = &all.list[i];
  if (!mine) return;
  __atomic_fetch_add(&all.gone, 1, __ATOMIC_SEQ_CST);
  if (mine->signo) {
    while (!__atomic_load_n(&all.go, __ATOMIC_SEQ_CST))
      hot::syscall6(kFutex, reinterpret_cast<long>(&all.go), kWaitPrivate, 0, 0, 0, 0);
    const long moment[2] = {0, 2'000'000};  // for the runner to come to rest, too
    hot::syscall6(kNanosleep, reinterpret_cast<long>(moment), 0, 0, 0, 0, 0);
    // All is blocked in this handler, and where it returns to, until the frame is loaded.
    const long pid = hot::syscall6(kGetpid, 0, 0, 0, 0, 0, 0);
    hot::syscall6(kTgsigqueue, pid, tid, mine->signo, reinterpret_cast<long>(&mine->info), 0, 0);
  }
  auto& registers = uc.uc_mcontext.gregs;
  registers[REG_R12] = static_cast<greg_t>(mine->frame);
  registers[REG_R13] = static_cast<greg_t>(mine->fs_base);
  registers[REG_R14] = static_cast<greg_t>(mine->gs_base);
  registers[REG_RIP] = reinterpret_cast<greg_t>(&bs_leave_by_frame);
  const uint64_t everything = ~0ull;
  __builtin_memcpy(&uc.uc_sigmask, &everything, 8);
}

}  // namespace backstep::recorder

asm(R"(
	.text
	.globl bs_leave_by_frame
	.type bs_leave_by_frame, @function
bs_leave_by_frame:
	movl $158, %eax		# arch_prctl(ARCH_SET_GS)
	movl $0x1001, %edi
	movq %r14, %rsi
	syscall
	movl $158, %eax		# arch_prctl(ARCH_SET_FS)
	movl $0x1002, %edi
	movq %r13, %rsi
	syscall
	movq %r12, %rsp
	movl $15, %eax		# rt_sigreturn
	syscall
	hlt
	.size bs_leave_by_frame, . - bs_leave_by_frame
	.globl bs_rest
	.type bs_rest, @function
bs_rest:
	movl $34, %eax		# pause
	syscall
	jmp bs_rest
	.size bs_rest, . - bs_rest
)");
