// SPDX-License-Identifier: Apache-2.0
// The packet layer: loads, and translates, refuses and resets packets of PROG_TEST_RUN. Which packet becomes
// which is tested in test/integration/bpf/packet; here, that each kernel's helpers do what they do there.
#include <bpf/bpf.h>
#include <errno.h>
#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

#include "packet/types.h"
#include "guest.h"

#define PACKET_PATH "/packet.bpf.o"
#define LOG_STATISTICS 4
#define LOG_SIZE 65536
#define MAX_PROGRAMS 8
#define ETHERNET 14
#define FRAME_SIZE 256
#define CONNECTIONS 16

enum { SYN = 2, ACK = 16, LEFT = 0xffffffff };

struct frame {
  uint8_t bytes[FRAME_SIZE];
  uint32_t size;
};

// In bits; negative if the type has no such member, nor have anonymous ones in it.
static int64_t member_offset(const struct btf* types, uint32_t id, const char* name) {
  const struct btf_type* type = btf__type_by_id(types, id);
  if (type == NULL || !btf_is_composite(type)) return -1;
  for (int i = 0; i < btf_vlen(type); i++) {
    const struct btf_member* member = &btf_members(type)[i];
    const char* own = btf__name_by_offset(types, member->name_off);
    int64_t inner = own[0] == '\0' ? member_offset(types, member->type, name)
                                   : -(strcmp(own, name) != 0);
    if (inner >= 0) return inner + btf_member_bit_offset(type, i);
  }
  return -1;
}

static bool set_summed_offset(struct bpf_object* object) {
  struct btf* types = btf__load_vmlinux_btf();
  int32_t id = types == NULL ? -1 : btf__find_by_name_kind(types, "sk_buff", BTF_KIND_STRUCT);
  int64_t offset = id < 0 ? -1 : member_offset(types, id, "ip_summed");
  uint32_t value = offset;
  btf__free(types);
  printf("# sk_buff.ip_summed at bit %d\n", (int)offset);
  return offset > 0 && set_variable(object, "ip_summed_at", &value, sizeof(value));
}

// Its indexes and records, which a loader sizes: the programs are told of two buckets (packet/conn/maps.h).
static bool is_of_connections(const struct bpf_map* map) {
  const char* name = bpf_map__name(map);
  bool is_named = strncmp(name, "fl_conn", 7) == 0 || strncmp(name, "fl_client", 9) == 0 ||
                  strncmp(name, "fl_reply", 8) == 0;
  return is_named && bpf_map__max_entries(map) == 1;
}

static struct bpf_object* load_packet_object(void) {
  static char logs[MAX_PROGRAMS][LOG_SIZE];
  struct bpf_object* object = bpf_object__open_file(PACKET_PATH, NULL);
  struct bpf_program* program;
  struct bpf_map* map;
  int count = 0;
  if (object == NULL || !set_summed_offset(object)) return NULL;
  bpf_object__for_each_map(map, object) {
    if (bpf_map__max_entries(map) > 4096) bpf_map__set_max_entries(map, 4096);
    if (is_of_connections(map)) bpf_map__set_max_entries(map, CONNECTIONS);
  }
  bpf_object__for_each_program(program, object) {
    bpf_program__set_log_buf(program, logs[count++ % MAX_PROGRAMS], LOG_SIZE);
    bpf_program__set_log_level(program, LOG_STATISTICS);
  }
  if (bpf_object__load(object) == 0) return object;
  int error = errno;
  for (int i = 0; i < count; i++) {
    size_t size = strlen(logs[i]);
    printf("# %s\n", logs[i] + (size > 1500 ? size - 1500 : 0));
  }
  errno = error;
  return NULL;
}

static void say_counts(struct bpf_object* object) {
  struct bpf_program* program;
  printf("# verified instructions, packet layer:");
  bpf_object__for_each_program(program, object) {
    size_t size = 0;
    const char* found = strstr(bpf_program__log_buf(program, &size), "processed ");
    int count = found == NULL ? -1 : atoi(found + strlen("processed "));
    printf(" %s %d", bpf_program__name(program), count);
  }
  printf("\n");
}

static uint32_t sum_of(const uint8_t* bytes, uint32_t size, uint32_t sum) {
  for (uint32_t i = 0; i < size; i++) sum += i % 2 == 0 ? bytes[i] << 8 : bytes[i];
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >> 16);
  return sum;
}

static void put16(uint8_t* at, uint32_t value) {
  at[0] = value >> 8;
  at[1] = value;
}

static uint32_t network_size(bool is_v6) { return is_v6 ? 40 : 20; }
static uint8_t* addresses(struct frame* f, bool is_v6) {
  return f->bytes + ETHERNET + (is_v6 ? 8 : 12);
}

// Sum of everything that the checksum of the transport header covers: 0xffff if it is right.
static uint32_t transport_sum(struct frame* f, bool is_v6, uint8_t protocol) {
  uint32_t at = ETHERNET + network_size(is_v6);
  uint32_t sum = 0;
  if (protocol != IPPROTO_ICMP)
    sum = sum_of(addresses(f, is_v6), is_v6 ? 32 : 8, f->size - at + protocol);
  return sum_of(f->bytes + at, f->size - at, sum);
}

// TCP from 198.51.100.9:40000 or 2001:db8::9 to Service n, port 80.
static struct frame tcp_to(int n, bool is_v6, uint8_t flags) {
  const uint8_t from6[16] = {0x20, 0x01, 0x0d, 0xb8, [15] = 9}, to6[16] = {0xfd, [15] = n};
  const uint8_t addresses4[8] = {198, 51, 100, 9, 10, 96, 0, n};
  struct frame f = {.size = ETHERNET + network_size(is_v6) + 20};
  uint8_t* ip = f.bytes + ETHERNET;
  uint8_t* tcp = ip + network_size(is_v6);
  put16(f.bytes + 12, is_v6 ? 0x86dd : 0x0800);
  if (is_v6) {
    ip[0] = 0x60;
    ip[5] = 20;
    ip[6] = IPPROTO_TCP;
    ip[7] = 64;
    memcpy(ip + 8, from6, sizeof(from6));
    memcpy(ip + 24, to6, sizeof(to6));
  } else {
    ip[0] = 0x45;
    ip[3] = 40;
    ip[8] = 64;
    ip[9] = IPPROTO_TCP;
    memcpy(ip + 12, addresses4, sizeof(addresses4));
    put16(ip + 10, ~sum_of(ip, 20, 0));
  }
  put16(tcp, 40000);
  put16(tcp + 2, 80);
  tcp[12] = 5 << 4;
  tcp[13] = flags;
  put16(tcp + 16, ~transport_sum(&f, is_v6, IPPROTO_TCP));
  return f;
}

// The program's return value; the frame becomes what the program made of it.
static uint32_t run(struct bpf_object* object, const char* name, struct frame* f) {
  struct frame out = {0};
  struct bpf_program* program = bpf_object__find_program_by_name(object, name);
  LIBBPF_OPTS(bpf_test_run_opts, options, .data_in = f->bytes, .data_size_in = f->size,
              .data_out = out.bytes, .data_size_out = FRAME_SIZE);
  errno = 0;
  if (bpf_prog_test_run_opts(bpf_program__fd(program), &options) != 0) return 0;
  out.size = options.data_size_out;
  *f = out;
  return options.retval;
}

static bool is_right(struct frame* f, bool is_v6, uint8_t protocol) {
  bool is_ip_right = is_v6 || sum_of(f->bytes + ETHERNET, 20, 0) == 0xffff;
  return is_ip_right && transport_sum(f, is_v6, protocol) == 0xffff;
}

static void check_family(struct bpf_object* object, bool is_v6) {
  const char* family = is_v6 ? "IPv6" : "IPv4";
  uint32_t last = is_v6 ? 31 : 7;
  struct frame f = tcp_to(10, is_v6, SYN);
  uint32_t action = run(object, "fl_ingress", &f);
  check(action == LEFT && addresses(&f, is_v6)[last] == 1 && is_right(&f, is_v6, IPPROTO_TCP),
        "%s: a packet goes to a backend", family);
  f = tcp_to(10, is_v6, SYN);
  action = run(object, "fl_egress", &f);
  check(action == LEFT && addresses(&f, is_v6)[last] == 10 && is_right(&f, is_v6, IPPROTO_TCP),
        "%s: another packet is left at egress", family);
  f = tcp_to(30, is_v6, SYN);
  action = run(object, "fl_ingress", &f);
  check(action == TC_ACT_REDIRECT && is_right(&f, is_v6, is_v6 ? IPPROTO_ICMPV6 : IPPROTO_ICMP),
        "%s: a packet to a Service without backends is answered by ICMP", family);
  f = tcp_to(31, is_v6, SYN);
  check(run(object, "fl_ingress", &f) == TC_ACT_SHOT, "%s: one to an empty Local set is dropped",
        family);
  f = tcp_to(20, is_v6, ACK);
  action = run(object, "fl_ingress", &f);
  check(action == TC_ACT_REDIRECT && is_right(&f, is_v6, IPPROTO_TCP),
        "%s: one of an unknown connection is answered by a RST", family);
}

// Atomic instructions that fetch.
static bool has_atomics(void) {
  struct utsname own;
  int major = 0, minor = 0;
  uname(&own);
  sscanf(own.release, "%d.%d", &major, &minor);
  return major > 5 || (major == 5 && minor >= 12);
}

static void check_refused(void) {
  libbpf_print_fn_t print = libbpf_set_print(NULL);
  check(load_packet_object() == NULL, "the packet layer is refused before Linux 5.12");
  libbpf_set_print(print);
}

void check_packets(void) {
  if (!has_atomics()) {
    check_refused();
    return;
  }
  struct bpf_object* object = load_packet_object();
  struct packet_settings settings = {.secret = 1, .answers_per_second = 1000};
  __u32 zero = 0;
  check(object != NULL, "the packet layer loads");
  if (object == NULL) return;
  say_counts(object);
  fill_tables(object);
  bpf_map_update_elem(bpf_object__find_map_fd_by_name(object, "fl_packet"), &zero, &settings, 0);
  check_family(object, false);
  check_family(object, true);
  bpf_object__close(object);
}
