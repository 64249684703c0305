// SPDX-License-Identifier: Apache-2.0
// The agent's tables, written by hand in the layouts of bpf/common/types.h.
#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <errno.h>
#include <linux/bpf.h>
#include <linux/types.h>
#include <string.h>
#include <sys/mman.h>

#include "../../../bpf/common/types.h"
#include "guest.h"

// Backend ids: TCP_SERVERS of IPv4, as many of IPv6, then UDP_SERVERS of each.
enum { FIRST_TCP4 = 1, FIRST_TCP6 = 4, FIRST_UDP4 = 7, FIRST_UDP6 = 9 };
enum { TCP_SERVICE = 1, FIRST_UDP_SERVICE = 2 };

struct frontend_spec {
  int n;  // last part of the ClusterIP; 0: the wildcard
  int port;
  enum l4_protocol protocol;
  bool drop_if_empty;
  uint32_t service;
  uint32_t block;
  int members;
  int affinity_seconds;
};

static int map_fd(struct bpf_object* object, const char* name) {
  return bpf_object__find_map_fd_by_name(object, name);
}

static void put(struct bpf_object* object, const char* map, const void* key, const void* value) {
  errno = 0;
  if (bpf_map_update_elem(map_fd(object, map), key, value, BPF_ANY) != 0)
    check(false, "put %s", map);
}

// As the agent does it: the frontend through shared memory, then a batch into the hash map.
static void put_frontend(struct bpf_object* object, const struct frontend_spec* spec, bool is_v6) {
  static __u32 id;
  struct frontend4_key key4 = {.port = spec->port, .protocol = spec->protocol};
  struct frontend6_key key6 = {.port = spec->port, .protocol = spec->protocol};
  struct frontend value = {
      .service_id = spec->service,
      .affinity_seconds = spec->affinity_seconds,
      .family = is_v6 ? 6 : 4,
      .port = spec->port,
      .protocol = spec->protocol,
  };
  for (int i = 0; i < POSITIONS; i++) {
    value.rule[i].block = spec->block + is_v6;
    value.rule[i].members = spec->members;
    value.rule[i].flags.drop_if_empty = spec->drop_if_empty;
  }
  if (spec->n != 0) {
    const __u8 address4[] = {10, 96, 0, spec->n};
    const __u8 address6[16] = {0xfd, [15] = spec->n};
    const __u8 mapped[16] = {[10] = 0xff, [11] = 0xff, 10, 96, 0, spec->n};
    memcpy(key4.address, address4, sizeof(address4));
    memcpy(key6.address, address6, sizeof(address6));
    memcpy(value.address, is_v6 ? address6 : mapped, sizeof(value.address));
  }
  id++;
  put(object, "fl_frontend", &id, &value);
  LIBBPF_OPTS(bpf_map_batch_opts, options);
  const char* map = is_v6 ? "fl_frontend6" : "fl_frontend4";
  const void* key = is_v6 ? (void*)&key6 : (void*)&key4;
  __u32 count = 1;
  if (bpf_map_update_batch(map_fd(object, map), key, &id, &count, &options) != 0)
    check(false, "batch into %s", map);
}

static void put_backend4(struct bpf_object* object, __u32 id, __u32 service, int port) {
  struct backend4 value = {
      .address = {127, 0, 0, 1},
      .port = port,
      .state = BACKEND_ACTIVE,
      .service_id = service,
      .generation = 1,
  };
  put(object, "fl_backend4", &id, &value);
}

static void put_backend6(struct bpf_object* object, __u32 id, __u32 service, int port) {
  struct backend6 value = {
      .address = {[15] = 1},
      .port = port,
      .state = BACKEND_ACTIVE,
      .service_id = service,
      .generation = 1,
  };
  put(object, "fl_backend6", &id, &value);
}

// Through shared memory, as the agent does it.
static void put_set(struct bpf_object* object, int block, __u32 service, __u32 first_id,
                    int members) {
  size_t size = 4096 * sizeof(struct slot_block);
  int fd = map_fd(object, "fl_slot_block");
  struct slot_block* blocks = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (blocks == MAP_FAILED) return check(false, "mmap fl_slot_block");
  blocks[block].slot[0] = service;
  for (int i = 0; i < members; i++) blocks[block].slot[1 + i] = first_id + i;
  munmap(blocks, size);
}

static void put_node_addresses(struct bpf_object* object) {
  struct node_address4_key key4 = {{127, 0, 0, 1}};
  struct node_address6_key key6 = {{[15] = 1}};
  struct node_address value = {.scope = SCOPE_LOOPBACK};
  struct runtime_flags flags = {.node_ports = 1};
  __u32 zero = 0;
  put(object, "fl_node_addr4", &key4, &value);
  put(object, "fl_node_addr6", &key6, &value);
  put(object, "fl_runtime", &zero, &flags);
}

void fill_tables(struct bpf_object* object) {
  const struct frontend_spec frontends[] = {
      {10, 80, PROTOCOL_TCP, false, TCP_SERVICE, 0, TCP_SERVERS, 0},
      {20, 80, PROTOCOL_TCP, false, TCP_SERVICE, 0, TCP_SERVERS, 100},
      {30, 80, PROTOCOL_TCP, false, TCP_SERVICE, 0, 0, 0},
      {31, 80, PROTOCOL_TCP, true, TCP_SERVICE, 0, 0, 0},
      {30, 53, PROTOCOL_UDP, false, FIRST_UDP_SERVICE, 0, 0, 0},
      {53, 53, PROTOCOL_UDP, false, FIRST_UDP_SERVICE, 2, 1, 0},
      {54, 53, PROTOCOL_UDP, false, FIRST_UDP_SERVICE + 1, 4, 1, 0},
      {0, NODE_PORT, PROTOCOL_TCP, false, TCP_SERVICE, 0, TCP_SERVERS, 0},
  };
  for (int i = 0; i < TCP_SERVERS; i++) {
    put_backend4(object, FIRST_TCP4 + i, TCP_SERVICE, TCP_PORT + i);
    put_backend6(object, FIRST_TCP6 + i, TCP_SERVICE, TCP_PORT + i);
  }
  put_set(object, 0, TCP_SERVICE, FIRST_TCP4, TCP_SERVERS);
  put_set(object, 1, TCP_SERVICE, FIRST_TCP6, TCP_SERVERS);
  for (int i = 0; i < UDP_SERVERS; i++) {
    put_backend4(object, FIRST_UDP4 + i, FIRST_UDP_SERVICE + i, UDP_PORT + i);
    put_backend6(object, FIRST_UDP6 + i, FIRST_UDP_SERVICE + i, UDP_PORT + i);
    put_set(object, 2 + 2 * i, FIRST_UDP_SERVICE + i, FIRST_UDP4 + i, 1);
    put_set(object, 3 + 2 * i, FIRST_UDP_SERVICE + i, FIRST_UDP6 + i, 1);
  }
  for (size_t i = 0; i < sizeof(frontends) / sizeof(frontends[0]); i++) {
    put_frontend(object, &frontends[i], false);
    put_frontend(object, &frontends[i], true);
  }
  put_node_addresses(object);
}

void set_udp_backends(struct bpf_object* object, bool is_serving) {
  __u32 id4 = FIRST_UDP4, id6 = FIRST_UDP6;
  struct backend4 value4 = {0};
  struct backend6 value6 = {0};
  bpf_map_lookup_elem(map_fd(object, "fl_backend4"), &id4, &value4);
  bpf_map_lookup_elem(map_fd(object, "fl_backend6"), &id6, &value6);
  value4.state = value6.state = is_serving ? BACKEND_ACTIVE : BACKEND_GONE;
  put(object, "fl_backend4", &id4, &value4);
  put(object, "fl_backend6", &id6, &value6);
}

void skip_cgroup(struct bpf_object* object, uint64_t id) {
  struct runtime_flags flags = {.skipped_cgroups = 1, .node_ports = 1};
  struct cgroup_skip value = {.reason = 1};
  __u32 zero = 0;
  put(object, "fl_cgroup_skip", &id, &value);
  put(object, "fl_runtime", &zero, &flags);
}

int64_t open_connections(struct bpf_object* object) {
  int64_t open = 0;
  for (__u32 id = 1; id < FIRST_UDP6 + UDP_SERVERS; id++) {
    struct backend_stat stat = {0};
    bpf_map_lookup_elem(map_fd(object, "fl_be_stat"), &id, &stat);
    open += stat.connections - stat.closed;
    if (stat.connections == 0) return -1;  // every backend has been used
  }
  return open;
}

uint64_t count_of_reason(struct bpf_object* object, uint32_t reason) {
  uint64_t counts[64] = {0}, sum = 0;
  bpf_map_lookup_elem(map_fd(object, "fl_reason"), &reason, counts);
  for (int cpu = 0; cpu < libbpf_num_possible_cpus() && cpu < 64; cpu++) sum += counts[cpu];
  return sum;
}
