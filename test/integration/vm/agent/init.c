// SPDX-License-Identifier: Apache-2.0
// Process 1 of a virtual machine with the real agent: mounts, loads the modules
// in /modules, runs the checks of guest.mjs, switches the machine off. With
// `rules` on the kernel's command line it loads no sch_ingress.
// `init sysctl NAME VALUE` sets one of the network namespace it is started in.
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static void mount_at(const char* type, const char* path) {
  mkdir(path, 0755);
  if (mount(type, path, type, 0, NULL) != 0) perror(path);
}

static int set_sysctl(const char* name, const char* value) {
  char path[256];
  snprintf(path, sizeof(path), "/proc/sys/%s", name);
  int fd = open(path, O_WRONLY);
  if (fd >= 0 && write(fd, value, strlen(value)) == (ssize_t)strlen(value)) return 0;
  perror(path);
  return 1;
}

static int has_word(const char* word) {
  char line[1024] = "";
  int fd = open("/proc/cmdline", O_RDONLY);
  ssize_t size = read(fd, line, sizeof(line) - 1);
  close(fd);
  return size > 0 && strstr(line, word) != NULL;
}

static void load_modules(void) {
  int has_filters = !has_word("rules");
  struct dirent** names;
  int count = scandir("/modules", &names, NULL, alphasort);
  for (int i = 0; i < count; i++) {
    char path[512];
    if (names[i]->d_name[0] == '.') continue;
    if (!has_filters && strstr(names[i]->d_name, "sch_ingress") != NULL) continue;
    snprintf(path, sizeof(path), "/modules/%s", names[i]->d_name);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (syscall(SYS_finit_module, fd, "", 0) != 0) perror(path);
    close(fd);
  }
}

int main(int argc, char** argv) {
  if (argc == 4 && strcmp(argv[1], "sysctl") == 0) return set_sysctl(argv[2], argv[3]);
  mount_at("devtmpfs", "/dev");
  mount_at("proc", "/proc");
  mount_at("sysfs", "/sys");
  mount_at("tmpfs", "/run");
  mount_at("tmpfs", "/tmp");
  mount_at("bpf", "/bpf");
  mount_at("cgroup2", "/cgroup");
  load_modules();
  pid_t child = fork();
  if (child == 0) {
    setenv("PATH", "/usr/bin:/usr/sbin:/bin:/sbin", 1);
    execl("/usr/bin/node", "node", "/guest.mjs", NULL);
    perror("node");
    _exit(1);
  }
  while (wait(NULL) != child) {
  }
  sync();
  reboot(RB_POWER_OFF);
}
