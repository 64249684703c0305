/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Readers of one frontend while others are added, removed and changed, for PROG_TEST_RUN: through
 * select.h, and through hash values that are replaced at each update, which fl_frontend avoids. A
 * packet is the key to read. Not shipped.
 */
#include <stddef.h>

#include "common/select.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

struct reading {
	__u64 picks;
	__u64 wrong;  /* of another frontend */
	__u64 missed; /* the frontend was not found */
};

/* The size of a frontend as a hash value. */
struct replaced {
	struct frontend4_key key;
	__u64 owner; /* address of the key, in network order */
	__u64 rest[2];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct reading);
} fl_reading SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 8);
	__type(key, struct frontend4_key);
	__type(value, struct replaced);
} fl_replaced SEC(".maps");

/* The same, preallocated. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8);
	__type(key, struct frontend4_key);
	__type(value, struct replaced);
} fl_prealloc SEC(".maps");

static __always_inline bool read_key(const struct xdp_md *ctx, struct frontend4_key *key)
{
	void *data = (void *)(long)ctx->data;

	if (data + sizeof(*key) > (void *)(long)ctx->data_end)
		return false;
	__builtin_memcpy(key, data, sizeof(*key));
	return true;
}

static __always_inline int note(bool is_found, __u32 owner, const struct frontend4_key *key)
{
	__u32 zero = 0, wanted;
	struct reading *reading = bpf_map_lookup_elem(&fl_reading, &zero);

	if (!reading)
		return XDP_ABORTED;
	__builtin_memcpy(&wanted, key->address, sizeof(wanted));
	reading->picks += 1;
	reading->missed += !is_found;
	reading->wrong += is_found && owner != wanted;
	return XDP_PASS;
}

/* A backend's port is the last part of its frontend's address. */
SEC("xdp") int fl_read_select(struct xdp_md *ctx)
{
	struct request request = {.position = POSITION_HOST, .may_choose_anew = true};
	struct choice choice = {};
	struct frontend4_key key;
	__be32 owner;

	if (!read_key(ctx, &key))
		return XDP_ABORTED;
	__builtin_memcpy(&owner, key.address, sizeof(owner));
	set_ipv4(&request.address, owner);
	request.port = key.port;
	request.protocol = key.protocol;
	select_backend(&request, FAMILY_IPV4, &choice);
	owner = (owner & ~bpf_htonl(0xff)) | bpf_htonl(choice.port & 0xff);
	return note(choice.verdict == VERDICT_TRANSLATE, owner, &key);
}

static __always_inline int read_replaced(const struct replaced *found,
					 const struct frontend4_key *key)
{
	return note(found, found ? *(const volatile __u64 *)&found->owner : 0, key);
}

SEC("xdp") int fl_read_replace(struct xdp_md *ctx)
{
	struct frontend4_key key;

	return read_key(ctx, &key) ? read_replaced(bpf_map_lookup_elem(&fl_replaced, &key), &key)
				   : XDP_ABORTED;
}

SEC("xdp") int fl_read_prealloc(struct xdp_md *ctx)
{
	struct frontend4_key key;

	return read_key(ctx, &key) ? read_replaced(bpf_map_lookup_elem(&fl_prealloc, &key), &key)
				   : XDP_ABORTED;
}

/* The key compared last, and one more look-up after a mismatch or a miss. */
SEC("xdp") int fl_read_twice(struct xdp_md *ctx)
{
	struct frontend4_key key;
	__u64 owner = 0;
	bool is_found = false;

	if (!read_key(ctx, &key))
		return XDP_ABORTED;
	for (int probe = 0; probe < 2 && !is_found; probe++) {
		struct replaced *found = bpf_map_lookup_elem(&fl_replaced, &key);

		if (!found)
			continue;
		owner = *(volatile __u64 *)&found->owner;
		is_found = *(volatile __u64 *)&found->key == *(__u64 *)&key;
	}
	return note(is_found, owner, &key);
}
