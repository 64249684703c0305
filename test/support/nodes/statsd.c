// SPDX-License-Identifier: Apache-2.0
// Programs that send datagrams and never look back. Each prints `ready`, then answers lines of standard input.
//
//   statsd sink PORT
//       Counts datagrams by the phase that they tell. `count PHASE`: their number. Questions are answered.
//   statsd client ADDRESS PORT SOCKETS PHASE
//       Connects each socket once, then sends by send(), write() and sendmmsg() in turn, without a look at errors.
//       Phases are counted from PHASE: no two clients may have the same. `next`: another phase begins; prints how many datagrams were to be sent in the one before.
//       `ask`: a question by each socket; prints how many got an answer, from the address that they are connected to.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netdb.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#define MOST_PHASES 65536
#define MOST_SOCKETS 2048
#define ROOM (32 << 20)
#define TICK_MS 2
#define SOCKETS_A_TICK 16
#define ANSWER_MS 1000
#define IS_QUESTION 0x80000000u

static struct sockaddr_storage service;
static socklen_t service_size;
static int sockets[MOST_SOCKETS];
static uint32_t counts[MOST_PHASES];

static int sink(int port)
{
	struct sockaddr_in6 any = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
	int fd = socket(AF_INET6, SOCK_DGRAM, 0), room = ROOM;
	struct pollfd ready[2] = {{.fd = fd, .events = POLLIN}, {.fd = 0, .events = POLLIN}};
	char line[64];

	setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof(room));
	if (bind(fd, (struct sockaddr *)&any, sizeof(any)) != 0)
		return 1;
	printf("ready\n");
	while (poll(ready, 2, -1) > 0) {
		struct sockaddr_storage from;
		socklen_t size = sizeof(from);
		uint32_t phase;

		while (recvfrom(fd, &phase, sizeof(phase), MSG_DONTWAIT, (struct sockaddr *)&from, &size) == sizeof(phase)) {
			if (phase & IS_QUESTION)
				sendto(fd, &phase, sizeof(phase), 0, (struct sockaddr *)&from, size);
			else if (phase < MOST_PHASES)
				counts[phase]++;
			size = sizeof(from);
		}
		if (!ready[1].revents)
			continue;
		if (!fgets(line, sizeof(line), stdin))
			return 0;
		printf("%u\n", counts[atoi(line + strlen("count ")) % MOST_PHASES]);
	}
	return 1;
}

// How many datagrams were to be sent.
static int emit(int fd, int turn, uint32_t phase)
{
	struct iovec part = {.iov_base = &phase, .iov_len = sizeof(phase)};
	struct mmsghdr two[2] = {{.msg_hdr = {.msg_iov = &part, .msg_iovlen = 1}},
				 {.msg_hdr = {.msg_iov = &part, .msg_iovlen = 1}}};

	if (turn % 3 == 0)
		(void)send(fd, &phase, sizeof(phase), MSG_NOSIGNAL);
	else if (turn % 3 == 1)
		(void)!write(fd, &phase, sizeof(phase));
	else
		(void)sendmmsg(fd, two, 2, MSG_NOSIGNAL);
	return turn % 3 == 2 ? 2 : 1;
}

static int is_from_service(const struct sockaddr_storage *from)
{
	const struct sockaddr_in *a = (const void *)from, *b = (const void *)&service;
	const struct sockaddr_in6 *a6 = (const void *)from, *b6 = (const void *)&service;

	if (from->ss_family != service.ss_family || a->sin_port != b->sin_port)
		return 0;
	return from->ss_family == AF_INET ? a->sin_addr.s_addr == b->sin_addr.s_addr
					  : IN6_ARE_ADDR_EQUAL(&a6->sin6_addr, &b6->sin6_addr);
}

static int ask(int fd, uint32_t question)
{
	struct pollfd one = {.fd = fd, .events = POLLIN};
	struct sockaddr_storage from;
	socklen_t size = sizeof(from);
	uint32_t answer;

	(void)send(fd, &question, sizeof(question), MSG_NOSIGNAL);
	while (poll(&one, 1, ANSWER_MS) == 1) {
		if (recvfrom(fd, &answer, sizeof(answer), 0, (struct sockaddr *)&from, &size) < 0)
			return 0;
		if (answer == question)
			return is_from_service(&from);
		size = sizeof(from);
	}
	return 0;
}

static int client(int count, uint32_t phase)
{
	struct pollfd input = {.fd = 0, .events = POLLIN};
	uint32_t sent = 0, question = IS_QUESTION;
	char line[64];

	for (int i = 0; i < count; i++) {
		sockets[i] = socket(service.ss_family, SOCK_DGRAM, 0);
		if (connect(sockets[i], (struct sockaddr *)&service, service_size) != 0) {
			perror("connect");
			return 1;
		}
	}
	printf("ready\n");
	for (int at = 0, turn = 0;; at = (at + SOCKETS_A_TICK) % count, turn++) {
		if (poll(&input, 1, TICK_MS) == 1) {
			if (!fgets(line, sizeof(line), stdin))
				return 0;
			if (strcmp(line, "ask\n") == 0) {
				int answered = 0;

				question++;
				for (int i = 0; i < count; i++)
					answered += ask(sockets[i], question);
				printf("%d\n", answered);
			} else {
				printf("%u\n", sent);
				sent = 0;
				phase++;
			}
		}
		for (int i = 0; i < SOCKETS_A_TICK && i < count; i++)
			sent += emit(sockets[(at + i) % count], turn + i, phase);
	}
}

int main(int argc, char **argv)
{
	struct addrinfo hints = {.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV, .ai_socktype = SOCK_DGRAM};
	struct rlimit files = {.rlim_cur = MOST_SOCKETS + 64, .rlim_max = MOST_SOCKETS + 64};
	struct addrinfo *found;

	setvbuf(stdout, NULL, _IOLBF, 0);
	setrlimit(RLIMIT_NOFILE, &files);
	if (argc == 3 && strcmp(argv[1], "sink") == 0)
		return sink(atoi(argv[2]));
	if (argc != 6 || strcmp(argv[1], "client") != 0 || atoi(argv[4]) > MOST_SOCKETS || atoi(argv[4]) < 1)
		return 2;
	if (getaddrinfo(argv[2], argv[3], &hints, &found) != 0)
		return 2;
	memcpy(&service, found->ai_addr, found->ai_addrlen);
	service_size = found->ai_addrlen;
	return client(atoi(argv[4]), atoi(argv[5]));
}
