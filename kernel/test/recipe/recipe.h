/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* The functions of smoke.rs, and those that both of its embedders have. Types are Linux's. */
#ifndef RECIPE_H
#define RECIPE_H

struct result {
	u64 exchange_ns, batched_ns, hit_ns, bad, cold_misses;
};

int rc_smoke(u64 exchanges, struct result *result);
void rc_planted(void);

u64 rc_now(void);
void rc_begin(void);
void rc_end(void);
void rc_mark(const char *what, size_t octets);

void *nk_alloc(size_t octets, size_t align);
void nk_free(void *at, size_t octets);
void nk_panic(const char *text, size_t len);
void nk_lock_wait(void);
void nk_sha256(const u8 *octets, size_t len, u8 *digest);

/* Printed at the end as a line that kernel/test/recipe/run reads. */
#define RESULT "recipe: result %d bad %llu cold_misses %llu exchange_ns %llu batched_ns %llu hit_ns %llu\n"
#define RESULT_OF(err, r) (err), (unsigned long long)(r).bad, (unsigned long long)(r).cold_misses, \
	(unsigned long long)(r).exchange_ns, (unsigned long long)(r).batched_ns, (unsigned long long)(r).hit_ns

/* The object contains the door of the core, which is not used here: these are never called. */
#define NOT_CALLED(name) void name(void); void name(void) { STOP(); }
#define ALL_NOT_CALLED \
	NOT_CALLED(nk_link_of) NOT_CALLED(nk_emit) NOT_CALLED(nk_out_full) NOT_CALLED(nk_row) \
	NOT_CALLED(nk_linger) NOT_CALLED(nk_store_read) NOT_CALLED(nk_store_write)

#endif
