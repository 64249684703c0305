// SPDX-License-Identifier: Apache-2.0
// Stale sockets: each kernel finds them, and those with bpf_sock_destroy() (from
// 6.5) destroy them. SOCK_DESTROY needs modules, which the guest has not.
#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "guest.h"

#define FIND_PATH "/find_stale.bpf.o"
#define DESTROY_PATH "/destroy.bpf.o"
#define MOST_FOUND 16

// struct stale_socket of bpf/socket/stale.h.
struct found {
  uint64_t cookie;
  uint8_t others[80];
};

// Over the maps of the hooks. NULL with errno.
static struct bpf_object* load_over(const char* path, struct bpf_object* hooks,
                                    const struct expectation* expected) {
  struct bpf_object* object = bpf_object__open_file(path, NULL);
  struct bpf_map* map;
  uint8_t can_make_cookie = expected->has_cookie;
  if (object == NULL) return NULL;
  bpf_object__for_each_map(map, object) {
    struct bpf_map* kept = bpf_object__find_map_by_name(hooks, bpf_map__name(map));
    if (kept != NULL && strncmp(bpf_map__name(map), "fl_", 3) == 0)
      bpf_map__reuse_fd(map, bpf_map__fd(kept));
  }
  if (strcmp(path, FIND_PATH) == 0 &&
      !set_variable(object, "can_make_cookie", &can_make_cookie, sizeof(can_make_cookie)))
    return NULL;
  if (bpf_object__load(object) == 0) return object;
  int error = errno;
  bpf_object__close(object);
  errno = error;
  return NULL;
}

// What the iterator wrote, in bytes; negative with errno.
static ssize_t iterate(struct bpf_object* object, const char* name, const char* over, void* to,
                       size_t size) {
  struct bpf_program* program = bpf_object__find_program_by_name(object, name);
  union bpf_iter_link_info info = {0};
  LIBBPF_OPTS(bpf_iter_attach_opts, options);
  if (over != NULL) {
    info.map.map_fd = bpf_object__find_map_fd_by_name(object, over);
    options.link_info = &info;
    options.link_info_len = sizeof(info);
  }
  struct bpf_link* link = bpf_program__attach_iter(program, &options);
  if (link == NULL) return -1;
  int iterator = bpf_iter_create(bpf_link__fd(link));
  ssize_t total = 0, got = 0;
  while ((got = read(iterator, (char*)to + total, size - total)) > 0) total += got;
  close(iterator);
  bpf_link__destroy(link);
  return got < 0 ? got : total;
}

static int connected(const char* address) {
  struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(53)};
  struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons(53)};
  bool is_v4 = inet_pton(AF_INET, address, &v4.sin_addr) == 1;
  int fd = socket(is_v4 ? AF_INET : AF_INET6, SOCK_DGRAM, 0);
  inet_pton(AF_INET6, address, &v6.sin6_addr);
  if (connect(fd, is_v4 ? (struct sockaddr*)&v4 : (struct sockaddr*)&v6,
              is_v4 ? sizeof(v4) : sizeof(v6)) != 0)
    check(false, "connect %s", address);
  return fd;
}

static void check_destroyed(struct bpf_object* hooks, const struct expectation* expected,
                            const struct found* found, const int* sockets) {
  struct bpf_object* object = load_over(DESTROY_PATH, hooks, expected);
  char nothing[8];
  check(object != NULL, "the programs that destroy sockets load");
  if (object == NULL) return;
  int chosen = bpf_object__find_map_fd_by_name(object, "fl_chosen");
  for (int i = 0; i < 2; i++) {
    int outcome = 0;
    bpf_map_update_elem(chosen, &found[i].cookie, &outcome, BPF_ANY);
  }
  check(iterate(object, "fl_destroy_udp", NULL, nothing, sizeof(nothing)) == 0, "destroy");
  for (int i = 0; i < 2; i++) {
    ssize_t got = recv(sockets[i], nothing, sizeof(nothing), MSG_DONTWAIT);
    check(got < 0 && errno == ECONNABORTED, "a stale socket fails with ECONNABORTED");
  }
  check(iterate(object, "fl_destroy_tcp", NULL, nothing, sizeof(nothing)) == 0,
        "no TCP connection is destroyed");
  bpf_object__close(object);
}

void check_stale(struct bpf_object* hooks, const struct expectation* expected) {
  struct found found[MOST_FOUND];
  struct bpf_object* object = load_over(FIND_PATH, hooks, expected);
  check(object != NULL, "the programs that find stale sockets load");
  if (object == NULL) return;
  const int sockets[] = {connected("10.96.0.53"), connected("fd00::35")};
  errno = 0;
  check(iterate(object, "fl_find_stored", "fl_sock", found, sizeof(found)) == 0,
        "no socket is stale while its backend serves");
  set_udp_backends(hooks, false);
  ssize_t size = iterate(object, "fl_find_stored", "fl_sock", found, sizeof(found));
  check(size == 2 * sizeof(found[0]), "sockets whose backend is gone are found: %zd bytes", size);
  check(!expected->has_cookie || found[0].cookie != found[1].cookie, "by different cookies");
  check(iterate(object, "fl_find_tcp_records", "fl_tcp_sock", found + 2, sizeof(*found)) == 0 &&
            iterate(object, "fl_find_tcp", NULL, found + 2, sizeof(*found)) == 0,
        "no TCP connection is stale");
  if (expected->has_destroy) check_destroyed(hooks, expected, found, sockets);
  set_udp_backends(hooks, true);
  for (int i = 0; i < 2; i++) close(sockets[i]);
  bpf_object__close(object);
}
