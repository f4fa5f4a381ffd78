# Between the host and the code cache.
#
# Entering loads the whole architectural state of the guest from the context page; leaving stores it. There
# are two ways out. The *hot* way saves only the general registers and flags, keeps the guest's vector
# registers and FS base in the CPU and calls a hot-world function (linking a branch, translating a block,
# most system calls). If that returns 0, or where the host is needed at once, the *slow* way follows: vector
# state to memory, host's FS base back, return from bs_enter.
#
# All addresses of the context are 32-bit absolute constants (engine/context.h).

#define CTX 0x7ff00000
#define GPR(n) (CTX + 8 * (n))
#define RIP_ (CTX + 0x80)
#define RFLAGS (CTX + 0x88)
#define FS_BASE (CTX + 0x90)
#define TICK (CTX + 0xa0)
#define SPILL_RAX (CTX + 0xb8)
#define SPILL_FLAGS (CTX + 0xc0)
#define TARGET (CTX + 0xd0)
#define REASON (CTX + 0xdc)
#define CONT (CTX + 0xe0)
#define HOST_RSP (CTX + 0xe8)
#define HOST_FS (CTX + 0xf0)
#define ONE (CTX + 0x100)
#define FEATURES (CTX + 0x110)
#define SAVE_MASK (CTX + 0x118)
#define RESUME (CTX + 0x120)
#define SPILL_RCX (CTX + 0x128)
#define IN_GUEST (CTX + 0x138)
#define STOP_REQUEST (CTX + 0x140)
#define BRANCH_SITE (CTX + 0x148)
#define XSAVE (CTX + 0x2c0)

#define PROBE 0x48000000
#define PROBE_SIZE 0x8000000
#define PROBE_JUMPS 0x2f4000000000

#define HAVE_FSGSBASE 1
#define VECTOR_COUNTER 2
#define HAVE_AVX 4

#define REASON_DISPATCH 1
#define REASON_SYSCALL 2
#define REASON_HOSTOP 3
#define REASON_TICK 4
#define REASON_FAULT 5

#define ARCH_SET_FS 0x1002
#define SYS_arch_prctl 158

	.text

	.macro save_gprs
	movq %rax, GPR(0)
	movq %rcx, GPR(1)
	movq %rdx, GPR(2)
	movq %rbx, GPR(3)
	movq %rsp, GPR(4)
	movq %rbp, GPR(5)
	movq %rsi, GPR(6)
	movq %rdi, GPR(7)
	movq %r8, GPR(8)
	movq %r9, GPR(9)
	movq %r10, GPR(10)
	movq %r11, GPR(11)
	movq %r12, GPR(12)
	movq %r13, GPR(13)
	movq %r14, GPR(14)
	movq %r15, GPR(15)
	.endm

	.macro load_gprs
	movq GPR(0), %rax
	movq GPR(1), %rcx
	movq GPR(2), %rdx
	movq GPR(3), %rbx
	movq GPR(4), %rsp
	movq GPR(5), %rbp
	movq GPR(6), %rsi
	movq GPR(7), %rdi
	movq GPR(8), %r8
	movq GPR(9), %r9
	movq GPR(10), %r10
	movq GPR(11), %r11
	movq GPR(12), %r12
	movq GPR(13), %r13
	movq GPR(14), %r14
	movq GPR(15), %r15
	.endm

	.globl bs_enter
	.type bs_enter, @function
bs_enter:
	pushq %rbx
	pushq %rbp
	pushq %r12
	pushq %r13
	pushq %r14
	pushq %r15
	subq $8, %rsp
	movq %rsp, HOST_RSP
	movl SAVE_MASK, %eax
	xorl %edx, %edx
	xrstor64 XSAVE
	testb $VECTOR_COUNTER, FEATURES
	jz 1f
	vmovdqu64 TICK, %xmm31		# and the alarm
	vmovdqu64 ONE, %xmm30
1:	movq $1, IN_GUEST
	movq FS_BASE, %rsi
	testb $HAVE_FSGSBASE, FEATURES
	jz 2f
	wrfsbase %rsi
	jmp 3f
2:	movl $ARCH_SET_FS, %edi
	movl $SYS_arch_prctl, %eax
	syscall
3:	jmp resume_enter
	.size bs_enter, . - bs_enter

# Into the cache at RESUME; everything of the guest but its general registers and flags is loaded, rsp = HOST_RSP, and
# the context is exact (rip too). A stop request leaves for the host instead (single steps, request 2, only after their
# instruction). Between that look and the jump a signal handler cannot be noticed: it single-steps us into the cache if
# it interrupts in [bs_resume_window, bs_resume_end).
resume_enter:
	cmpq $1, STOP_REQUEST
	.globl bs_resume_window
bs_resume_window:
	je cancel
	jmp bs_resume_begin
resume_guest:
	cmpq $0, STOP_REQUEST
	jne cancel
bs_resume_begin:
	pushq RFLAGS
	popfq
	load_gprs
	jmpq *RESUME
	.globl bs_resume_end
bs_resume_end:
cancel:
	movl $REASON_DISPATCH, REASON
	jmp slow_exit

# Slow exit. Guest general registers and flags are in the context, reason in REASON, rsp = HOST_RSP.
slow_exit:
	testb $VECTOR_COUNTER, FEATURES
	jz 1f
	vmovq %xmm31, TICK
1:	movl SAVE_MASK, %eax
	xorl %edx, %edx
	xsave64 XSAVE
from_fault:
	fninit
	ldmxcsr default_mxcsr(%rip)
	testb $HAVE_AVX, FEATURES
	jz 2f
	vzeroupper
2:	testb $HAVE_FSGSBASE, FEATURES
	jz 3f
	rdfsbase %rax
	movq %rax, FS_BASE
	movq HOST_FS, %rax
	wrfsbase %rax
	jmp 4f
3:	movl $ARCH_SET_FS, %edi
	movq HOST_FS, %rsi
	movl $SYS_arch_prctl, %eax
	syscall
4:	movq $0, IN_GUEST
	pushq $0x202
	popfq
	movl REASON, %eax
	addq $8, %rsp
	popq %r15
	popq %r14
	popq %r13
	popq %r12
	popq %rbp
	popq %rbx
	ret

	.globl bs_fault_resume
bs_fault_resume:
	movl $REASON_FAULT, REASON
	movq HOST_RSP, %rsp
	jmp from_fault

# Host code makes unaligned accesses: the guest's alignment check flag must not be on. (popfq is slow, so only then.)
	.macro clear_ac
	testl $0x40000, RFLAGS
	jz 9f
	pushq $0x202
	popfq
9:
	.endm

# A hot exit: `function` decides where to go on; 0 means the host is needed, for `reason`.
	.macro hot_exit name, function, reason
	.globl \name
	.type \name, @function
\name:
	save_gprs
	movq HOST_RSP, %rsp
	pushfq
	popq RFLAGS
	cld
	clear_ac
	movl $\reason, REASON
	call \function
	testq %rax, %rax
	jz slow_exit
	movq %rax, RESUME
	jmp resume_guest
	.size \name, . - \name
	.endm

	hot_exit bs_exit_branch, bs_hot_branch, REASON_DISPATCH
	hot_exit bs_exit_miss, bs_hot_miss, REASON_DISPATCH
	hot_exit bs_exit_hostop, bs_hot_hostop, REASON_HOSTOP

	.globl bs_exit_tick
bs_exit_tick:
	save_gprs
	movq HOST_RSP, %rsp
	pushfq
	popq RFLAGS
	clear_ac
	movl $REASON_TICK, REASON
	jmp slow_exit

# The translated `syscall`: rcx already holds what the instruction leaves there (the next pc), r11 where
# translated code goes on. r11 gets the flags, as the CPU does it.
	.globl bs_exit_syscall
bs_exit_syscall:
	movq %r11, CONT
	movq %rcx, RIP_
	save_gprs
	movq HOST_RSP, %rsp
	pushfq
	popq %rax
	movq %rax, RFLAGS
	movq %rax, GPR(11)
	cld
	clear_ac
	movl $REASON_SYSCALL, REASON
	call bs_hot_syscall
	testq %rax, %rax
	jz slow_exit
	movq %rax, RESUME
	jmp resume_guest

# Indirect branch at a site that has met a target above layout::kDirectEnd. r11: target; the guest's r11 is where
# r11_in_vector() says. Looks low targets up in the jump table, others in a hash table of {pc, landing} (set_landing()
# computes the same index). It does not ask for stop requests: a signal handler steps through it (seek_boundary).
	.globl bs_wide_lookup
bs_wide_lookup:
	movq %rax, SPILL_RAX
	movq %rcx, SPILL_RCX
	lahf
	seto %al
	movq %rax, SPILL_FLAGS
	movq %r11, TARGET
	cmpq $0x50000000, %r11
	jb 2f
	movq %r11, %rax
	shrq $16, %rax
	xorq %r11, %rax
	movzwl %ax, %eax
	shlq $4, %rax
	movabsq $0x2e0190000000, %rcx
	addq %rcx, %rax
	cmpq %r11, (%rax)
	jne 1f
	movq 8(%rax), %r11
	movabsq $0x8badf00d00000001, %rax
	movq %rax, TARGET
	movq $0, BRANCH_SITE
	jmp 3f
1:	leaq bs_exit_miss(%rip), %r11
	jmp 3f
2:	movl %gs:(,%r11,4), %r11d
	movq $0, BRANCH_SITE
3:	movq SPILL_FLAGS, %rax
	addb $0x7f, %al
	sahf
	movq SPILL_RCX, %rcx
	movq SPILL_RAX, %rax
	jmpq *%r11

# Every indirect branch of debug code, with the same registers: it stays within its module, whose landings have a table of
# their own, or it is a miss.
	.globl bs_probe_lookup
bs_probe_lookup:
	movq %rax, SPILL_RAX
	lahf
	seto %al
	movq %rax, SPILL_FLAGS
	movq %r11, TARGET
	leaq -PROBE(%r11), %rax
	movq $1, BRANCH_SITE
	cmpq $PROBE_SIZE, %rax
	jae 1f
	movabsq $PROBE_JUMPS, %r11
	movl (%r11,%rax,4), %r11d
	testl %r11d, %r11d
	jz 1f
	movabsq $0x8badf00d00000001, %rax
	movq %rax, TARGET
	movq $0, BRANCH_SITE
	jmp 2f
1:	leaq bs_exit_miss(%rip), %r11
2:	movq SPILL_FLAGS, %rax
	addb $0x7f, %al
	sahf
	movq SPILL_RAX, %rax
	jmpq *%r11
	.globl bs_wide_lookup_end
bs_wide_lookup_end:

# bool bs_guarded_copy(void* to, const void* from, size_t n): false if a page was not there. The fault handler
# moves a fault at bs_guarded_insn to bs_guarded_fail.
	.globl bs_guarded_copy
	.type bs_guarded_copy, @function
bs_guarded_copy:
	movq %rdx, %rcx
	.globl bs_guarded_insn
bs_guarded_insn:
	rep movsb
	movl $1, %eax
	ret
	.globl bs_guarded_fail
bs_guarded_fail:
	xorl %eax, %eax
	ret
	.size bs_guarded_copy, . - bs_guarded_copy

# bool bs_guarded_pair(void* to, uint64_t a, uint64_t b): likewise for two words, without the start-up of rep movsb.
	.globl bs_guarded_pair
	.type bs_guarded_pair, @function
bs_guarded_pair:
	movq %rsi, (%rdi)
	movq %rdx, 8(%rdi)
	.globl bs_guarded_pair_end
bs_guarded_pair_end:
	movl $1, %eax
	ret
	.size bs_guarded_pair, . - bs_guarded_pair

# bool bs_guarded_load(uint64_t* to, const void* from, unsigned size): likewise a word of 1, 2, 4 or 8 bytes, zero-extended.
	.globl bs_guarded_load
	.type bs_guarded_load, @function
bs_guarded_load:
	cmpl $4, %edx
	ja 3f
	je 2f
	cmpl $2, %edx
	je 1f
	movzbl (%rsi), %eax
	jmp bs_guarded_load_end
1:	movzwl (%rsi), %eax
	jmp bs_guarded_load_end
2:	movl (%rsi), %eax
	jmp bs_guarded_load_end
3:	movq (%rsi), %rax
	.globl bs_guarded_load_end
bs_guarded_load_end:
	movq %rax, (%rdi)
	movl $1, %eax
	ret
	.size bs_guarded_load, . - bs_guarded_load

# long bs_call(long nr, const uint64_t arguments[6], const uint32_t* interrupt): a system call that a signal handler can
# call off, without the usual gap between looking and sleeping: a handler that interrupts in [bs_call_window,
# bs_call_end) moves us to bs_call_interrupted. The result is kNotMade then: the kernel has not seen the call.
	.globl bs_call
	.type bs_call, @function
bs_call:
	pushq %rbx
	movq %rdx, %rbx
	movq %rdi, %rax
	movq %rsi, %r11
	movq (%r11), %rdi
	movq 8(%r11), %rsi
	movq 16(%r11), %rdx
	movq 24(%r11), %r10
	movq 32(%r11), %r8
	movq 40(%r11), %r9
	.globl bs_call_window
bs_call_window:
	cmpl $0, (%rbx)
	jne bs_call_interrupted
	syscall
	.globl bs_call_end
bs_call_end:
	popq %rbx
	ret
	.globl bs_call_interrupted
bs_call_interrupted:
	movq $-513, %rax
	popq %rbx
	ret
	.size bs_call, . - bs_call

# long bs_start_thread(unsigned long flags, void* stack, int* parent_tid, int* child_tid, void (*body)(void*), void*
# argument): clone; the new thread calls body on its stack and never returns from it.
	.globl bs_start_thread
	.type bs_start_thread, @function
bs_start_thread:
	movq %rcx, %r10
	movl $56, %eax
	xchgq %r8, %r9
	pushq %r12
	movq %r9, %r12
	movq %r8, %r9
	xorl %r8d, %r8d
	syscall
	testq %rax, %rax
	jnz 1f
	xorl %ebp, %ebp
	movq %r9, %rdi
	callq *%r12
	ud2
1:	popq %r12
	ret
	.size bs_start_thread, . - bs_start_thread

	.section .rodata
	.align 4
default_mxcsr:
	.long 0x1f80
	.section .note.GNU-stack,"",@progbits
