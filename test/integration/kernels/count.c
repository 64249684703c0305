// SPDX-License-Identifier: Apache-2.0
// count OBJECT.bpf.o...: loads BPF objects on this kernel and prints for each program how many instructions the verifier has walked:
//   sock fl_connect4 13376
//   sweep refused: Invalid argument
// The kernel tells the number only in its log before 5.16. Settings are those of the newest kernel that this one takes.
#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LOG_STATISTICS 4
// Of what the verifier writes on its way, and takes back: what is left has 500 bytes.
#define LOG_SIZE (1 << 22)
#define MAX_PROGRAMS 16
#define MAX_SETTINGS 256

// Variables of .rodata that depend on the kernel; an object has some of them.
static const char* const own_settings[] = {"protects_node_ports", "ip_summed_at"};
static const char* const settings[] = {"can_set_retval", "node_netns_cookie", "can_make_cookie"};
enum { OWN = sizeof(own_settings) / sizeof(*own_settings), ALL = sizeof(settings) / sizeof(*settings) };

// Writes 1 into a variable, if there is one of this name.
static void set_variable(struct bpf_object* object, const char* name) {
  const struct btf* types = bpf_object__btf(object);
  struct bpf_map* map = bpf_object__find_map_by_name(object, ".rodata");
  size_t total = 0;
  const void* data = map == NULL ? NULL : bpf_map__initial_value(map, &total);
  char copy[MAX_SETTINGS];
  if (data == NULL || types == NULL || total > sizeof(copy)) return;
  memcpy(copy, data, total);
  const struct btf_type* section =
      btf__type_by_id(types, btf__find_by_name_kind(types, ".rodata", BTF_KIND_DATASEC));
  const struct btf_var_secinfo* variable = btf_var_secinfos(section);
  for (int i = 0; i < btf_vlen(section); i++, variable++) {
    const struct btf_type* type = btf__type_by_id(types, variable->type);
    if (strcmp(btf__name_by_offset(types, type->name_off), name) != 0) continue;
    copy[variable->offset] = 1;
    bpf_map__set_initial_value(map, copy, total);
  }
}

// Without the first `left_out` of the settings that a kernel may refuse.
static struct bpf_object* open_object(const char* path, int left_out) {
  static char logs[MAX_PROGRAMS][LOG_SIZE];
  struct bpf_object* object = bpf_object__open_file(path, NULL);
  struct bpf_program* program;
  int count = 0;
  if (object == NULL) return NULL;
  for (int i = 0; i < OWN; i++) set_variable(object, own_settings[i]);
  for (int i = left_out; i < ALL; i++) set_variable(object, settings[i]);
  bpf_object__for_each_program(program, object) {
    if (count == MAX_PROGRAMS) continue;
    bpf_program__set_log_buf(program, logs[count++], LOG_SIZE);
    bpf_program__set_log_level(program, LOG_STATISTICS);
  }
  return object;
}

static int count_of(const struct bpf_program* program) {
  size_t size = 0;
  const char* log = bpf_program__log_buf(program, &size);
  const char* found = log == NULL ? NULL : strstr(log, "processed ");
  return found == NULL ? -1 : atoi(found + strlen("processed "));
}

static bool count(const char* path, const char* name, int left_out) {
  struct bpf_object* object = open_object(path, left_out);
  struct bpf_program* program;
  if (object == NULL) return false;
  bool is_loaded = bpf_object__load(object) == 0;
  int error = errno;
  if (is_loaded) {
    bpf_object__for_each_program(program, object)
        printf("%s %s %d\n", name, bpf_program__name(program), count_of(program));
  }
  bpf_object__close(object);
  errno = error;
  return is_loaded;
}

static int be_silent(enum libbpf_print_level level, const char* format, va_list args) {
  (void)level, (void)format, (void)args;
  return 0;
}

int main(int argc, char** argv) {
  libbpf_set_print(be_silent);
  libbpf_set_strict_mode(LIBBPF_STRICT_ALL);
  for (int i = 1; i < argc; i++) {
    const char* last = strrchr(argv[i], '/');
    char name[64];
    snprintf(name, sizeof(name), "%s", last == NULL ? argv[i] : last + 1);
    name[strcspn(name, ".")] = '\0';
    bool is_loaded = false;
    for (int left_out = 0; left_out <= ALL && !is_loaded; left_out++)
      is_loaded = count(argv[i], name, left_out);
    if (!is_loaded) printf("%s refused: %s\n", name, strerror(errno));
  }
}
