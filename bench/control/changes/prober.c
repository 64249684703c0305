// SPDX-License-Identifier: Apache-2.0
// New TCP connections at a fixed pace, and who answered them. In C, because the machine it measures
// on is also the one that API server, etcd and proxy need: 2,000 connections a second cost a fifth
// of a core.
//
//   prober serve TAG PORT   greets every connection with the letter TAG
//   prober ask              reads lines `until ADDRESS PORT TAG PERIOD_US PATIENCE_MS TIMEOUT_MS`
//
// `until` connects every PERIOD_US until TAG greets (*: anybody), and gives up each connection that
// was not greeted within PATIENCE_MS. It prints `probing` after its first connection, then `reached
// START_NS END_NS CONNECTIONS FAILURES` of the one that did, or `late CONNECTIONS FAILURES`. Times
// are CLOCK_MONOTONIC, as in process.hrtime of any other process of this machine.
#include <arpa/inet.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

enum { NS_PER_MS = 1000000, BACKLOG = 4096 };

struct probe {
	struct sockaddr_in to;
	char wanted;
	long period_us;
	long patience_ms;
	long timeout_ms;
};

static int64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000LL + now.tv_nsec;
}

static void sleep_until_ns(int64_t at_ns)
{
	struct timespec at = {.tv_sec = at_ns / 1000000000LL, .tv_nsec = at_ns % 1000000000LL};

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL) != 0)
		;
}

/* Closing sends a reset: neither side keeps the connection, nor does a connection tracker for long.
 */
static void forget(int fd)
{
	struct linger none = {.l_onoff = 1, .l_linger = 0};

	setsockopt(fd, SOL_SOCKET, SO_LINGER, &none, sizeof(none));
	close(fd);
}

/* The letter that greeted one new connection; 0 if it failed in any way. */
static char connect_once(const struct probe *probe)
{
	struct timeval timeout = {.tv_sec = probe->patience_ms / 1000,
				  .tv_usec = probe->patience_ms % 1000 * 1000};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	char tag = 0;

	if (fd < 0)
		return 0;
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout)); /* of connect() too */
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
	if (connect(fd, (const struct sockaddr *)&probe->to, sizeof(probe->to)) != 0 ||
	    read(fd, &tag, 1) != 1)
		tag = 0;
	forget(fd);
	return tag;
}

static void until(const struct probe *probe)
{
	int64_t deadline_ns = now_ns() + probe->timeout_ms * (int64_t)NS_PER_MS;
	long connections = 0, failures = 0;

	for (;;) {
		int64_t start_ns = now_ns();
		char tag = connect_once(probe);

		connections++;
		failures += tag == 0;
		if (connections == 1)
			printf("probing\n");
		if (tag != 0 && (tag == probe->wanted || probe->wanted == '*')) {
			printf("reached %lld %lld %ld %ld\n", (long long)start_ns,
			       (long long)now_ns(), connections, failures);
			return;
		}
		if (start_ns > deadline_ns) {
			printf("late %ld %ld\n", connections, failures);
			return;
		}
		sleep_until_ns(start_ns + probe->period_us * 1000LL);
	}
}

static int ask(void)
{
	char line[256], address[64];
	unsigned int port;

	while (fgets(line, sizeof(line), stdin) != NULL) {
		struct probe probe = {.to.sin_family = AF_INET};

		if (sscanf(line, "until %63s %u %c %ld %ld %ld", address, &port, &probe.wanted,
			   &probe.period_us, &probe.patience_ms, &probe.timeout_ms) != 6 ||
		    inet_pton(AF_INET, address, &probe.to.sin_addr) != 1) {
			fprintf(stderr, "prober: not understood: %s", line);
			return 2;
		}
		probe.to.sin_port = htons(port);
		until(&probe);
	}
	return 0;
}

static int serve(char tag, unsigned short port)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(port)};
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (bind(listener, (struct sockaddr *)&at, sizeof(at)) != 0 ||
	    listen(listener, BACKLOG) != 0) {
		perror("prober");
		return 1;
	}
	printf("ready\n");
	for (;;) {
		int fd = accept(listener, NULL, NULL);

		if (fd < 0)
			continue;
		if (write(fd, &tag, 1) != 1)
			fprintf(stderr, "prober: a client went away\n");
		close(fd);
	}
}

int main(int argc, char **argv)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	signal(SIGPIPE, SIG_IGN);
	if (argc == 4 && strcmp(argv[1], "serve") == 0)
		return serve(argv[2][0], (unsigned short)atoi(argv[3]));
	if (argc == 2 && strcmp(argv[1], "ask") == 0)
		return ask();
	fprintf(stderr, "usage: prober serve TAG PORT | prober ask\n");
	return 2;
}
