# Loading a whole user-mode state, running a snippet in it, and storing the state that it ends in.
#
# void fuzz_enter(): loads fuzz_state and jumps to its rip; returns when the snippet has jumped to fuzz_exit
# (state stored to fuzz_state) or when a signal handler resumed at fuzz_resume (state stored by the handler).
# The layout of fuzz_state is fuzz::State (case.h).

#define RIP_ 0x80
#define RFLAGS 0x88
#define FS_BASE 0x90
#define GS_BASE 0x98
#define XSAVE_ 0xc0

	.text
	.globl fuzz_enter
	.type fuzz_enter, @function
fuzz_enter:
	pushq %rbx
	pushq %rbp
	pushq %r12
	pushq %r13
	pushq %r14
	pushq %r15
	subq $8, %rsp
	movq %rsp, fuzz_host_rsp(%rip)
	rdfsbase %rax
	movq %rax, fuzz_host_fs(%rip)
	movl fuzz_mask(%rip), %eax
	xorl %edx, %edx
	xrstor64 fuzz_state+XSAVE_(%rip)
	movq fuzz_state+FS_BASE(%rip), %rax
	wrfsbase %rax
	movq fuzz_state+GS_BASE(%rip), %rax
	wrgsbase %rax
	pushq fuzz_state+RFLAGS(%rip)
	movq fuzz_state+0x00(%rip), %rax
	movq fuzz_state+0x08(%rip), %rcx
	movq fuzz_state+0x10(%rip), %rdx
	movq fuzz_state+0x18(%rip), %rbx
	movq fuzz_state+0x28(%rip), %rbp
	movq fuzz_state+0x30(%rip), %rsi
	movq fuzz_state+0x38(%rip), %rdi
	movq fuzz_state+0x40(%rip), %r8
	movq fuzz_state+0x48(%rip), %r9
	movq fuzz_state+0x50(%rip), %r10
	movq fuzz_state+0x58(%rip), %r11
	movq fuzz_state+0x60(%rip), %r12
	movq fuzz_state+0x68(%rip), %r13
	movq fuzz_state+0x70(%rip), %r14
	movq fuzz_state+0x78(%rip), %r15
	popfq
	movq fuzz_state+0x20(%rip), %rsp
	jmpq *fuzz_state+RIP_(%rip)

	.globl fuzz_exit
fuzz_exit:
	movq %rax, fuzz_state+0x00(%rip)
	movq %rcx, fuzz_state+0x08(%rip)
	movq %rdx, fuzz_state+0x10(%rip)
	movq %rbx, fuzz_state+0x18(%rip)
	movq %rsp, fuzz_state+0x20(%rip)
	movq %rbp, fuzz_state+0x28(%rip)
	movq %rsi, fuzz_state+0x30(%rip)
	movq %rdi, fuzz_state+0x38(%rip)
	movq %r8, fuzz_state+0x40(%rip)
	movq %r9, fuzz_state+0x48(%rip)
	movq %r10, fuzz_state+0x50(%rip)
	movq %r11, fuzz_state+0x58(%rip)
	movq %r12, fuzz_state+0x60(%rip)
	movq %r13, fuzz_state+0x68(%rip)
	movq %r14, fuzz_state+0x70(%rip)
	movq %r15, fuzz_state+0x78(%rip)
	movq fuzz_host_rsp(%rip), %rsp
	pushfq
	popq fuzz_state+RFLAGS(%rip)
	rdfsbase %rax
	movq %rax, fuzz_state+FS_BASE(%rip)
	rdgsbase %rax
	movq %rax, fuzz_state+GS_BASE(%rip)
	movl fuzz_mask(%rip), %eax
	xorl %edx, %edx
	xsave64 fuzz_state+XSAVE_(%rip)
	movl $1, fuzz_exited(%rip)

	.globl fuzz_resume
fuzz_resume:
	movq fuzz_host_rsp(%rip), %rsp
	pushq $0x202
	popfq
	movq fuzz_host_fs(%rip), %rax
	wrfsbase %rax
	fninit
	ldmxcsr fuzz_mxcsr(%rip)
	vzeroupper
	addq $8, %rsp
	popq %r15
	popq %r14
	popq %r13
	popq %r12
	popq %rbp
	popq %rbx
	ret
	.size fuzz_enter, . - fuzz_enter

	.data
	.align 64
	.globl fuzz_state
fuzz_state:
	.fill 4096, 1, 0
	.globl fuzz_host_rsp, fuzz_host_fs, fuzz_mask, fuzz_exited
fuzz_host_rsp: .quad 0
fuzz_host_fs: .quad 0
fuzz_mask: .quad 0
fuzz_exited: .long 0
fuzz_mxcsr: .long 0x1f80
	.section .note.GNU-stack,"",@progbits
