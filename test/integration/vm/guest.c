// SPDX-License-Identifier: Apache-2.0
// Process 1 of the virtual machine: mounts, runs every check, switches the
// machine off.
#include "guest.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/if.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#define PIN_FOLDER "/bpf/links"
#define SKIPPED_CGROUP CGROUP_ROOT "/skipped"
#define MAX_HOOKS 16

static int checks;

void check(bool is_ok, const char* format, ...) {
  int error = errno;
  va_list arguments;
  va_start(arguments, format);
  printf(is_ok ? "ok " : "not ok ");
  vprintf(format, arguments);
  printf(is_ok ? "\n" : ": %s\n", strerror(error));
  va_end(arguments);
  checks++;
}

static void mount_at(const char* type, const char* path) {
  mkdir(path, 0755);
  if (mount(type, path, type, 0, NULL) != 0) check(false, "mount %s", path);
}

static void raise_loopback(void) {
  struct ifreq request = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING};
  int fd = socket(AF_INET, SOCK_DGRAM, 0);
  if (ioctl(fd, SIOCSIFFLAGS, &request) != 0) check(false, "loopback");
  close(fd);
}

// Kernels before 5.11 count maps as locked memory.
static void lift_limits(void) {
  struct rlimit unlimited = {RLIM_INFINITY, RLIM_INFINITY};
  setrlimit(RLIMIT_MEMLOCK, &unlimited);
}

// On the kernel's command line.
static bool has_word(const char* word) {
  char line[1024] = "";
  int fd = open("/proc/cmdline", O_RDONLY);
  ssize_t size = read(fd, line, sizeof(line) - 1);
  close(fd);
  return size > 0 && strstr(line, word) != NULL;
}

static int attach_all(struct bpf_object* object, struct bpf_link** links) {
  struct bpf_program* program;
  int cgroup = open(CGROUP_ROOT, O_RDONLY | O_DIRECTORY);
  int count = 0;
  bpf_object__for_each_program(program, object) {
    char path[128];
    links[count] = bpf_program__attach_cgroup(program, cgroup);
    check(links[count] != NULL, "attach %s", bpf_program__name(program));
    if (links[count] == NULL) continue;
    snprintf(path, sizeof(path), PIN_FOLDER "/%s", bpf_program__name(program));
    check(bpf_link__pin(links[count], path) == 0, "pin %s", bpf_program__name(program));
    count++;
  }
  close(cgroup);
  return count;
}

// What a new agent does: its own programs over the same maps take the place of
// the old ones.
static void check_takeover(struct bpf_object* old, const struct settings* settings) {
  struct bpf_object* object = bpf_object__open_file(OBJECT_PATH, NULL);
  struct bpf_program* program;
  struct bpf_map* map;
  bool is_ok = object != NULL;
  bpf_object__for_each_map(map, object) {
    struct bpf_map* kept = bpf_object__find_map_by_name(old, bpf_map__name(map));
    if (strncmp(bpf_map__name(map), "fl_", 3) != 0) continue;
    is_ok = is_ok && bpf_map__reuse_fd(map, bpf_map__fd(kept)) == 0;
  }
  check(is_ok && apply_settings(object, settings) && bpf_object__load(object) == 0,
        "programs of a second start load over the first one's maps");
  bpf_object__for_each_program(program, object) {
    char path[128];
    snprintf(path, sizeof(path), PIN_FOLDER "/%s", bpf_program__name(program));
    struct bpf_link* link = bpf_link__open(path);
    check(link != NULL && bpf_link__update_program(link, program) == 0, "take over %s",
          bpf_program__name(program));
    bpf_link__destroy(link);
  }
  check(is_reachable(), "Services answer after a take-over");
  bpf_object__close(object);
}

static void check_skipped_cgroup(struct bpf_object* object) {
  struct stat status = {0};
  mkdir(SKIPPED_CGROUP, 0755);
  stat(SKIPPED_CGROUP, &status);
  skip_cgroup(object, status.st_ino);
  if (fork() == 0) {
    int fd = open(SKIPPED_CGROUP "/cgroup.procs", O_WRONLY);
    _exit(write(fd, "0", 1) != 1 || is_reachable() ? 1 : 0);
  }
  int code = 0;
  wait(&code);
  errno = 0;
  check(code == 0, "a cgroup that opted out is left alone");
  check(is_reachable(), "a cgroup that did not is not");
}

static void check_attached(const struct expectation* expected) {
  struct settings settings = {own_cookie(), expected->has_retval};
  struct bpf_link* links[MAX_HOOKS];
  struct bpf_object* object = load_object(&settings, NULL);
  if (object == NULL) return check(false, "load to attach");
  fill_tables(object);
  mkdir(PIN_FOLDER, 0755);
  int count = attach_all(object, links);
  start_servers();
  check_sockets(expected);
  check_stale(object, expected);
  check_skipped_cgroup(object);
  check_takeover(object, &settings);
  errno = 0;
  check(open_connections(object) == 0, "every connection that was counted was counted as closed");
  check(count_of_reason(object, 0) > 0, "reasons are counted on every CPU");
  for (int i = 0; i < count; i++) {
    check(bpf_link__detach(links[i]) == 0, "detach");
  }
  check(!is_reachable(), "nothing is translated any more");
}

int main(void) {
  setvbuf(stdout, NULL, _IOLBF, 0);
  mount_at("proc", "/proc");
  mount_at("sysfs", "/sys");
  mount_at("bpf", "/bpf");
  mount_at("cgroup2", CGROUP_ROOT);
  raise_loopback();
  lift_limits();
  libbpf_set_strict_mode(LIBBPF_STRICT_ALL);
  struct expectation expected = {
      .has_cookie = has_word("cookie"),
      .has_retval = has_word("retval"),
      .has_mptcp = has_word("mptcp"),
      .has_destroy = has_word("destroy"),
      .has_tcx = has_word("tcx"),
  };
  errno = 0;
  check((own_cookie() != 0) == expected.has_cookie, "the kernel tells network namespaces: %s",
        expected.has_cookie ? "yes" : "no");
  check_loads(&expected);
  check_attached(&expected);
  check_packets();
  check_devices(&expected);
  printf("1..%d\n", checks);
  fflush(stdout);
  // The serial line is slower: what it has not sent yet would be lost.
  tcdrain(STDOUT_FILENO);
  sync();
  reboot(RB_POWER_OFF);
}
