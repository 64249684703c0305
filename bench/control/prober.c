// SPDX-License-Identifier: Apache-2.0
// New TCP connections at a fixed pace, and who answered them. In C, because the machine it measures on is
// also the one that API server, etcd and proxy need: 2,000 connections a second cost a fifth of a core.
//
//   prober serve TAG PORT   greets every connection with the letter TAG
//   prober ask              reads lines `until ADDRESS PORT TAG PERIOD_US TIMEOUT_MS`; TAG * is anybody
//
// `until` connects every PERIOD_US until TAG greets. It prints `probing` after its first connection, then
// `reached START_NS END_NS CONNECTIONS FAILURES` of the one that did, or `late CONNECTIONS FAILURES`. Times
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

enum { NS_PER_MS = 1000000, BACKLOG = 4096, ANSWER_TIMEOUT_US = 250000 };

static int64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000LL + now.tv_nsec;
}

static void sleep_until_ns(int64_t at_ns)
{
	struct timespec at = { .tv_sec = at_ns / 1000000000LL, .tv_nsec = at_ns % 1000000000LL };

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL) != 0)
		;
}

/* Closing sends a reset: neither side keeps the connection, nor does a connection tracker for long. */
static void forget(int fd)
{
	struct linger none = { .l_onoff = 1, .l_linger = 0 };

	setsockopt(fd, SOL_SOCKET, SO_LINGER, &none, sizeof(none));
	close(fd);
}

/* The letter that greeted one new connection; 0 if it failed in any way. */
static char connect_once(const struct sockaddr_in *to)
{
	struct timeval timeout = { .tv_usec = ANSWER_TIMEOUT_US };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	char tag = 0;

	if (fd < 0)
		return 0;
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout)); /* of connect() too */
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
	if (connect(fd, (const struct sockaddr *)to, sizeof(*to)) != 0 || read(fd, &tag, 1) != 1)
		tag = 0;
	forget(fd);
	return tag;
}

static void until(const struct sockaddr_in *to, char wanted, int64_t period_ns, int64_t timeout_ns)
{
	int64_t deadline_ns = now_ns() + timeout_ns;
	long connections = 0, failures = 0;

	for (;;) {
		int64_t start_ns = now_ns();
		char tag = connect_once(to);

		connections++;
		failures += tag == 0;
		if (connections == 1)
			printf("probing\n");
		if (tag != 0 && (tag == wanted || wanted == '*')) {
			printf("reached %lld %lld %ld %ld\n", (long long)start_ns, (long long)now_ns(),
			       connections, failures);
			return;
		}
		if (start_ns > deadline_ns) {
			printf("late %ld %ld\n", connections, failures);
			return;
		}
		sleep_until_ns(start_ns + period_ns);
	}
}

static int ask(void)
{
	char line[256], address[64], tag;
	long period_us, timeout_ms;
	unsigned int port;

	while (fgets(line, sizeof(line), stdin) != NULL) {
		struct sockaddr_in to = { .sin_family = AF_INET };

		if (sscanf(line, "until %63s %u %c %ld %ld", address, &port, &tag, &period_us,
			   &timeout_ms) != 5 ||
		    inet_pton(AF_INET, address, &to.sin_addr) != 1) {
			fprintf(stderr, "prober: not understood: %s", line);
			return 2;
		}
		to.sin_port = htons(port);
		until(&to, tag, period_us * 1000LL, timeout_ms * (int64_t)NS_PER_MS);
	}
	return 0;
}

static int serve(char tag, unsigned short port)
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons(port) };
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (bind(listener, (struct sockaddr *)&at, sizeof(at)) != 0 || listen(listener, BACKLOG) != 0) {
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
