// SPDX-License-Identifier: Apache-2.0
// Process 1 of a virtual machine that has the host's files: loads the modules in
// /modules, makes an overlay of the host's root (read-only, by virtiofs) and of
// memory the root, and starts the shell script that reads commands from the
// console. Words of the kernel's command line:
//   output=/path    shared with the host, writable, under the same path
//   without=a,b     modules that are not loaded
//   nocgroup2       no cgroup v2 hierarchy is mounted
#include <dirent.h>
#include <fcntl.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

static char command_line[4096];

// The value of a word, or NULL.
static const char* value_of(const char* word) {
  static char value[1024];
  char text[sizeof(command_line)];
  strcpy(text, command_line);
  for (char* one = strtok(text, " \n"); one != NULL; one = strtok(NULL, " \n")) {
    size_t size = strlen(word);
    if (strncmp(one, word, size) != 0 || (one[size] != '=' && one[size] != '\0')) continue;
    snprintf(value, sizeof(value), "%s", one[size] == '=' ? one + size + 1 : "");
    return value;
  }
  return NULL;
}

static void read_command_line(void) {
  int fd = open("/proc/cmdline", O_RDONLY);
  if (fd < 0 || read(fd, command_line, sizeof(command_line) - 1) < 0) perror("/proc/cmdline");
  close(fd);
}

static void make_folders(const char* path) {
  char part[1024];
  snprintf(part, sizeof(part), "%s", path);
  for (char* end = part + 1; (end = strchr(end, '/')) != NULL; *end++ = '/') {
    *end = '\0';
    mkdir(part, 0755);
  }
  mkdir(part, 0755);
}

static void mount_at(const char* source, const char* path, const char* type, const char* options) {
  make_folders(path);
  if (mount(source, path, type, 0, options) != 0) perror(path);
}

// `00-overlay.ko` is in `overlay,veth`.
static int is_left_out(const char* file, const char* names) {
  const char* name = strchr(file, '-') + 1;
  size_t size = strcspn(name, ".");
  for (const char* one = names; one != NULL && *one != '\0';) {
    size_t length = strcspn(one, ",");
    if (length == size && strncmp(one, name, size) == 0) return 1;
    one += length + (one[length] == ',');
  }
  return 0;
}

static void load_modules(void) {
  const char* without = value_of("without");
  struct dirent** names;
  int count = scandir("/modules", &names, NULL, alphasort);
  for (int i = 0; i < count; i++) {
    char path[512];
    if (strchr(names[i]->d_name, '-') == NULL || is_left_out(names[i]->d_name, without)) continue;
    snprintf(path, sizeof(path), "/modules/%s", names[i]->d_name);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (syscall(SYS_finit_module, fd, "", 0) != 0) perror(path);
    close(fd);
  }
}

static void enter_host_tree(void) {
  mount_at("host", "/lower", "virtiofs", NULL);
  mount_at("tmpfs", "/upper", "tmpfs", "mode=755");
  make_folders("/upper/data");
  make_folders("/upper/work");
  mount_at("overlay", "/root", "overlay",
           "lowerdir=/lower,upperdir=/upper/data,workdir=/upper/work");
  if (chdir("/root") != 0 || mount(".", "/", NULL, MS_MOVE, NULL) != 0 || chroot(".") != 0)
    perror("/root");
  if (chdir("/") != 0) perror("/");
}

static void mount_all(void) {
  mount_at("proc", "/proc", "proc", NULL);
  mount_at("sysfs", "/sys", "sysfs", NULL);
  mount_at("devtmpfs", "/dev", "devtmpfs", NULL);
  mount_at("devpts", "/dev/pts", "devpts", NULL);
  mount_at("tmpfs", "/dev/shm", "tmpfs", NULL);
  mount_at("tmpfs", "/run", "tmpfs", "mode=755");
  mount_at("tmpfs", "/tmp", "tmpfs", NULL);
  mount_at("bpf", "/sys/fs/bpf", "bpf", NULL);
  if (value_of("nocgroup2") == NULL) mount_at("cgroup2", "/sys/fs/cgroup", "cgroup2", NULL);
  const char* output = value_of("output");
  if (output != NULL) mount_at("output", output, "virtiofs", NULL);
}

static void set_up_loopback(void) {
  struct ifreq request = {.ifr_name = "lo", .ifr_flags = IFF_UP};
  int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (ioctl(fd, SIOCSIFFLAGS, &request) != 0) perror("lo");
  close(fd);
}

static void start_shell(void) {
  char script[1100];
  snprintf(script, sizeof(script), "%s/commands.sh", value_of("output"));
  setenv("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", 1);
  setenv("HOME", "/root", 1);
  execl("/bin/sh", "sh", script, NULL);
  perror(script);
  _exit(1);
}

int main(void) {
  mount_at("devtmpfs", "/dev", "devtmpfs", NULL);
  mount_at("proc", "/proc", "proc", NULL);
  read_command_line();
  load_modules();
  enter_host_tree();
  mount_all();
  set_up_loopback();
  pid_t child = fork();
  if (child == 0) start_shell();
  while (wait(NULL) != child) {
  }
  // The serial line is slower: what it has not sent yet would be lost.
  tcdrain(STDOUT_FILENO);
  sync();
  reboot(RB_POWER_OFF);
}
