// SPDX-License-Identifier: Apache-2.0
// Nanoseconds per socket call, measured around loops of calls in one process: sockets are made
// before and closed after the loop that is timed.
//
//   prober    reads lines `CALL ADDRESS PORT COUNT`, prints `NAME NS ...` for each
//
// `tcp` and `udp` connect COUNT new sockets, ask each for its peer, and close it; `sendto` sends
// COUNT datagrams over one socket; `recvfrom` reads COUNT replies of the server at ADDRESS PORT to
// one socket that wrote to the address and port given first by `from ADDRESS PORT 0`.
#include <arpa/inet.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { MOST_SOCKETS = 512, BURST = 64 };

static struct sockaddr_in from;

static int64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000LL + now.tv_nsec;
}

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

static int new_socket(int type)
{
	int fd = socket(AF_INET, type | SOCK_CLOEXEC, 0);

	if (fd < 0)
		fail("socket");
	return fd;
}

/* TCP sends its SYN to a device that drops it. */
static void connect_all(const int *fds, int count, const struct sockaddr_in *to)
{
	for (int i = 0; i < count; i++)
		if (connect(fds[i], (const struct sockaddr *)to, sizeof(*to)) != 0 &&
		    errno != EINPROGRESS)
			fail("connect");
}

/* A TCP socket has no peer to show before its SYN is answered: the call is only timed for UDP. */
static void ask_all(const int *fds, int count)
{
	for (int i = 0; i < count; i++) {
		struct sockaddr_in peer;
		socklen_t size = sizeof(peer);

		getpeername(fds[i], (struct sockaddr *)&peer, &size);
	}
}

static void time_connections(int type, const struct sockaddr_in *to, int count)
{
	int fds[MOST_SOCKETS];
	int64_t start, connected, asked, closed;

	for (int i = 0; i < count; i++)
		fds[i] = new_socket(type | SOCK_NONBLOCK);
	start = now_ns();
	connect_all(fds, count, to);
	connected = now_ns();
	ask_all(fds, count);
	asked = now_ns();
	for (int i = 0; i < count; i++)
		close(fds[i]);
	closed = now_ns();
	printf("connect %f getpeername %f close %f\n", (double)(connected - start) / count,
	       (double)(asked - connected) / count, (double)(closed - asked) / count);
}

static void send_one(int fd, const struct sockaddr_in *to)
{
	if (sendto(fd, "x", 1, 0, (const struct sockaddr *)to, sizeof(*to)) != 1)
		fail("sendto");
}

static void time_sends(const struct sockaddr_in *to, int count)
{
	int fd = new_socket(SOCK_DGRAM);
	int64_t start;

	send_one(fd, to);
	start = now_ns();
	for (int i = 0; i < count; i++)
		send_one(fd, to);
	printf("sendto %f\n", (double)(now_ns() - start) / count);
	close(fd);
}

static int64_t receive_burst(int client)
{
	int64_t start = now_ns();

	for (int i = 0; i < BURST; i++) {
		struct sockaddr_in source;
		socklen_t size = sizeof(source);
		char text[4];

		if (recvfrom(client, text, sizeof(text), MSG_DONTWAIT, (struct sockaddr *)&source,
			     &size) != 1)
			fail("recvfrom");
	}
	return now_ns() - start;
}

static void time_receives(const struct sockaddr_in *at, int count)
{
	int client = new_socket(SOCK_DGRAM), server = new_socket(SOCK_DGRAM);
	struct sockaddr_in local = *at;
	socklen_t size = sizeof(local);
	int64_t total_ns = 0;

	if (bind(server, (const struct sockaddr *)at, sizeof(*at)) != 0)
		fail("bind");
	send_one(client, &from);
	getsockname(client, (struct sockaddr *)&local, &size);
	local.sin_addr = at->sin_addr;
	for (int done = 0; done < count; done += BURST) {
		for (int i = 0; i < BURST; i++)
			send_one(server, &local);
		total_ns += receive_burst(client);
	}
	printf("recvfrom %f\n", (double)total_ns / (count / BURST * BURST));
	close(client);
	close(server);
}

static void answer(const char *call, const struct sockaddr_in *to, int count)
{
	if (strcmp(call, "tcp") == 0)
		time_connections(SOCK_STREAM, to, count);
	else if (strcmp(call, "udp") == 0)
		time_connections(SOCK_DGRAM, to, count);
	else if (strcmp(call, "sendto") == 0)
		time_sends(to, count);
	else if (strcmp(call, "recvfrom") == 0)
		time_receives(to, count);
	else if (strcmp(call, "from") == 0) {
		from = *to;
		printf("from 0\n");
	} else
		printf("unknown call\n");
}

int main(void)
{
	char line[128], call[16], address[32];
	unsigned int port;
	int count;

	setvbuf(stdout, NULL, _IOLBF, 0);
	while (fgets(line, sizeof(line), stdin) != NULL) {
		struct sockaddr_in to = {.sin_family = AF_INET};

		if (sscanf(line, "%15s %31s %u %d", call, address, &port, &count) != 4 ||
		    inet_pton(AF_INET, address, &to.sin_addr) != 1 || count > 1000000)
			return 2;
		to.sin_port = htons((uint16_t)port);
		answer(call, &to, count);
	}
	return 0;
}
