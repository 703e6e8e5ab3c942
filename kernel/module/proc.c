// SPDX-License-Identifier: GPL-2.0 OR MIT
/* /proc/net/nnet/: tables and counters to read. */
#include <linux/ctype.h>
#include <linux/proc_fs.h>
#include <linux/seq_file.h>
#include "nnet.h"

/* ---- names, as NDN URIs ---- */

/* TYPE or LENGTH; the core has checked the name. */
static u32 number(const u8 **at, const u8 *end)
{
	u32 value = *at < end ? *(*at)++ : 0;
	int more = value == 253 ? 2 : value == 254 ? 4 : 0;

	if (more)
		value = 0;
	while (more-- && *at < end)
		value = value << 8 | *(*at)++;
	return value;
}

static void show_value(struct seq_file *seq, const u8 *value, u32 len)
{
	u32 i, periods = 0;

	while (periods < len && value[periods] == '.')
		periods++;
	if (periods == len)	/* NDN URI: three more, because a path has "." and ".." */
		seq_puts(seq, "...");
	for (i = 0; i < len; i++) {
		if (isalnum(value[i]) && isascii(value[i]))
			seq_putc(seq, value[i]);
		else if (strchr("-._~", value[i]) && value[i])
			seq_putc(seq, value[i]);
		else
			seq_printf(seq, "%%%02X", value[i]);
	}
}

static void show_name(struct seq_file *seq, const u8 *at, u32 name_len)
{
	const u8 *end = at + name_len;

	if (!name_len)
		seq_putc(seq, '/');
	while (at < end) {
		u32 type = number(&at, end), len = number(&at, end);

		len = min_t(u32, len, end - at);
		seq_putc(seq, '/');
		if (type != 8)
			seq_printf(seq, "%u=", type);
		show_value(seq, at, len);
		at += len;
	}
}

/* ---- tables ---- */

static bool show_route(void *seq, const struct nn_row *row)
{
	show_name(seq, row->name, row->name_len);
	seq_printf(seq, " %llu %llu\n", row->face, row->value);
	return true;
}

static bool show_binding(void *seq, const struct nn_row *row)
{
	show_name(seq, row->name, row->name_len);
	seq_printf(seq, " %llu\n", row->face);
	return true;
}

static bool show_strategy(void *seq, const struct nn_row *row)
{
	show_name(seq, row->name, row->name_len);
	seq_putc(seq, ' ');
	show_name(seq, row->more, row->more_len);
	seq_putc(seq, '\n');
	return true;
}

static bool show_counter(void *seq, const struct nn_row *row)
{
	seq_printf(seq, "%.*s %llu\n", (int)row->name_len, (const char *)row->name, row->value);
	return true;
}

static int show_table(struct seq_file *seq, enum nn_table table,
		      bool (*row)(void *into, const struct nn_row *row))
{
	struct nnet *nn = nnet_of(seq_file_single_net(seq));
	u64 cursor = 0;
	int err = 0;

	/* If the rows do not fit, seq_file calls again with more room. */
	while (!err && cursor != NN_ROWS_END && !seq_has_overflowed(seq))
		err = nnet_rows(nn, table, &cursor, row, seq);
	return err;
}

static int show_fib(struct seq_file *seq, void *unused)
{
	return show_table(seq, NN_FIB, show_route);
}

static int show_bpt(struct seq_file *seq, void *unused)
{
	return show_table(seq, NN_BINDINGS, show_binding);
}

static int show_strategies(struct seq_file *seq, void *unused)
{
	return show_table(seq, NN_STRATEGIES, show_strategy);
}

static int show_cs(struct seq_file *seq, void *unused)
{
	return show_table(seq, NN_CS, show_counter);
}

static int show_drops(struct seq_file *seq, void *unused)
{
	return show_table(seq, NN_DROPS, show_counter);
}

static int show_stats(struct seq_file *seq, void *unused)
{
	struct nnet *nn = nnet_of(seq_file_single_net(seq));
	int i;

	for (i = 0; i < NNET_COUNTS; i++)
		seq_printf(seq, "%s %lld\n", nnet_count_names[i], atomic64_read(&nn->counts[i]));
	return show_table(seq, NN_COUNTERS, show_counter);
}

static int show_memory(struct seq_file *seq, void *unused)
{
	nnet_memory_show(seq);
	return 0;
}

/* Durations with bottom halves off: the passages within each limit in us, and the longest. */
static int show_passages(struct seq_file *seq, void *unused)
{
	struct nnet *nn = nnet_of(seq_file_single_net(seq));
	int i, what;

	seq_puts(seq, "us packets time lists control\n");
	for (i = 0; i < NNET_PASSAGE_TIMES; i++) {
		if (i == NNET_PASSAGE_TIMES - 1)
			seq_puts(seq, "more");
		else
			seq_printf(seq, "%d", 1 << i);
		for (what = 0; what < NNET_PASSAGES; what++)
			seq_printf(seq, " %lld", atomic64_read(&nn->passages[what][i]));
		seq_putc(seq, '\n');
	}
	seq_puts(seq, "longest");
	for (what = 0; what < NNET_PASSAGES; what++)
		seq_printf(seq, " %llu", READ_ONCE(nn->longest_ns[what]) / NSEC_PER_USEC);
	seq_putc(seq, '\n');
	return 0;
}

/* The packets that each processor has passed through the door, for all namespaces. */
static int show_processors(struct seq_file *seq, void *unused)
{
	int cpu;

	for_each_online_cpu(cpu)
		seq_printf(seq, "%d %llu\n", cpu, READ_ONCE(per_cpu_ptr(nnet_cpus, cpu)->packets));
	return 0;
}

static int show_stop(struct seq_file *seq, void *unused)
{
	struct nnet *nn = nnet_of(seq_file_single_net(seq));

	if (READ_ONCE(nn->stopped))
		seq_printf(seq, "stopped %s\n", nn->why);
	else
		seq_puts(seq, nn->instance ? "running\n" : "unused\n");
	return 0;
}

/* Notes the counter of packets that the face `local` sent to bound sockets. */
static bool note_to_local(void *count, const struct nn_row *row)
{
	static const char name[] = "to_local";

	if (row->name_len == sizeof(name) - 1 && !memcmp(row->name, name, row->name_len))
		*(u64 *)count = row->value;
	return true;
}

static int show_faces(struct seq_file *seq, void *unused)
{
	static const char *const kinds[] = { "socket", "station", "group" };
	struct nnet *nn = nnet_of(seq_file_single_net(seq));
	u64 cursor = 0, to_local = 0;
	struct nnet_face *face;
	unsigned long id;

	nnet_rows(nn, NN_COUNTERS, &cursor, note_to_local, &to_local);
	if (nn->instance)
		seq_printf(seq, "%u local - - 0 %llu\n", NNET_FACE_LOCAL, to_local);
	mutex_lock(&nn->lock);
	xa_for_each(&nn->faces, id, face) {
		struct nn_call link = { .op = NN_LINK_ROWS, .link = face->link };

		seq_printf(seq, "%llu %s ", face->id, kinds[face->kind]);
		if (face->dev)
			seq_printf(seq, "%s %pM", face->dev->name, face->address);
		else
			seq_puts(seq, "- -");
		seq_printf(seq, " %lld %lld\n", atomic64_read(&face->in), atomic64_read(&face->out));
		nn->row = show_counter;
		nn->row_into = seq;
		nnet_call(nn, &link);
	}
	mutex_unlock(&nn->lock);
	return 0;
}

static const struct {
	const char *name;
	int (*show)(struct seq_file *seq, void *unused);
} files[] = {
	{ "faces", show_faces }, { "fib", show_fib }, { "bpt", show_bpt },
	{ "strategies", show_strategies }, { "cs", show_cs }, { "stats", show_stats },
	{ "drops", show_drops }, { "memory", show_memory }, { "stop", show_stop },
	{ "processors", show_processors }, { "passages", show_passages },
};

int nnet_proc_init(struct nnet *nn)
{
	struct proc_dir_entry *folder = proc_net_mkdir(nn->net, "nnet", nn->net->proc_net);
	int i;

	if (!folder)
		return -ENOMEM;
	for (i = 0; i < ARRAY_SIZE(files); i++)
		if (!proc_create_net_single(files[i].name, 0444, folder, files[i].show, NULL)) {
			nnet_proc_exit(nn);
			return -ENOMEM;
		}
	return 0;
}

void nnet_proc_exit(struct nnet *nn)
{
	remove_proc_subtree("nnet", nn->net->proc_net);
}
