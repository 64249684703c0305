// SPDX-License-Identifier: Apache-2.0
// insmod FILE...: loads modules of the kernel, because the machine need not have kmod.
#include <fcntl.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

int main(int argc, char** argv) {
  for (int i = 1; i < argc; i++) {
    int fd = open(argv[i], O_RDONLY | O_CLOEXEC);
    if (syscall(SYS_finit_module, fd, "", 0) != 0) {
      perror(argv[i]);
      return 1;
    }
    close(fd);
  }
}
