// SPDX-License-Identifier: Apache-2.0
// `ethtool DEVICE gro|tx on|off`: one of what a device does for the kernel, as ethtool -K sets it.
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

int main(int argc, char **argv)
{
	struct ethtool_value value = {0};
	struct ifreq request = {.ifr_data = (void *)&value};
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	if (argc != 4)
		return 2;
	snprintf(request.ifr_name, IFNAMSIZ, "%s", argv[1]);
	value.cmd = strcmp(argv[2], "gro") == 0 ? ETHTOOL_SGRO : ETHTOOL_STXCSUM;
	value.data = strcmp(argv[3], "on") == 0;
	if (ioctl(fd, SIOCETHTOOL, &request) == 0)
		return 0;
	perror(argv[1]);
	return 1;
}
