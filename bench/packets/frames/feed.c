// SPDX-License-Identifier: Apache-2.0
// Frames for one column of bench:packets, faster than sockets can send: the
// programs of bench/bpf/frames.bpf.c on the devices of clients and servers, and
// test runs with live frames (Linux 5.18) that send by the client's device. All
// of it is done in this thread: what the kernel does with the frames, it does
// before the test run returns.
//
//   feed CPU OBJECT CLIENT NODE FAR POD PROGRAM    namespaces; on NODE's
//   devices: `route`, `refuse`, or `-`
//
//   task PROTOCOL ORDER MANNER FLOWS TARGETS ADDRESS STEP PORT STEP    numbers;
//   answer: `ok` feed N             N frames: `SENT CPU_NS AT_SERVER AT_CLIENT
//   AT_NODE` load RATE MS       so many a second, in bursts: the same runs of
//   the node's program, if the kernel counts them: `RUNS NS` forget empties the
//   node's table of tracked connections: `ok`
#define _GNU_SOURCE
#include "devices.h"
#include "frames.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/tcp.h>
#include <linux/udp.h>
#include <string.h>
#include <time.h>

enum { BATCH = 64, MAX_CPUS = 1024 };

struct figures {
  uint64_t sent, cpu_ns, counts[COUNTERS];
};

static struct bpf_object *object;
static struct bpf_program *node_program;
static struct task task;
static int feed_fd, task_fd, counters_fd, softirq_fd = -1;
static const char *node;

/* --- time --- */

static uint64_t clock_ns(clockid_t clock) {
  struct timespec now;
  clock_gettime(clock, &now);
  return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

// What interrupts leave over goes to a thread of the kernel's, if anybody else
// wants this CPU.
static void find_softirq_thread(int cpu) {
  char path[64], wanted[32], comm[32];
  snprintf(wanted, sizeof(wanted), "ksoftirqd/%d\n", cpu);
  for (int pid = 2; pid < 1000 && softirq_fd < 0; pid++) {
    snprintf(path, sizeof(path), "/proc/%d/comm", pid);
    FILE *file = fopen(path, "r");
    if (!file)
      continue;
    if (fgets(comm, sizeof(comm), file) && strcmp(comm, wanted) == 0) {
      snprintf(path, sizeof(path), "/proc/%d/schedstat", pid);
      softirq_fd = open(path, O_RDONLY | O_CLOEXEC);
    }
    fclose(file);
  }
}

static uint64_t cpu_ns(void) {
  char text[64] = "";
  unsigned long long softirq_ns = 0;
  if (softirq_fd >= 0 && pread(softirq_fd, text, sizeof(text) - 1, 0) > 0)
    sscanf(text, "%llu", &softirq_ns);
  return clock_ns(CLOCK_THREAD_CPUTIME_ID) + softirq_ns;
}

static void nap(uint64_t ns) {
  struct timespec time = {(time_t)(ns / 1000000000), (long)(ns % 1000000000)};
  nanosleep(&time, NULL);
}

/* --- the task --- */

static uint32_t sum_of(const void *data, size_t size) {
  uint32_t sum = 0;
  for (size_t at = 0; at + 1 < size; at += 2) {
    uint16_t word;
    memcpy(&word, (const uint8_t *)data + at, 2);
    sum += word;
  }
  return sum;
}

// 18 bytes of data, or a SYN with the option for the segment size: 60 bytes of
// frame either way.
static void write_frame(int protocol) {
  struct iphdr *ip = (void *)(task.frame + ETH_HLEN);
  uint8_t *transport = (uint8_t *)(ip + 1);
  uint16_t length = protocol == IPPROTO_TCP ? 24 : 26;
  memset(ip, 0, FRAME_SIZE - ETH_HLEN);
  *(uint16_t *)(task.frame + 12) = htons(ETH_P_IP);
  ip->version = 4;
  ip->ihl = 5;
  ip->ttl = 64;
  ip->protocol = (uint8_t)protocol;
  ip->frag_off = htons(0x4000);
  ip->tot_len = htons((uint16_t)(sizeof(*ip) + length));
  if (protocol == IPPROTO_TCP) {
    struct tcphdr *tcp = (void *)transport;
    const uint8_t segment_size[] = {2, 4, 0x05, 0xb4};
    tcp->doff = 6;
    tcp->syn = 1;
    tcp->seq = htonl(1);
    tcp->window = htons(64240);
    memcpy(tcp + 1, segment_size, sizeof(segment_size));
  } else {
    ((struct udphdr *)transport)->len = htons(length);
    memset(transport + sizeof(struct udphdr), 'x',
           length - sizeof(struct udphdr));
  }
  task.ip_sum = sum_of(ip, sizeof(*ip));
  task.sum =
      sum_of(transport, length) + htons((uint16_t)protocol) + htons(length);
}

static void write_task(void) {
  const uint32_t zero = 0;
  must(bpf_map_update_elem(task_fd, &zero, &task, BPF_ANY) == 0,
       "write the task");
}

static void read_next(void) {
  const uint32_t zero = 0;
  struct task now;
  must(bpf_map_lookup_elem(task_fd, &zero, &now) == 0, "read the task");
  task.next = now.next;
}

static bool take_task(const char *line) {
  int protocol;
  read_next();
  if (sscanf(line, "%d %u %u %u %u %u %u %u %u", &protocol, &task.order,
             &task.manner, &task.flows, &task.targets, &task.address,
             &task.address_step, &task.port, &task.port_step) != 9)
    return false;
  write_frame(protocol);
  write_task();
  return true;
}

/* --- frames --- */

static void read_counts(uint64_t counts[COUNTERS]) {
  static uint64_t values[MAX_CPUS];
  for (uint32_t which = 0; which < COUNTERS; which++) {
    must(bpf_map_lookup_elem(counters_fd, &which, values) == 0,
         "read a counter");
    counts[which] = 0;
    for (int cpu = 0; cpu < libbpf_num_possible_cpus(); cpu++)
      counts[which] += values[cpu];
  }
}

static void send_frames(int count) {
  uint8_t frame[FRAME_SIZE];
  memcpy(frame, task.frame, sizeof(frame));
  LIBBPF_OPTS(bpf_test_run_opts, options, .data_in = frame,
              .data_size_in = sizeof(frame), .repeat = count,
              .batch_size = count < BATCH ? (uint32_t)count : BATCH,
              .flags = BPF_F_TEST_XDP_LIVE_FRAMES);
  must(bpf_prog_test_run_opts(feed_fd, &options) == 0, "run with live frames");
}

// Until no frame moves any more.
static void await_stillness(uint64_t counts[COUNTERS]) {
  for (uint64_t before = UINT64_MAX, now = 0; now != before; nap(1000000)) {
    before = now;
    read_counts(counts);
    now = counts[AT_SERVER] + counts[AT_CLIENT] + counts[AT_NODE];
  }
}

static void start_figures(struct figures *figures) {
  read_counts(figures->counts);
  figures->sent = 0;
  figures->cpu_ns = cpu_ns();
}

static void print_figures(struct figures *figures) {
  uint64_t counts[COUNTERS];
  await_stillness(counts);
  figures->cpu_ns = cpu_ns() - figures->cpu_ns;
  for (int which = 0; which < COUNTERS; which++)
    counts[which] -= figures->counts[which];
  printf("%lu %lu %lu %lu %lu\n", figures->sent, figures->cpu_ns,
         counts[AT_SERVER], counts[AT_CLIENT], counts[AT_NODE]);
}

static void feed(int count) {
  struct figures figures;
  start_figures(&figures);
  send_frames(count);
  figures.sent = (uint64_t)count;
  print_figures(&figures);
}

static void load(uint64_t rate, uint64_t duration_ms) {
  struct figures figures;
  start_figures(&figures);
  const uint64_t begun = clock_ns(CLOCK_MONOTONIC),
                 end = begun + duration_ms * 1000000;
  for (uint64_t now = begun; now < end; now = clock_ns(CLOCK_MONOTONIC)) {
    const uint64_t due = begun + figures.sent * 1000000000 / rate;
    if (due > now)
      nap(due - now);
    send_frames(BATCH);
    figures.sent += BATCH;
  }
  print_figures(&figures);
}

static void print_runs(void) {
  struct bpf_prog_info info = {0};
  uint32_t size = sizeof(info);
  if (node_program)
    bpf_obj_get_info_by_fd(bpf_program__fd(node_program), &info, &size);
  printf("%llu %llu\n", info.run_cnt, info.run_time_ns);
}

/* --- start --- */

static void attach(const char *program, const char *netns, const char *device) {
  struct bpf_program *found = bpf_object__find_program_by_name(object, program);
  enter(netns);
  must(found && bpf_program__attach_xdp(found, (int)if_nametoindex(device)),
       program);
}

static void prepare_node(const char *program) {
  static const char *const devices[] = {"eth0", "far0", "pod0"};
  enter(node);
  if (*program != '-')
    node_program = bpf_object__find_program_by_name(object, program);
  for (int i = 0; i < 3; i++) {
    if (*program == '-')
      receive_frames(devices[i]);
    else
      attach(program, node, devices[i]);
  }
}

static void load_object(const char *path) {
  object = bpf_object__open_file(path, NULL);
  must(object && bpf_object__load(object) == 0, path);
  feed_fd = bpf_program__fd(bpf_object__find_program_by_name(object, "feed"));
  task_fd = bpf_object__find_map_fd_by_name(object, "task");
  counters_fd = bpf_object__find_map_fd_by_name(object, "counters");
}

static void obey(const char *line) {
  unsigned long rate, duration_ms;
  int count;
  if (strncmp(line, "task ", 5) == 0 && take_task(line + 5))
    puts("ok");
  else if (sscanf(line, "feed %d", &count) == 1)
    feed(count);
  else if (sscanf(line, "load %lu %lu", &rate, &duration_ms) == 2)
    load(rate, duration_ms);
  else if (strcmp(line, "runs\n") == 0)
    print_runs();
  else if (strcmp(line, "forget\n") == 0)
    puts(forget_connections() ? "ok" : "no");
  else
    must(false, line);
}

int main(int argc, char **argv) {
  cpu_set_t cpus;
  char line[256];
  must(argc == 8, "arguments");
  CPU_ZERO(&cpus);
  CPU_SET(atoi(argv[1]), &cpus);
  must(sched_setaffinity(0, sizeof(cpus), &cpus) == 0, "sched_setaffinity");
  find_softirq_thread(atoi(argv[1]));
  node = argv[4];
  load_object(argv[2]);
  prepare_node(argv[7]);
  open_conntrack();
  hardware_address("eth0", task.frame);
  attach("server", argv[5], "eth0");
  attach("server", argv[6], "eth0");
  attach("client", argv[3], "eth0"); // and stays here
  hardware_address("eth0", task.frame + ETH_ALEN);
  task.ifindex = if_nametoindex("eth0");
  write_task();
  setvbuf(stdout, NULL, _IOLBF, 0);
  puts("ready");
  while (fgets(line, sizeof(line), stdin))
    obey(line);
  return 0;
}
