/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * int nk_guarded(void (*fn)(void *), void *arg, struct nk_guard *guard)
 *
 * Calls fn(arg) and returns 0. If nk_unwind(guard) is called below, it returns 1 instead, with what
 * a caller may expect to be kept: the registers that are pushed here, and the stack.
 */
#include <linux/linkage.h>
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
	.section .note.GNU-stack, "", @progbits
