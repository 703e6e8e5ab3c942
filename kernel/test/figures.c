// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Figures, not tests: they print, and judge nothing. `data` is the number of cached Data (10000),
 * `rounds` the number of alternating measurements of each of two variants (5), and `seconds` the
 * duration of the measurement of a rate (2).
 */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include "test.h"

enum { CONTENT_OCTETS = 1024, HITS = 1000, WINDOW = 32, RATES_MAX = 16 };

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000ull + now.tv_nsec;
}

/* Median, minimum and maximum of the measurements. */
static void tell(const char *what, const char *unit, double *values, size_t count)
{
	double median = median_of(values, count);

	printf("figure %s: %.1f (%.1f-%.1f) %s\n", what, median, values[0], values[count - 1], unit);
}

/* ---- packets of one form with other digits ---- */

enum { DIGITS = 7 };
struct form {
	struct octets packet;
	uint8_t *digits, *nonce;
};

static uint8_t *place_of(struct octets *packet, const char *text)
{
	uint8_t *place = memmem(packet->at, packet->len, text, strlen(text));

	CHECK(place, "the packet has %s", text);
	return place;
}

static void form_interests(struct form *form, const char *flow)
{
	char name[32];

	snprintf(name, sizeof(name), "/f/%s/0000000", flow);
	form->packet = interest_for(name);
	form->digits = place_of(&form->packet, "0000000");
	form->nonce = form->digits + DIGITS + 2;
}

static void form_data(struct form *form, const char *flow)
{
	char name[32];

	snprintf(name, sizeof(name), "/f/%s/0000000", flow);
	form->packet = data_for(name, CONTENT_OCTETS);
	form->digits = place_of(&form->packet, "0000000");
}

static void set_number(struct form *form, uint32_t number)
{
	for (int i = DIGITS - 1; i >= 0; i--, number /= 10)
		form->digits[i] = '0' + number % 10;
	if (form->nonce) {
		uint32_t nonce = random();

		memcpy(form->nonce, &nonce, sizeof(nonce));
	}
}

/* ---- an external store that has all Data ---- */

struct slot {
	uint32_t at, len;	/* 0: it is free */
};

static uint64_t hash_of(const uint8_t *octets, size_t len)
{
	uint64_t hash = 0xcbf29ce484222325;

	while (len--)
		hash = (hash ^ *octets++) * 0x100000001b3;
	return hash ^ hash >> 29;
}

/* Returns the position of the name in a packet of this form. */
static const uint8_t *name_in(const uint8_t *packet, size_t *len)
{
	size_t at = packet[1] == 253 ? 4 : 2;

	*len = packet[at + 1];
	return packet + at + 2;
}

static void *memory(size_t octets)
{
	void *at = mmap(NULL, octets, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	CHECK(at != MAP_FAILED, "%zu octets", octets);
	return at;
}

static void store_serve_all(int fd, uint32_t count, int ready)
{
	static struct form data;
	size_t slots = 1, stride, len;
	struct slot *table;
	uint8_t *arena;

	form_data(&data, "a");
	stride = data.packet.len;
	while (slots < 2ull * count)
		slots *= 2;
	table = memory(slots * sizeof(*table));
	arena = memory(count * stride);
	for (uint32_t i = 0; i < count; i++) {
		const uint8_t *name;
		size_t place;

		set_number(&data, i);
		memcpy(arena + i * stride, data.packet.at, stride);
		name = name_in(arena + i * stride, &len);
		for (place = hash_of(name, len) % slots; table[place].len; place = (place + 1) % slots)
			;
		table[place] = (struct slot){ i, stride };
	}
	CHECK(write(ready, "", 1) == 1, "it has all");
	for (;;) {
		struct store_told told = store_next(fd);
		size_t place;

		if (told.command != NNET_CMD_STORE_READ)
			continue;
		for (place = hash_of(told.octets, told.len) % slots; table[place].len; place = (place + 1) % slots) {
			const uint8_t *kept = arena + table[place].at * stride, *name = name_in(kept, &len);

			if (len == told.len && !memcmp(name, told.octets, len)) {
				store_found(fd, told.read, kept, table[place].len);
				break;
			}
		}
		if (!table[place].len)
			store_absent(fd, told.read);
	}
}

/* ---- one consumer and one producer in one process ---- */

struct pair {
	int consumer, producer;
	struct form interest, data;
};

static void pair_make(struct pair *pair, const char *flow)
{
	const struct timeval patience = { .tv_sec = 10 };
	char prefix[32];

	snprintf(prefix, sizeof(prefix), "/f/%s", flow);
	pair->consumer = socket_new();
	pair->producer = socket_new();
	CHECK(!setsockopt(pair->consumer, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) &&
	      !setsockopt(pair->producer, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)),
	      "what is lost ends it");
	CHECK(!socket_bind(pair->producer, prefix), "bound");
	form_interests(&pair->interest, flow);
	form_data(&pair->data, flow);
}

static void get(int fd)
{
	static uint8_t room[NNET_PACKET_MAX];

	CHECK(recv(fd, room, sizeof(room), 0) > 0, "a packet");
}

static void ask(struct pair *pair, uint32_t number)
{
	set_number(&pair->interest, number);
	packet_send(pair->consumer, &pair->interest.packet);
}

static void pair_exchange(struct pair *pair, uint32_t number)
{
	ask(pair, number);
	get(pair->producer);
	set_number(&pair->data, number);
	packet_send(pair->producer, &pair->data.packet);
	get(pair->consumer);
}

/* The mean time from an Interest to its Data, which only the store has, us. */
static double hit_us(struct pair *pair, uint32_t count)
{
	uint64_t begin_ns = now_ns();

	for (int i = 0; i < HITS; i++) {
		ask(pair, random() % count);
		get(pair->consumer);
	}
	return (now_ns() - begin_ns) / 1000.0 / HITS;
}

TEST(hits_in_the_kernel_and_outside)
{
	uint32_t count = number_given("data", 10000);
	size_t rounds = number_given("rounds", 5);
	double inside_us[RATES_MAX], outside_us[RATES_MAX];
	static struct pair inside, outside;
	int net_inside = net_new(), net_outside, fd, ready[2];
	pid_t store;

	CHECK(rounds && rounds <= RATES_MAX, "rounds");
	CHECK(!route_add("/f", NNET_FACE_LOCAL), "a route");
	pair_make(&inside, "a");
	for (uint32_t i = 0; i < count; i++)
		pair_exchange(&inside, i);
	CHECK(counter("cs", "packets") == count, "all are cached");
	net_outside = net_new();
	CHECK(!cs_set(1) && !route_add("/f", NNET_FACE_LOCAL), "one place");
	pair_make(&outside, "a");
	CHECK(!store_attach(&fd) && !pipe(ready), "a store");
	store = fork();
	if (!store) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		store_serve_all(fd, count, ready[1]);
	}
	CHECK(read(ready[0], &(char){ 0 }, 1) == 1, "it has all");
	hit_us(&inside, count);
	hit_us(&outside, count);
	for (size_t i = 0; i < rounds; i++) {
		inside_us[i] = hit_us(&inside, count);
		outside_us[i] = hit_us(&outside, count);
	}
	net_enter(net_outside);
	CHECK(counter("cs", "cs_disk_misses") == 0, "the store had all");
	net_enter(net_inside);
	printf("figure Data: %u of %d octets\n", count, CONTENT_OCTETS);
	tell("hit in the kernel", "us", inside_us, rounds);
	tell("hit outside", "us", outside_us, rounds);
	printf("figure less delay: %.1f %%\n", 100 - 100 * inside_us[rounds / 2] / outside_us[rounds / 2]);
	CHECK(inside_us[rounds / 2] < 0.7 * outside_us[rounds / 2], "a hit in the kernel is much sooner there");
	kill(store, SIGKILL);
	waitpid(store, NULL, 0);
}

/* ---- rates ---- */

struct shared {
	volatile bool is_over;
	volatile uint64_t exchanges[2];
};

/* Exchanges per second of `processes`, each on its own processor, through one forwarder. */
static double rate_of(int processes, double seconds)
{
	struct shared *shared = memory(sizeof(*shared));
	uint64_t all = 0, begin_ns;
	pid_t children[2];

	for (int p = 0; p < processes; p++) {
		children[p] = fork();
		if (!children[p]) {
			static struct pair pair;
			cpu_set_t own;

			prctl(PR_SET_PDEATHSIG, SIGKILL);
			CPU_ZERO(&own);
			CPU_SET(p, &own);
			CHECK(!sched_setaffinity(0, sizeof(own), &own), "processor %d", p);
			pair_make(&pair, p ? "b" : "a");
			for (uint32_t i = random() % 1000000; !shared->is_over; i++) {
				pair_exchange(&pair, i % 10000000);
				shared->exchanges[p]++;
			}
			_exit(0);
		}
	}
	usleep(200000);
	begin_ns = now_ns();
	all = shared->exchanges[0] + shared->exchanges[1];
	usleep(seconds * 1e6);
	all = shared->exchanges[0] + shared->exchanges[1] - all;
	seconds = (now_ns() - begin_ns) / 1e9;
	shared->is_over = true;
	for (int p = 0; p < processes; p++) {
		int status;

		CHECK(waitpid(children[p], &status, 0) == children[p] && !status, "its process");
	}
	munmap(shared, sizeof(*shared));
	return all / seconds;
}

FIGURE(exchanges_by_one_and_two_processors)
{
	size_t rounds = number_given("rounds", 5);
	double one[RATES_MAX], two[RATES_MAX], seconds = number_given("seconds", 2);

	CHECK(rounds && rounds <= RATES_MAX, "rounds");
	net_new();
	CHECK(!cs_set(0) && !route_add("/f", NNET_FACE_LOCAL), "a route");
	for (size_t i = 0; i < rounds; i++) {
		one[i] = rate_of(1, seconds);
		if (sysconf(_SC_NPROCESSORS_ONLN) > 1)
			two[i] = rate_of(2, seconds);
	}
	tell("exchanges by one processor", "/s", one, rounds);
	if (sysconf(_SC_NPROCESSORS_ONLN) < 2)
		return;
	tell("exchanges by two processors", "/s", two, rounds);
	printf("figure two against one: %.2f\n", two[rounds / 2] / one[rounds / 2]);
}

/* A producer in the other namespace, and WINDOW Interests of this one on their way. */
FIGURE(exchanges_over_a_veth_pair)
{
	size_t rounds = number_given("rounds", 5);
	double rates[RATES_MAX], seconds = number_given("seconds", 2);
	struct nets nets = nets_joined();
	static struct form interest;
	int consumer;
	pid_t producer;

	CHECK(rounds && rounds <= RATES_MAX, "rounds");
	net_enter(nets.b);
	route_to(address_a, "/unused");
	CHECK(!route_add("/f", NNET_FACE_LOCAL), "a route");
	producer = fork();
	if (!producer) {
		static uint8_t room[NNET_PACKET_MAX];
		static struct form data;
		int fd = socket_new();

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		form_data(&data, "a");
		CHECK(!socket_bind(fd, "/f/a"), "bound");
		while (recv(fd, room, sizeof(room), 0) > 0) {
			uint8_t *digits = memmem(room, sizeof(room), "\x08\x07", 2);

			memcpy(data.digits, digits + 2, DIGITS);
			packet_send(fd, &data.packet);
		}
	}
	net_enter(nets.a);
	route_to(address_b, "/f");
	CHECK(!cs_set(0), "no content store");
	consumer = socket_new();
	form_interests(&interest, "a");
	usleep(200000);
	for (size_t i = 0; i < rounds; i++) {
		uint64_t begin_ns = now_ns(), end_ns = begin_ns + seconds * 1e9;
		uint32_t sent = 0, got = 0, first = (uint32_t)i * 1000000;

		while (now_ns() < end_ns) {
			while (sent < got + WINDOW) {
				set_number(&interest, first + sent++);
				packet_send(consumer, &interest.packet);
			}
			get(consumer);
			got++;
		}
		rates[i] = got / ((now_ns() - begin_ns) / 1e9);
		for (; got < sent; got++)
			get(consumer);
	}
	tell("exchanges over veth", "/s", rates, rounds);
	kill(producer, SIGKILL);
	waitpid(producer, NULL, 0);
}

/* ---- IS-49: consumers and providers of objects, with a link between them ---- */

enum { CONSUMERS = 15, RUNS = 30, SEGMENT_OCTETS = 8000, SEGMENTS_AT_ONCE = 8 };

struct end {
	int fd;
	bool is_consumer;
	int at_once;	/* segments of a call */
	volatile bool *is_over;
	uint64_t octets;
	pthread_t thread;
};

static void *end_works(void *given)
{
	struct end *end = given;
	static __thread uint8_t octets[SEGMENTS_AT_ONCE][SEGMENT_OCTETS];
	struct mmsghdr messages[SEGMENTS_AT_ONCE] = { 0 };
	struct iovec parts[SEGMENTS_AT_ONCE];

	for (int i = 0; i < SEGMENTS_AT_ONCE; i++) {
		parts[i] = (struct iovec){ octets[i], SEGMENT_OCTETS };
		messages[i].msg_hdr = (struct msghdr){ .msg_iov = &parts[i], .msg_iovlen = 1 };
	}
	while (!*end->is_over) {
		ssize_t done = 0;
		int count;

		if (end->is_consumer) {
			/* Receives the segments that are there, and one at least. */
			count = recvmmsg(end->fd, messages, end->at_once, MSG_WAITFORONE, NULL);
			for (int i = 0; i < count; i++)
				done += messages[i].msg_len;
		} else {
			done = send(end->fd, octets, end->at_once * SEGMENT_OCTETS, 0);
		}
		CHECK(done > 0 || errno == EAGAIN, "it goes on");
		end->octets += done > 0 ? done : 0;
	}
	return NULL;
}

static void end_make(struct end *end, bool is_consumer, int at_once, const char *prefix, volatile bool *is_over)
{
	const struct timeval soon = { .tv_usec = 50000 };
	struct sockaddr_nnet address = address_of(prefix);
	uint32_t octets = SEGMENT_OCTETS;

	*end = (struct end){ .is_consumer = is_consumer, .at_once = at_once, .is_over = is_over };
	end->fd = socket_of(SOCK_SEQPACKET);
	CHECK(!setsockopt(end->fd, SOL_SOCKET, SO_RCVTIMEO, &soon, sizeof(soon)) &&
	      !setsockopt(end->fd, SOL_SOCKET, SO_SNDTIMEO, &soon, sizeof(soon)) &&
	      !setsockopt(end->fd, SOL_NNET, NNET_SEGMENT_OCTETS, &octets, sizeof(octets)), "options");
	if (is_consumer)
		CHECK(!connect(end->fd, (void *)&address, sizeof(address)), "%s is opened", prefix);
	else
		CHECK(!socket_bind(end->fd, prefix), "%s is offered", prefix);
	CHECK(!pthread_create(&end->thread, NULL, end_works, end), "a thread");
}

/* The busy ticks of the processors, and all ticks. */
static void processors_read(uint64_t *worked, uint64_t *all)
{
	unsigned long long user, nice, system, idle, wait, irq, softirq;
	FILE *file = fopen("/proc/stat", "r");

	CHECK(file && fscanf(file, "cpu %llu %llu %llu %llu %llu %llu %llu", &user, &nice, &system, &idle, &wait, &irq, &softirq) == 7,
	      "/proc/stat");
	fclose(file);
	*worked = user + nice + system + irq + softirq;
	*all = *worked + idle + wait;
}

/* The mean, and the 95 % confidence interval of it by Student's t for RUNS. */
static void tell_mean(const char *what, const char *unit, const double *values)
{
	const double t = 2.045;
	double mean = 0, squares = 0, root = 1;

	for (int i = 0; i < RUNS; i++)
		mean += values[i] / RUNS;
	for (int i = 0; i < RUNS; i++)
		squares += (values[i] - mean) * (values[i] - mean);
	squares /= (RUNS - 1) * RUNS;
	for (int i = 0; i < 60; i++)
		root = (root + squares / root) / 2;
	printf("figure %s: %.2f +- %.2f %s\n", what, mean, t * root, unit);
}

FIGURE(fifteen_consumers_of_objects)
{
	double mebibytes[RUNS], percent[RUNS], mbit[RUNS], seconds = number_given("seconds", 2);
	static struct end ends[2 * CONSUMERS];
	struct nets nets = nets_joined();

	net_enter(nets.b);
	CHECK(face_add("link", address_a) > 0, "a face towards a");
	CHECK(!route_add("/many", NNET_FACE_LOCAL) && !cs_set(0), "a route to bound sockets");
	net_enter(nets.a);
	route_to(address_b, "/many");
	CHECK(!cs_set(0), "no content store, as the paper's");
	for (int run = 0; run < RUNS; run++) {
		volatile bool is_over = false;
		uint64_t worked[2], all[2], octets = 0, begin_ns;
		long before_kib;

		sleep(1);	/* until the memory of the run before it is freed */
		before_kib = memory_used_kib();
		processors_read(&worked[0], &all[0]);
		begin_ns = now_ns();
		for (int i = 0; i < 2 * CONSUMERS; i++) {
			char prefix[32];

			snprintf(prefix, sizeof(prefix), "/many/%d/%d", run, i % CONSUMERS);
			net_enter(i < CONSUMERS ? nets.b : nets.a);
			end_make(&ends[i], i >= CONSUMERS, 1, prefix, &is_over);
		}
		usleep(seconds * 1e6);
		mebibytes[run] = (memory_used_kib() - before_kib) / 1024.0;
		processors_read(&worked[1], &all[1]);
		is_over = true;
		for (int i = 0; i < 2 * CONSUMERS; i++) {
			CHECK(!pthread_join(ends[i].thread, NULL), "it ends");
			close(ends[i].fd);
			octets += ends[i].is_consumer ? ends[i].octets : 0;
		}
		mbit[run] = octets * 8000.0 / (now_ns() - begin_ns);
		percent[run] = 100.0 * (worked[1] - worked[0]) / (all[1] - all[0]);
	}
	tell_mean("memory of 15 consumers and their providers", "MiB", mebibytes);
	tell_mean("processors", "% of all", percent);
	tell_mean("goodput", "Mbit/s", mbit);
}

/* ---- IS-51: objects over a link of a gigabit ---- */

enum { GIGABIT_CONSUMERS = 4 };

static uint64_t octets_received(void)
{
	unsigned long long octets = 0;
	FILE *file = fopen("/proc/thread-self/net/dev", "r");
	char line[256];

	CHECK(file, "what devices count");
	while (fgets(line, sizeof(line), file))
		if (sscanf(line, " link: %llu", &octets) == 1)
			break;
	fclose(file);
	CHECK(octets, "what the link counts");
	return octets;
}

/* Segments of 8,000 octets in frames of 1,500; both directions are limited. Prints the used part of
 * the rate, with the frames' headers, and the part that is content. */
FIGURE(a_gigabit_in_frames_of_1500_octets)
{
	size_t rounds = number_given("rounds", 5);
	double used[RATES_MAX], content[RATES_MAX], seconds = number_given("seconds", 2);
	static struct end ends[2 * GIGABIT_CONSUMERS];
	struct nets nets = nets_joined();
	volatile bool is_over = false;

	CHECK(rounds && rounds <= RATES_MAX, "rounds");
	net_enter(nets.b);
	link_limit("link", 125000000);
	CHECK(face_add("link", address_a) > 0, "a face towards a");
	CHECK(!route_add("/gigabit", NNET_FACE_LOCAL) && !cs_set(0), "a route to bound sockets");
	net_enter(nets.a);
	link_limit("link", 125000000);
	route_to(address_b, "/gigabit");
	CHECK(!cs_set(0), "no content store");
	for (int i = 0; i < 2 * GIGABIT_CONSUMERS; i++) {
		char prefix[32];

		snprintf(prefix, sizeof(prefix), "/gigabit/%d", i % GIGABIT_CONSUMERS);
		net_enter(i < GIGABIT_CONSUMERS ? nets.b : nets.a);
		end_make(&ends[i], i >= GIGABIT_CONSUMERS, SEGMENTS_AT_ONCE, prefix, &is_over);
	}
	sleep(1);
	for (size_t round = 0; round < rounds; round++) {
		uint64_t begin_ns = now_ns(), frames = octets_received(), octets = 0;

		for (int i = GIGABIT_CONSUMERS; i < 2 * GIGABIT_CONSUMERS; i++)
			octets += ends[i].octets;
		usleep(seconds * 1e6);
		for (int i = GIGABIT_CONSUMERS; i < 2 * GIGABIT_CONSUMERS; i++)
			octets -= ends[i].octets;
		used[round] = (octets_received() - frames) * 800.0 / (now_ns() - begin_ns);
		content[round] = -octets * 8000.0 / (now_ns() - begin_ns);
	}
	is_over = true;
	for (int i = 0; i < 2 * GIGABIT_CONSUMERS; i++) {
		CHECK(!pthread_join(ends[i].thread, NULL), "it ends");
		close(ends[i].fd);
	}
	tell("a gigabit, in use", "%", used, rounds);
	tell("content over a gigabit", "Mbit/s", content, rounds);
}
