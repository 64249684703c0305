/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A prototype of a table of connections in BPF arrays: one record of a cache line for each
 * connection. Its place is its first index: a slot of a bucket that the client's tuple hashes to. A
 * slot of a second table leads from the reply's tuple to it: to claim that slot is to take the SNAT
 * port. Lock-free; needs atomics that fetch (Linux 5.12).
 *
 * A slot's word is 0 (free), a tag (taken), the tag with BUSY (being filled, no reader takes it), or
 * TOMB with the second in which it was freed. A tomb is free after TOMB_SECONDS: no program runs for
 * so long, so that none reads a record that is filled anew meanwhile.
 *
 * Each key has two buckets. `elsewhere` of the first one counts its keys in their second one, so
 * that most look-ups read one bucket.
 */
#ifndef FAIRLEAD_CONN_TABLE_H
#define FAIRLEAD_CONN_TABLE_H

#include <linux/bpf.h>
#include <stdbool.h>
#include <bpf/bpf_helpers.h>

#define SLOTS	     7
#define BUSY	     0x80000000u
#define TOMB	     0x40000000u
#define TAG	     0x3fffffffu
#define TOMB_SECONDS 2

/* IPv4: in network byte order, as on the wire. */
struct conn_tuple {
	__u32 source, destination;
	__u16 source_port, destination_port;
	__u32 protocol;
};

struct conn {
	struct conn_tuple request; /* client -> frontend */
	__u32 backend, snat;
	__u16 backend_port, snat_port;
	__u32 backend_id, service_id;
	__u32 seen_client, seen_backend;
	__u16 generation;
	__u8 state, flags;
	__u32 progress_client, progress_backend;
	__u32 born, answers_by;
};
_Static_assert(sizeof(struct conn) == 64, "a cache line");

struct client_bucket {
	__u32 word[SLOTS];
	__u32 elsewhere;
};

/* Upper half: as a word of the clients' table. Lower half: the index of the record. */
struct reply_bucket {
	__u64 word[SLOTS];
	__u64 elsewhere;
};

/* A power of two. The sizes of the maps follow from it. */
const volatile __u32 buckets = 1024;

#define TABLE(name, value_type)                                                             \
	struct {                                                                                   \
		__uint(type, BPF_MAP_TYPE_ARRAY);                                                  \
		__uint(map_flags, BPF_F_MMAPABLE);                                                 \
		__uint(max_entries, 1);                                                            \
		__type(key, __u32);                                                                \
		__type(value, struct value_type);                                                  \
	} name SEC(".maps")

TABLE(fl_client, client_bucket);
TABLE(fl_reply, reply_bucket);
TABLE(fl_conn, conn);

static __always_inline __u64 mix(__u64 h)
{
	h ^= h >> 33;
	h *= 0xff51afd7ed558ccdULL;
	h ^= h >> 33;
	h *= 0xc4ceb9fe1a85ec53ULL;
	return h ^ h >> 33;
}

static __always_inline __u64 hash_conn(const struct conn_tuple *t, __u64 secret)
{
	__u64 ports = (__u64)t->source_port << 48 | (__u64)t->destination_port << 32 | t->protocol;

	return mix(mix(((__u64)t->source << 32 | t->destination) ^ secret) ^ ports);
}

static __always_inline __u32 tag_of(__u64 hash)
{
	__u32 tag = hash >> 32 & TAG;

	return tag ? tag : 1;
}

static __always_inline __u32 bucket_of(__u64 hash, bool is_second)
{
	__u32 at = hash;

	if (is_second)
		at ^= (tag_of(hash) * 0x5bd1e995u) | 1;
	return at & (buckets - 1);
}

static __always_inline bool is_free(__u32 word, __u32 now)
{
	return !word || (word & TOMB && ((now - word) & 0xff) >= TOMB_SECONDS);
}

static __always_inline bool is_same_tuple(const struct conn_tuple *a, const struct conn_tuple *b)
{
	return !((a->source ^ b->source) | (a->destination ^ b->destination) |
		 (a->source_port ^ b->source_port) | (a->destination_port ^ b->destination_port) |
		 (a->protocol ^ b->protocol));
}

/* So that the verifier learns it: the compiler knows, and would leave the comparison out. */
static __always_inline bool is_slot(__u32 *slot)
{
	asm volatile("" : "+r"(*slot));
	return *slot < SLOTS;
}

static __always_inline struct conn *conn_at(__u32 index)
{
	return bpf_map_lookup_elem(&fl_conn, &index);
}

/* --- clients ----------------------------------------------------------------------------------- */

/* Index + 1 of the record of this tuple in one bucket; 0: none. `mine`: of this slot nothing is
 * said. */
static __always_inline __u32 client_in(__u32 bucket, __u32 tag, const struct conn_tuple *t,
				       bool with_busy, __u32 mine)
{
	struct client_bucket *b = bpf_map_lookup_elem(&fl_client, &bucket);
	__u32 found = 0;

	if (!b)
		return 0;
#pragma clang loop unroll(full)
	for (__u32 i = 0; i < SLOTS; i++) {
		__u32 word = *(volatile __u32 *)&b->word[i];
		struct conn *c;

		if ((with_busy ? word & ~BUSY : word) != tag || bucket * SLOTS + i + 1 == mine)
			continue;
		c = conn_at(bucket * SLOTS + i);
		if (c && is_same_tuple(&c->request, t))
			found = bucket * SLOTS + i + 1;
	}
	return found;
}

static __always_inline __u32 elsewhere(__u32 bucket)
{
	struct client_bucket *b = bpf_map_lookup_elem(&fl_client, &bucket);

	return b ? *(volatile __u32 *)&b->elsewhere : 0;
}

/* Index + 1 of the connection; 0: there is none. */
static __always_inline __u32 find_client(const struct conn_tuple *t, __u64 hash)
{
	__u32 bucket = bucket_of(hash, false), tag = tag_of(hash);
	__u32 found = client_in(bucket, tag, t, false, 0);

	if (found || !elsewhere(bucket))
		return found;
	return client_in(bucket_of(hash, true), tag, t, false, 0);
}

/* Takes a slot of the bucket. Index + 1 of its record; 0: it is full. */
static __always_inline __u32 claim_in(__u32 bucket, __u32 tag, __u32 now)
{
	struct client_bucket *b = bpf_map_lookup_elem(&fl_client, &bucket);

	if (!b)
		return 0;
	for (__u32 i = 0; i < SLOTS; i++) {
		__u32 word = *(volatile __u32 *)&b->word[i];

		if (is_free(word, now) &&
		    __sync_val_compare_and_swap(&b->word[i], word, tag | BUSY) == word)
			return bucket * SLOTS + i + 1;
	}
	return 0;
}

static __always_inline void set_client_word(__u32 index, __u32 word)
{
	__u32 bucket = index / SLOTS, i = index % SLOTS;
	struct client_bucket *b = bpf_map_lookup_elem(&fl_client, &bucket);

	if (b && is_slot(&i))
		__sync_lock_test_and_set(&b->word[i], word);
}

static __always_inline void count_elsewhere(__u64 hash, __u32 index, __s32 by)
{
	__u32 first = bucket_of(hash, false);
	struct client_bucket *b;

	if (index / SLOTS == first)
		return;
	b = bpf_map_lookup_elem(&fl_client, &first);
	if (b)
		__sync_fetch_and_add(&b->elsewhere, by);
}

/* --- replies ----------------------------------------------------------------------------------- */

static __always_inline void reply_of(const struct conn *c, struct conn_tuple *t)
{
	t->source = c->backend;
	t->destination = c->snat;
	t->source_port = c->backend_port;
	t->destination_port = c->snat_port;
	t->protocol = c->request.protocol;
}

/* As client_in(). `mine`: the word that this CPU has put. */
static __always_inline __u32 reply_in(__u32 bucket, __u32 tag, const struct conn_tuple *t,
				      __u64 mine)
{
	struct reply_bucket *b = bpf_map_lookup_elem(&fl_reply, &bucket);
	__u32 found = 0;

	if (!b)
		return 0;
#pragma clang loop unroll(full)
	for (__u32 i = 0; i < SLOTS; i++) {
		__u64 word = *(volatile __u64 *)&b->word[i];
		struct conn_tuple reply;
		struct conn *c;

		if (word >> 32 != tag || word == mine)
			continue;
		c = conn_at((__u32)word);
		if (!c)
			continue;
		reply_of(c, &reply);
		if (is_same_tuple(&reply, t))
			found = (__u32)word + 1;
	}
	return found;
}

static __always_inline __u32 find_reply(const struct conn_tuple *t, __u64 hash)
{
	__u32 bucket = bucket_of(hash, false), tag = tag_of(hash);
	__u32 found = reply_in(bucket, tag, t, 0);
	struct reply_bucket *b;

	if (found)
		return found;
	b = bpf_map_lookup_elem(&fl_reply, &bucket);
	if (!b || !*(volatile __u64 *)&b->elsewhere)
		return 0;
	return reply_in(bucket_of(hash, true), tag, t, 0);
}

static __always_inline bool claim_reply_in(__u32 bucket, __u64 word, __u32 now)
{
	struct reply_bucket *b = bpf_map_lookup_elem(&fl_reply, &bucket);

	if (!b)
		return false;
	for (__u32 i = 0; i < SLOTS; i++) {
		__u64 old = *(volatile __u64 *)&b->word[i];

		if (is_free(old >> 32, now) &&
		    __sync_val_compare_and_swap(&b->word[i], old, word) == old)
			return true;
	}
	return false;
}

static __always_inline bool free_reply_in(__u32 bucket, __u64 word, __u32 now)
{
	struct reply_bucket *b = bpf_map_lookup_elem(&fl_reply, &bucket);

	if (!b)
		return false;
	for (__u32 i = 0; i < SLOTS; i++)
		if (__sync_val_compare_and_swap(&b->word[i], word,
						(__u64)(TOMB | (now & 0xff)) << 32) == word)
			return true;
	return false;
}

static __always_inline void count_reply_elsewhere(__u64 hash, __s64 by)
{
	__u32 first = bucket_of(hash, false);
	struct reply_bucket *b = bpf_map_lookup_elem(&fl_reply, &first);

	if (b)
		__sync_fetch_and_add(&b->elsewhere, by);
}

static __always_inline void free_reply(__u64 hash, __u32 index, __u32 now)
{
	__u64 word = (__u64)tag_of(hash) << 32 | index;

	if (free_reply_in(bucket_of(hash, false), word, now))
		return;
	if (free_reply_in(bucket_of(hash, true), word, now))
		count_reply_elsewhere(hash, -1);
}

enum claimed { CLAIMED, PORT_TAKEN, NO_ROOM };

/*
 * Takes the reply tuple of a record that is filled, and that nobody else reads yet. Two CPUs that
 * claim one tuple at once: who sees the other one's gives way, perhaps both.
 */
static __always_inline enum claimed claim_reply(const struct conn_tuple *t, __u64 hash, __u32 index,
						__u32 now)
{
	__u32 first = bucket_of(hash, false), second = bucket_of(hash, true);
	__u32 tag = tag_of(hash);
	__u64 word = (__u64)tag << 32 | index;
	bool is_elsewhere = false;

	if (reply_in(first, tag, t, 0) || reply_in(second, tag, t, 0))
		return PORT_TAKEN;
	if (!claim_reply_in(first, word, now)) {
		/* Counted first: who does not find it in the first bucket must look on. */
		count_reply_elsewhere(hash, 1);
		is_elsewhere = true;
		if (!claim_reply_in(second, word, now)) {
			count_reply_elsewhere(hash, -1);
			return NO_ROOM;
		}
	}
	if (!reply_in(first, tag, t, word) && !reply_in(second, tag, t, word))
		return CLAIMED;
	if (!free_reply_in(is_elsewhere ? second : first, word, now))
		return PORT_TAKEN;
	if (is_elsewhere)
		count_reply_elsewhere(hash, -1);
	return PORT_TAKEN;
}

/* --- both -------------------------------------------------------------------------------------- */

/* Takes a slot for this tuple, whose record is then to be filled. Index + 1; 0: no room. */
static __always_inline __u32 claim_client(__u64 hash, __u32 now)
{
	__u32 first = bucket_of(hash, false), tag = tag_of(hash);
	__u32 claimed = claim_in(first, tag, now);
	struct client_bucket *b;

	if (claimed)
		return claimed;
	b = bpf_map_lookup_elem(&fl_client, &first);
	if (!b)
		return 0;
	__sync_fetch_and_add(&b->elsewhere, 1);
	claimed = claim_in(bucket_of(hash, true), tag, now);
	if (!claimed)
		__sync_fetch_and_add(&b->elsewhere, -1);
	return claimed;
}

/* Of a record that nobody reads: it was never published, or is taken from readers here. */
static __always_inline void release(__u64 hash, __u32 index, __u32 now)
{
	set_client_word(index, TOMB | (now & 0xff));
	count_elsewhere(hash, index, -1);
}

/* Another CPU has begun the same connection at this moment. */
static __always_inline bool is_doubled(const struct conn_tuple *t, __u64 hash, __u32 mine)
{
	__u32 tag = tag_of(hash);

	return client_in(bucket_of(hash, false), tag, t, true, mine) ||
	       client_in(bucket_of(hash, true), tag, t, true, mine);
}

#endif
