/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * int nk_guarded(void (*fn)(void *), void *arg, struct nk_guard *guard)
 *
 * Calls fn(arg) and returns 0. If nk_unwind(guard) is called below, it returns 1 instead, and
 * restores the stack pointer and the callee-saved registers, which are pushed here.
 */
#include <linux/linkage.h>
#ifdef CONFIG_ARM64

	.text
SYM_FUNC_START(nk_guarded)
	stp	x29, x30, [sp, #-96]!
	mov	x29, sp
	stp	x19, x20, [sp, #16]
	stp	x21, x22, [sp, #32]
	stp	x23, x24, [sp, #48]
	stp	x25, x26, [sp, #64]
	stp	x27, x28, [sp, #80]
	str	x29, [x2]		/* the stack pointer as well */
	mov	x3, x0
	mov	x0, x1
	blr	x3
	mov	w0, #0
	ldp	x19, x20, [sp, #16]
	ldp	x21, x22, [sp, #32]
	ldp	x23, x24, [sp, #48]
	ldp	x25, x26, [sp, #64]
	ldp	x27, x28, [sp, #80]
	ldp	x29, x30, [sp], #96
	ret
SYM_FUNC_END(nk_guarded)
#else
#ifdef CONFIG_UML
#undef RET
#define RET ret
#define CALL_RAX call *%rax
#else
#include <asm/nospec-branch.h>
#define CALL_RAX CALL_NOSPEC rax
#endif

	.text
SYM_FUNC_START(nk_guarded)
	pushq	%rbx
	pushq	%rbp
	pushq	%r12
	pushq	%r13
	pushq	%r14
	pushq	%r15
	movq	%rsp, (%rdx)
	subq	$8, %rsp		/* 16-octet alignment at the call */
	movq	%rdi, %rax
	movq	%rsi, %rdi
	CALL_RAX
	addq	$8, %rsp
	xorl	%eax, %eax
	popq	%r15
	popq	%r14
	popq	%r13
	popq	%r12
	popq	%rbp
	popq	%rbx
	RET
SYM_FUNC_END(nk_guarded)
#endif
	.section .note.GNU-stack, "", %progbits
