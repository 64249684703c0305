// SPDX-License-Identifier: Apache-2.0
// Sends one datagram from an address that is not this machine's: SOURCE DESTINATION PORT BYTES, as hex.
#include <arpa/inet.h>
#include <err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define MOST 1500

static struct sockaddr_in address_of(const char *text, const char *port)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(atoi(port))};

	if (inet_pton(AF_INET, text, &a.sin_addr) != 1)
		errx(1, "%s is no IPv4 address", text);
	return a;
}

int main(int argc, char **argv)
{
	unsigned char bytes[MOST];
	struct sockaddr_in from, to;
	size_t size;
	int fd, on = 1;

	if (argc != 5)
		errx(1, "usage: send-from SOURCE DESTINATION PORT BYTES");
	size = strlen(argv[4]) / 2;
	if (size > sizeof(bytes))
		errx(1, "at most %d bytes", MOST);
	for (size_t at = 0; at < size; at++)
		if (sscanf(argv[4] + 2 * at, "%2hhx", &bytes[at]) != 1)
			errx(1, "no bytes in hexadecimal digits");
	from = address_of(argv[1], "0");
	to = address_of(argv[2], argv[3]);
	fd = socket(AF_INET, SOCK_DGRAM, 0);
	if (fd < 0 || setsockopt(fd, IPPROTO_IP, IP_TRANSPARENT, &on, sizeof(on)) ||
	    bind(fd, (struct sockaddr *)&from, sizeof(from)) ||
	    sendto(fd, bytes, size, 0, (struct sockaddr *)&to, sizeof(to)) != (ssize_t)size)
		err(1, "from %s to %s", argv[1], argv[2]);
	return 0;
}
