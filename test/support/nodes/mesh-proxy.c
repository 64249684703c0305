// SPDX-License-Identifier: Apache-2.0
// The proxy of a mesh's sidecar: `mesh-proxy PORT` accepts redirected TCP connections of both families at every address, and
// answers each with the destination that the client had: SO_ORIGINAL_DST, as Envoy and linkerd2-proxy ask for it.
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { ORIGINAL_DST = 80, BACKLOG = 64 };

static int listen_at(int family, int port)
{
	struct sockaddr_in ipv4 = {.sin_family = AF_INET, .sin_port = htons(port)};
	struct sockaddr_in6 ipv6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
	const int fd = socket(family, SOCK_STREAM, 0);
	const int one = 1;

	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (family == AF_INET6)
		setsockopt(fd, IPPROTO_IPV6, 26 /* IPV6_V6ONLY */, &one, sizeof(one));
	if (bind(fd, family == AF_INET ? (struct sockaddr *)&ipv4 : (struct sockaddr *)&ipv6,
		 family == AF_INET ? sizeof(ipv4) : sizeof(ipv6)) != 0 ||
	    listen(fd, BACKLOG) != 0) {
		perror("listen");
		exit(1);
	}
	return fd;
}

static void answer(int listener, int family)
{
	char text[INET6_ADDRSTRLEN] = "", line[2 * INET6_ADDRSTRLEN];
	struct sockaddr_in6 ipv6 = {0};
	struct sockaddr_in ipv4 = {0};
	socklen_t size = family == AF_INET ? sizeof(ipv4) : sizeof(ipv6);
	const int fd = accept(listener, NULL, NULL);
	int port;

	if (fd < 0)
		return;
	if (family == AF_INET) {
		if (getsockopt(fd, IPPROTO_IP, ORIGINAL_DST, &ipv4, &size) != 0)
			goto end;
		inet_ntop(AF_INET, &ipv4.sin_addr, text, sizeof(text));
		port = ntohs(ipv4.sin_port);
		snprintf(line, sizeof(line), "%s:%d>mesh\n", text, port);
	} else {
		if (getsockopt(fd, IPPROTO_IPV6, ORIGINAL_DST, &ipv6, &size) != 0)
			goto end;
		inet_ntop(AF_INET6, &ipv6.sin6_addr, text, sizeof(text));
		port = ntohs(ipv6.sin6_port);
		snprintf(line, sizeof(line), "[%s]:%d>mesh\n", text, port);
	}
	send(fd, line, strlen(line), MSG_NOSIGNAL);
end:
	close(fd);
}

int main(int argc, char **argv)
{
	const int port = argc > 1 ? atoi(argv[1]) : 0;
	struct pollfd fds[3] = {
		{.fd = STDIN_FILENO, .events = POLLIN},
		{.fd = listen_at(AF_INET, port), .events = POLLIN},
		{.fd = listen_at(AF_INET6, port), .events = POLLIN},
	};

	setvbuf(stdout, NULL, _IOLBF, 0);
	puts("ready");
	while (poll(fds, 3, -1) > 0 || errno == EINTR) {
		if (fds[0].revents)
			return 0; // Nothing is ever written to the input: it was closed.
		if (fds[1].revents)
			answer(fds[1].fd, AF_INET);
		if (fds[2].revents)
			answer(fds[2].fd, AF_INET6);
	}
	return 1;
}
