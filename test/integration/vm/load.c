// SPDX-License-Identifier: Apache-2.0
// Loading: every combination of settings, with all capabilities and with those
// that are needed.
#include <errno.h>
#include <linux/capability.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "guest.h"

#define LOG_STATISTICS 4
#define LOG_SIZE 65536
#define MAX_PROGRAMS 16
#define MAX_SETTINGS 4096

uint64_t own_cookie(void) {
  uint64_t cookie = 0;
  socklen_t size = sizeof(cookie);
  int fd = socket(AF_INET, SOCK_DGRAM, 0);
  if (getsockopt(fd, SOL_SOCKET, SO_NETNS_COOKIE, &cookie, &size) != 0) cookie = 0;
  close(fd);
  return cookie;
}

// Sets a variable of .rodata, found by its name among the object's types.
bool set_variable(struct bpf_object* object, const char* name, const void* value, size_t size) {
  const struct btf* types = bpf_object__btf(object);
  struct bpf_map* map = bpf_object__find_map_by_name(object, ".rodata");
  size_t total = 0;
  const void* data = map == NULL ? NULL : bpf_map__initial_value(map, &total);
  const struct btf_type* section =
      btf__type_by_id(types, btf__find_by_name_kind(types, ".rodata", BTF_KIND_DATASEC));
  errno = ENOENT;
  char copy[MAX_SETTINGS];
  if (data == NULL || section == NULL || total > sizeof(copy)) return false;
  memcpy(copy, data, total);
  const struct btf_var_secinfo* variable = btf_var_secinfos(section);
  for (int i = 0; i < btf_vlen(section); i++, variable++) {
    const struct btf_type* type = btf__type_by_id(types, variable->type);
    if (strcmp(btf__name_by_offset(types, type->name_off), name) != 0) continue;
    if (variable->size != size || variable->offset + size > total) return false;
    memcpy(copy + variable->offset, value, size);
    return bpf_map__set_initial_value(map, copy, total) == 0;
  }
  return false;
}

bool apply_settings(struct bpf_object* object, const struct settings* settings) {
  uint8_t can_set_retval = settings->can_set_retval;
  return set_variable(object, "node_netns_cookie", &settings->cookie, sizeof(settings->cookie)) &&
         set_variable(object, "can_set_retval", &can_set_retval, sizeof(can_set_retval));
}

static void shrink(struct bpf_object* object) {
  struct bpf_map* map;
  bpf_object__for_each_map(map, object) {
    if (bpf_map__max_entries(map) > 4096) bpf_map__set_max_entries(map, 4096);
  }
}

// The verifier's statistics say `processed N insns`.
static void say_counts(struct bpf_object* object, const char* count_as) {
  struct bpf_program* program;
  printf("# verified instructions, %s:", count_as);
  bpf_object__for_each_program(program, object) {
    size_t size = 0;
    const char* log = bpf_program__log_buf(program, &size);
    const char* found = log == NULL ? NULL : strstr(log, "processed ");
    int count = found == NULL ? -1 : atoi(found + strlen("processed "));
    printf(" %s %d", bpf_program__name(program), count);
  }
  printf("\n");
}

struct bpf_object* load_object(const struct settings* settings, const char* count_as) {
  static char logs[MAX_PROGRAMS][LOG_SIZE];
  struct bpf_object* object = bpf_object__open_file(OBJECT_PATH, NULL);
  struct bpf_program* program;
  int count = 0;
  if (object == NULL || !apply_settings(object, settings)) return NULL;
  shrink(object);
  bpf_object__for_each_program(program, object) {
    if (count_as == NULL || count == MAX_PROGRAMS) continue;
    bpf_program__set_log_buf(program, logs[count++], LOG_SIZE);
    bpf_program__set_log_level(program, LOG_STATISTICS);
  }
  if (bpf_object__load(object) != 0) {
    int error = errno;
    bpf_object__close(object);
    errno = error;
    return NULL;
  }
  if (count_as != NULL) say_counts(object, count_as);
  return object;
}

// What a process holds.
enum privilege { ALL, NEEDED, NO_PERFMON };
static const char* const privilege_names[] = {
    "all capabilities",
    "CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON",
    "CAP_BPF and CAP_NET_ADMIN",
};

static bool give_up_others(enum privilege kept) {
  const int capabilities[] = {CAP_BPF, CAP_NET_ADMIN, CAP_PERFMON};
  struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
  struct __user_cap_data_struct data[2] = {0};
  if (kept == ALL) return true;
  for (int i = 0; i < (kept == NEEDED ? 3 : 2); i++) {
    data[CAP_TO_INDEX(capabilities[i])].effective |= CAP_TO_MASK(capabilities[i]);
    data[CAP_TO_INDEX(capabilities[i])].permitted |= CAP_TO_MASK(capabilities[i]);
  }
  return syscall(SYS_capset, &header, data) == 0;
}

static int silent(enum libbpf_print_level level, const char* format, va_list arguments) {
  (void)level;
  (void)format;
  (void)arguments;
  return 0;
}

// In a process of its own, which may give up capabilities. Errno of the load, 0 if it went well.
static int load_in_child(const struct settings* settings, enum privilege kept,
                         const char* count_as) {
  int status = 0;
  pid_t child = fork();
  if (child == 0) {
    if (!give_up_others(kept)) _exit(EPERM);
    errno = 0;
    _exit(load_object(settings, count_as) == NULL ? errno : 0);
  }
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : ECHILD;
}

static void check_load(const struct settings* settings, enum privilege kept) {
  char name[128];
  snprintf(name, sizeof(name), "%s, cookie %s, set_retval %d", privilege_names[kept],
           settings->cookie == 0 ? "0" : "set", settings->can_set_retval);
  errno = load_in_child(settings, kept, name);
  check(errno == 0, "load with %s", name);
}

// What must not load is silent, and says so if it does: then the documentation asks for too much.
static void check_refused(const struct settings* settings, enum privilege kept, const char* what) {
  libbpf_print_fn_t before = libbpf_set_print(silent);
  errno = load_in_child(settings, kept, NULL);
  libbpf_set_print(before);
  check(errno != 0, "%s is refused", what);
}

void check_loads(const struct expectation* expected) {
  const struct settings plain = {0, false}, with_retval = {0, true};
  for (enum privilege kept = ALL; kept <= NEEDED; kept++) {
    for (int with_cookie = 0; with_cookie <= expected->has_cookie; with_cookie++) {
      for (int can_set = 0; can_set <= expected->has_retval; can_set++) {
        struct settings settings = {with_cookie ? own_cookie() : 0, can_set};
        check_load(&settings, kept);
      }
    }
  }
  check_refused(&plain, NO_PERFMON, "a load without CAP_PERFMON");
  // The agent finds out by trying.
  if (!expected->has_retval) check_refused(&with_retval, ALL, "bpf_set_retval()");
}
