/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* void nk_unwind(struct nk_guard *guard): makes the nk_guarded of this guard return 1. */
#include <linux/linkage.h>
#ifdef CONFIG_ARM64

	.text
SYM_FUNC_START(nk_unwind)
	ldr	x1, [x0]
	mov	sp, x1
	mov	w0, #1
	ldp	x19, x20, [sp, #16]
	ldp	x21, x22, [sp, #32]
	ldp	x23, x24, [sp, #48]
	ldp	x25, x26, [sp, #64]
	ldp	x27, x28, [sp, #80]
	ldp	x29, x30, [sp], #96
	ret
SYM_FUNC_END(nk_unwind)
#else
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
#endif
	.section .note.GNU-stack, "", %progbits
