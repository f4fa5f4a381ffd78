# Sources that every debug module is compiled with are part of the program, so that they are there wherever it is.
	.section .rodata.backstep_embedded, "a", @progbits
	.macro embed name, file
	.globl	\name, \name\()_end
	.type	\name, @object
\name:
	.incbin	"\file"
\name\()_end:
	.byte	0
	.size	\name, . - \name
	.endm

	embed	backstep_embedded_debug_h, "include/backstep/debug.h"
	embed	backstep_embedded_abi_h, "src/probe/abi.h"
	embed	backstep_embedded_runtime_cc, "src/probe/runtime/runtime.cc"
	.section .note.GNU-stack, "", @progbits
