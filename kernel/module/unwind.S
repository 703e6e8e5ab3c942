/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* void nk_unwind(struct nk_guard *guard): leaves the nk_guarded of this guard with 1. */
#include <linux/linkage.h>
#include <linux/objtool.h>
#ifdef CONFIG_UML
#undef RET
#define RET ret
#endif

	.text
SYM_FUNC_START(nk_unwind)
	movq	(%rdi), %rsp
	movl	$1, %eax
	popq	%r15
	popq	%r14
	popq	%r13
	popq	%r12
	popq	%rbp
	popq	%rbx
	RET
SYM_FUNC_END(nk_unwind)
STACK_FRAME_NON_STANDARD nk_unwind
	.section .note.GNU-stack, "", @progbits
