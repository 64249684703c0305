// SPDX-License-Identifier: Apache-2.0
// `ethtool DEVICE gro|tx|txvlan on|off`: one of what a device does for the kernel, as ethtool -K sets it.
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

/* Makes it the value of all flags. */
static int of_flags(int fd, struct ifreq *request, struct ethtool_value *value)
{
	int is_on = value->data;

	value->cmd = ETHTOOL_GFLAGS;
	if (ioctl(fd, SIOCETHTOOL, request) != 0)
		return 0;
	value->cmd = ETHTOOL_SFLAGS;
	value->data &= ~ETH_FLAG_TXVLAN;
	if (is_on)
		value->data |= ETH_FLAG_TXVLAN;
	return 1;
}

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
	if (strcmp(argv[2], "txvlan") == 0 && !of_flags(fd, &request, &value)) {
		perror(argv[1]);
		return 1;
	}
	if (ioctl(fd, SIOCETHTOOL, &request) == 0)
		return 0;
	perror(argv[1]);
	return 1;
}
