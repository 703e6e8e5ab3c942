// SPDX-License-Identifier: GPL-2.0 OR MIT
/* The recipe in a program, for comparison: malloc, and packets with a count of references. */
#define _POSIX_C_SOURCE 200809L
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef uint8_t u8;
typedef uint32_t u32;
typedef uint64_t u64;
#include "recipe.h"

#define STOP() abort()
ALL_NOT_CALLED

void *nk_alloc(size_t octets, size_t align)
{
	/* aligned_alloc takes whole multiples. */
	return align <= 16 ? malloc(octets) : aligned_alloc(align, (octets + align - 1) / align * align);
}

void nk_free(void *at, size_t octets)
{
	(void)octets;
	free(at);
}

struct packet {
	atomic_uint references;
	u32 len;
	u8 octets[];
};

void nk_skb_get(struct packet *packet);
void nk_skb_keep(struct packet *packet);
void nk_skb_put(struct packet *packet);
struct packet *nk_skb_make(size_t len);
const u8 *nk_skb_data(const struct packet *packet);
u32 nk_skb_held(const struct packet *packet);

void nk_skb_get(struct packet *packet)
{
	atomic_fetch_add(&packet->references, 1);
}

void nk_skb_keep(struct packet *packet)
{
	nk_skb_get(packet);
}

void nk_skb_put(struct packet *packet)
{
	if (atomic_fetch_sub(&packet->references, 1) == 1)
		free(packet);
}

struct packet *nk_skb_make(size_t len)
{
	struct packet *packet = malloc(sizeof(*packet) + len);

	if (!packet)
		return NULL;
	atomic_init(&packet->references, 1);
	packet->len = (u32)len;
	memset(packet->octets, 0, len);
	return packet;
}

const u8 *nk_skb_data(const struct packet *packet)
{
	return packet->octets;
}

u32 nk_skb_held(const struct packet *packet)
{
	return packet->len + (u32)sizeof(*packet);
}

/* No name has a digest here, so nothing is hashed. */
void nk_sha256(const u8 *octets, size_t len, u8 *digest)
{
	(void)octets, (void)len, (void)digest;
	abort();
}

void nk_panic(const char *text, size_t len)
{
	fprintf(stderr, "recipe: panic: %.*s\n", (int)len, text);
	abort();
}

void nk_lock_wait(void)
{
}

u64 rc_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (u64)now.tv_sec * 1000000000 + (u64)now.tv_nsec;
}

void rc_begin(void)
{
}

void rc_end(void)
{
}

void rc_mark(const char *what, size_t octets)
{
	(void)what, (void)octets;
}

int main(int argc, char **argv)
{
	u64 exchanges = argc > 1 ? strtoull(argv[1], NULL, 10) : 200000;
	struct result result = {0};
	int answer = rc_smoke(exchanges, &result);

	printf(RESULT, RESULT_OF(answer, result));
	return answer ? EXIT_FAILURE : EXIT_SUCCESS;
}
