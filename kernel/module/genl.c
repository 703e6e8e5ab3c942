// SPDX-License-Identifier: GPL-2.0 OR MIT
/* Generic netlink: faces of devices, routes, strategies, the content store; and their listings. */
#include <linux/module.h>
#include <linux/rtnetlink.h>
#include <net/genetlink.h>
#include "nnet.h"

/* NDN's group address on Ethernet. */
static const u8 group_address[ETH_ALEN] __aligned(2) = { 0x01, 0x00, 0x5e, 0x00, 0x17, 0xaa };

static const struct nla_policy nnet_policy[NNET_A_MAX + 1] = {
	[NNET_A_FACE] = { .type = NLA_U64 },
	[NNET_A_IFINDEX] = { .type = NLA_U32 },
	[NNET_A_ADDRESS] = NLA_POLICY_EXACT_LEN(ETH_ALEN),
	[NNET_A_NAME] = { .type = NLA_BINARY, .len = NNET_PREFIX_MAX },
	[NNET_A_STRATEGY] = { .type = NLA_BINARY, .len = 512 },
	[NNET_A_COST] = { .type = NLA_U64 },
	[NNET_A_COUNT] = { .type = NLA_U64 },
	[NNET_A_READ] = { .type = NLA_U64 },
	[NNET_A_DATA] = { .type = NLA_BINARY, .len = NNET_PACKET_MAX },
	[NNET_A_FRESH_MS] = { .type = NLA_U64 },
};

static struct nnet *nnet_of_info(struct genl_info *info)
{
	return nnet_of(genl_info_net(info));
}

static bool has(struct genl_info *info, enum nnet_attr attr)
{
	if (info->attrs[attr])
		return true;
	NL_SET_ERR_MSG(info->extack, "an attribute is missing: see uapi/nnet.h");
	return false;
}

/* Sets the name of a call; without the attribute, the empty name. */
static void set_name(struct nn_call *call, const struct nlattr *attr)
{
	call->name_len = nla_len(attr);
	call->name = call->name_len ? nla_data(attr) : NULL;
}

/* Replies with one number. */
static int reply(struct genl_info *info, u8 cmd, enum nnet_attr attr, u64 value)
{
	struct sk_buff *msg = genlmsg_new(NLMSG_GOODSIZE, GFP_KERNEL);
	void *header;

	if (!msg)
		return -ENOMEM;
	header = genlmsg_put_reply(msg, info, &nnet_genl, 0, cmd);
	if (!header || nla_put_u64_64bit(msg, attr, value, NNET_A_PAD)) {
		nlmsg_free(msg);
		return -EMSGSIZE;
	}
	genlmsg_end(msg, header);
	return genlmsg_reply(msg, info);
}

/* Makes a call to the instance, which is created if there is none yet. */
static s64 ask(struct nnet *nn, struct nn_call *call)
{
	int err;

	mutex_lock(&nn->lock);
	err = nnet_need_instance(nn);
	mutex_unlock(&nn->lock);
	return err ? err : nnet_ask(nn, call);
}

static int ask_without_reply(struct nnet *nn, struct nn_call *call)
{
	s64 answer = ask(nn, call);

	return answer < 0 ? answer : 0;
}

/* The same for a call that enters a name in a table. */
static int ask_with_room(struct nnet *nn, enum nn_table table, struct nn_call *call)
{
	s64 answer;

	mutex_lock(&nn->lock);
	answer = nnet_need_instance(nn);
	mutex_unlock(&nn->lock);
	if (!answer)
		answer = nnet_ask_with_room(nn, table, call);
	return answer < 0 ? answer : 0;
}

/* ---- faces ---- */

static int face_new(struct sk_buff *skb, struct genl_info *info)
{
	const struct nlattr *address = info->attrs[NNET_A_ADDRESS];
	struct nnet_face *face = ERR_PTR(-ENODEV);
	struct net_device *dev;
	u64 id = 0;

	if (!has(info, NNET_A_IFINDEX))
		return -EINVAL;
	rtnl_lock();
	dev = __dev_get_by_index(genl_info_net(info), nla_get_u32(info->attrs[NNET_A_IFINDEX]));
	if (dev)
		face = nnet_face_of_device(nnet_of_info(info), dev,
					   address ? nla_data(address) : group_address);
	if (!IS_ERR(face))
		id = face->id;
	rtnl_unlock();
	return IS_ERR(face) ? PTR_ERR(face) : reply(info, NNET_CMD_FACE_NEW, NNET_A_FACE, id);
}

static int face_del(struct sk_buff *skb, struct genl_info *info)
{
	struct nnet *nn = nnet_of_info(info);
	struct nnet_face *face;
	int err = -ENOENT;

	if (!has(info, NNET_A_FACE))
		return -EINVAL;
	rtnl_lock();
	mutex_lock(&nn->lock);
	face = xa_load(&nn->faces, nla_get_u64(info->attrs[NNET_A_FACE]));
	if (nla_get_u64(info->attrs[NNET_A_FACE]) == NNET_FACE_LOCAL || (face && !face->dev))
		err = -EBUSY;	/* permanent, or owned by a socket */
	else if (face) {
		nnet_face_del(face);
		err = 0;
	}
	mutex_unlock(&nn->lock);
	rtnl_unlock();
	return err;
}

static int put_face(struct sk_buff *msg, const struct nnet_face *face)
{
	if (nla_put_u64_64bit(msg, NNET_A_FACE, face->id, NNET_A_PAD) ||
	    nla_put_u32(msg, NNET_A_KIND, face->kind) ||
	    nla_put_u64_64bit(msg, NNET_A_IN, atomic64_read(&face->in), NNET_A_PAD) ||
	    nla_put_u64_64bit(msg, NNET_A_OUT, atomic64_read(&face->out), NNET_A_PAD))
		return -EMSGSIZE;
	if (face->dev && (nla_put_u32(msg, NNET_A_IFINDEX, face->dev->ifindex) ||
			  nla_put(msg, NNET_A_ADDRESS, ETH_ALEN, face->address)))
		return -EMSGSIZE;
	return 0;
}

static int face_get(struct sk_buff *msg, struct netlink_callback *cb)
{
	struct nnet *nn = nnet_of(sock_net(msg->sk));
	unsigned long id = cb->args[0];
	struct nnet_face *face;

	mutex_lock(&nn->lock);
	xa_for_each_start(&nn->faces, id, face, cb->args[0]) {
		void *header = genlmsg_put(msg, NETLINK_CB(cb->skb).portid, cb->nlh->nlmsg_seq,
					   &nnet_genl, NLM_F_MULTI, NNET_CMD_FACE_GET);

		if (!header)
			break;
		if (put_face(msg, face)) {
			genlmsg_cancel(msg, header);
			break;
		}
		genlmsg_end(msg, header);
		cb->args[0] = id + 1;
	}
	mutex_unlock(&nn->lock);
	return msg->len;
}

/* ---- routes, strategies, the content store ---- */

static int route(struct genl_info *info, enum nn_op op)
{
	struct nn_call call = { .op = op };

	if (!has(info, NNET_A_NAME) || !has(info, NNET_A_FACE))
		return -EINVAL;
	set_name(&call, info->attrs[NNET_A_NAME]);
	call.face = nla_get_u64(info->attrs[NNET_A_FACE]);
	if (info->attrs[NNET_A_COST])
		call.value = nla_get_u64(info->attrs[NNET_A_COST]);
	if (op == NN_ROUTE_ADD)
		return ask_with_room(nnet_of_info(info), NN_FIB, &call);
	return ask_without_reply(nnet_of_info(info), &call);
}

static int route_new(struct sk_buff *skb, struct genl_info *info)
{
	return route(info, NN_ROUTE_ADD);
}

static int route_del(struct sk_buff *skb, struct genl_info *info)
{
	return route(info, NN_ROUTE_REMOVE);
}

static int strategy_new(struct sk_buff *skb, struct genl_info *info)
{
	struct nn_call call = { .op = NN_STRATEGY_SET };

	if (!has(info, NNET_A_NAME) || !has(info, NNET_A_STRATEGY))
		return -EINVAL;
	set_name(&call, info->attrs[NNET_A_NAME]);
	call.more = nla_data(info->attrs[NNET_A_STRATEGY]);
	call.more_len = nla_len(info->attrs[NNET_A_STRATEGY]);
	return ask_with_room(nnet_of_info(info), NN_STRATEGIES, &call);
}

static int strategy_del(struct sk_buff *skb, struct genl_info *info)
{
	struct nn_call call = { .op = NN_STRATEGY_UNSET };

	if (!has(info, NNET_A_NAME))
		return -EINVAL;
	set_name(&call, info->attrs[NNET_A_NAME]);
	return ask_without_reply(nnet_of_info(info), &call);
}

static int cs_set(struct sk_buff *skb, struct genl_info *info)
{
	struct nn_call call = { .op = NN_CS_LIMIT };
	s64 answer;

	if (!has(info, NNET_A_COUNT))
		return -EINVAL;
	call.value = nla_get_u64(info->attrs[NNET_A_COUNT]);
	answer = ask(nnet_of_info(info), &call);
	while (answer >= 0) {	/* evicts the Data beyond the limit step by step */
		struct nn_call shrink = { .op = NN_CS_SHRINK };

		answer = nnet_ask(nnet_of_info(info), &shrink);
		if (answer <= 0)
			break;
		cond_resched();
	}
	return answer;
}

/* Maximum number of Data that one request erases. */
#define ERASED_AT_ONCE 1024

static int cs_erase(struct sk_buff *skb, struct genl_info *info)
{
	struct nn_call call = { .op = NN_CS_ERASE };
	u64 left = ERASED_AT_ONCE, erased = 0;
	s64 answer;

	if (!has(info, NNET_A_NAME))
		return -EINVAL;
	set_name(&call, info->attrs[NNET_A_NAME]);
	if (info->attrs[NNET_A_COUNT])
		left = min_t(u64, left, nla_get_u64(info->attrs[NNET_A_COUNT]));
	do {	/* bottom halves are off while one call erases up to 64 */
		call.value = min_t(u64, left, 64);
		answer = ask(nnet_of_info(info), &call);
		if (answer < 0)
			return answer;
		erased += answer;
		left -= answer;
		cond_resched();
	} while (left && answer == call.value);
	return reply(info, NNET_CMD_CS_ERASE, NNET_A_COUNT, erased);
}

static int store_attach(struct sk_buff *skb, struct genl_info *info)
{
	return nnet_store_attach(nnet_of_info(info), info->snd_portid);
}

static int store_answered(struct sk_buff *skb, struct genl_info *info)
{
	const struct nlattr *data = info->attrs[NNET_A_DATA], *fresh = info->attrs[NNET_A_FRESH_MS];

	if (!has(info, NNET_A_READ))
		return -EINVAL;
	if (info->genlhdr->cmd == NNET_CMD_STORE_ABSENT)
		data = NULL;
	else if (!has(info, NNET_A_DATA) || !nla_len(data))
		return -EINVAL;
	return nnet_store_answered(nnet_of_info(info), info->snd_portid,
				   nla_get_u64(info->attrs[NNET_A_READ]), data ? nla_data(data) : NULL,
				   data ? nla_len(data) : 0, fresh ? nla_get_u64(fresh) : 0);
}

static int plant_panic(struct sk_buff *skb, struct genl_info *info)
{
	struct nn_call call = { .op = NN_PANIC };

	if (!nnet_planted)
		return -EOPNOTSUPP;
	if (info->attrs[NNET_A_COUNT])
		call.value = nla_get_u64(info->attrs[NNET_A_COUNT]);
	return ask_without_reply(nnet_of_info(info), &call);
}

/* ---- listings ---- */

struct listing {
	struct sk_buff *msg;
	struct netlink_callback *cb;
	u8 cmd;
	bool is_full;
};

/* Writes a row as a message of its own. Returns false if it does not fit. */
static bool put_row(void *into, const struct nn_row *row)
{
	struct listing *list = into;
	void *header = genlmsg_put(list->msg, NETLINK_CB(list->cb->skb).portid,
				   list->cb->nlh->nlmsg_seq, &nnet_genl, NLM_F_MULTI, list->cmd);
	bool is_strategy = list->cmd == NNET_CMD_STRATEGY_GET;

	list->is_full = !header;
	if (!header)
		return false;
	if (nla_put(list->msg, NNET_A_NAME, row->name_len, row->name))
		goto full;
	if (is_strategy && nla_put(list->msg, NNET_A_STRATEGY, row->more_len, row->more))
		goto full;
	if (!is_strategy && nla_put_u64_64bit(list->msg, NNET_A_FACE, row->face, NNET_A_PAD))
		goto full;
	if (list->cmd == NNET_CMD_ROUTE_GET &&
	    nla_put_u64_64bit(list->msg, NNET_A_COST, row->value, NNET_A_PAD))
		goto full;
	genlmsg_end(list->msg, header);
	return true;

full:
	list->is_full = true;
	genlmsg_cancel(list->msg, header);
	return false;
}

static int list_rows(struct sk_buff *msg, struct netlink_callback *cb, enum nn_table table, u8 cmd)
{
	struct listing list = { .msg = msg, .cb = cb, .cmd = cmd };
	u64 cursor = cb->args[0];
	int err = 0;

	/* One call visits a bounded part of the table, which may have no row. */
	while (!err && !msg->len && !list.is_full && cursor != NN_ROWS_END)
		err = nnet_rows(nnet_of(sock_net(msg->sk)), table, &cursor, put_row, &list);
	cb->args[0] = cursor;
	if (!err && list.is_full && !msg->len)
		err = -EMSGSIZE;
	return err ? err : msg->len;
}

/* A message holds the longest row: two names, of which one may be a strategy's. */
static int list_start(struct netlink_callback *cb)
{
	cb->min_dump_alloc = NNET_PREFIX_MAX + 1024;
	return 0;
}

static int route_get(struct sk_buff *msg, struct netlink_callback *cb)
{
	return list_rows(msg, cb, NN_FIB, NNET_CMD_ROUTE_GET);
}

static int strategy_get(struct sk_buff *msg, struct netlink_callback *cb)
{
	return list_rows(msg, cb, NN_STRATEGIES, NNET_CMD_STRATEGY_GET);
}

static int binding_get(struct sk_buff *msg, struct netlink_callback *cb)
{
	return list_rows(msg, cb, NN_BINDINGS, NNET_CMD_BINDING_GET);
}

/* ---- events ---- */

static const struct genl_multicast_group nnet_groups[] = { { .name = NNET_GENL_EVENTS } };

/* True while the family is registered: at other times no event is sent. */
static bool has_family;

static struct sk_buff *event(enum nnet_cmd cmd, gfp_t flags, void **header)
{
	struct sk_buff *msg = READ_ONCE(has_family) ? genlmsg_new(NLMSG_DEFAULT_SIZE, flags) : NULL;

	*header = msg ? genlmsg_put(msg, 0, 0, &nnet_genl, 0, cmd) : NULL;
	if (*header)
		return msg;
	nlmsg_free(msg);
	return NULL;
}

static void tell(struct nnet *nn, struct sk_buff *msg, void *header, gfp_t flags)
{
	genlmsg_end(msg, header);
	/* A listener without room gets an error from its own socket. */
	genlmsg_multicast_netns(&nnet_genl, nn->net, msg, 0, 0, flags);
}

void nnet_tell_face(const struct nnet_face *face, enum nnet_cmd cmd)
{
	void *header;
	struct sk_buff *msg = event(cmd, GFP_KERNEL, &header);

	if (!msg)
		return;
	if (put_face(msg, face))
		nlmsg_free(msg);
	else
		tell(face->nn, msg, header, GFP_KERNEL);
}

/* May be called in any context. */
void nnet_tell_stopped(struct nnet *nn)
{
	void *header;
	struct sk_buff *msg = event(NNET_CMD_STOPPED, GFP_ATOMIC, &header);

	if (!msg)
		return;
	if (nla_put_string(msg, NNET_A_WHY, nn->why))
		nlmsg_free(msg);
	else
		tell(nn, msg, header, GFP_ATOMIC);
}

/* ---- the family ---- */

#define WRITES(command, function) \
	{ .cmd = command, .doit = function, .flags = GENL_UNS_ADMIN_PERM }
#define LISTS(command, function) { .cmd = command, .start = list_start, .dumpit = function }

static const struct genl_ops nnet_ops[] = {
	WRITES(NNET_CMD_FACE_NEW, face_new),
	WRITES(NNET_CMD_FACE_DEL, face_del),
	LISTS(NNET_CMD_FACE_GET, face_get),
	WRITES(NNET_CMD_ROUTE_NEW, route_new),
	WRITES(NNET_CMD_ROUTE_DEL, route_del),
	LISTS(NNET_CMD_ROUTE_GET, route_get),
	WRITES(NNET_CMD_STRATEGY_NEW, strategy_new),
	WRITES(NNET_CMD_STRATEGY_DEL, strategy_del),
	LISTS(NNET_CMD_STRATEGY_GET, strategy_get),
	LISTS(NNET_CMD_BINDING_GET, binding_get),
	WRITES(NNET_CMD_CS_SET, cs_set),
	WRITES(NNET_CMD_CS_ERASE, cs_erase),
	WRITES(NNET_CMD_PANIC, plant_panic),
	WRITES(NNET_CMD_STORE_ATTACH, store_attach),
	WRITES(NNET_CMD_STORE_FOUND, store_answered),
	WRITES(NNET_CMD_STORE_ABSENT, store_answered),
};

struct genl_family nnet_genl __ro_after_init = {
	.name = NNET_GENL_NAME,
	.version = NNET_VERSION,
	.maxattr = NNET_A_MAX,
	.policy = nnet_policy,
	.netnsok = true,
	.module = THIS_MODULE,
	.ops = nnet_ops,
	.n_ops = ARRAY_SIZE(nnet_ops),
	.mcgrps = nnet_groups,
	.n_mcgrps = ARRAY_SIZE(nnet_groups),
	.resv_start_op = NNET_CMD_MAX + 1,
};

int nnet_genl_init(void)
{
	int err = nnet_store_init();

	if (err)
		return err;
	err = genl_register_family(&nnet_genl);
	if (err)
		nnet_store_exit();
	WRITE_ONCE(has_family, !err);
	return err;
}

/* The notifier reports faces with RTNL held. Taking RTNL here waits for a report under way. */
void nnet_genl_exit(void)
{
	rtnl_lock();
	WRITE_ONCE(has_family, false);
	rtnl_unlock();
	genl_unregister_family(&nnet_genl);
	nnet_store_exit();
}
