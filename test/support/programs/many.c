// SPDX-License-Identifier: Apache-2.0
// `many serve tcp|udp ADDRESS PORT COUNT`: takes so many connections, or datagrams, or what comes until nothing has for ten seconds. Then it
// answers each with what it has sent. It prints `ready`, and `begun` when it has the first one.
// `many ask tcp|udp ADDRESS PORT COUNT SOURCE...`: has so many sockets, in turn bound to the source addresses, each with a question of its
// own, and prints `right WRONG SILENT REFUSED`: sockets that got their own answer, another one's, none within ten seconds of the last
// answer, and those that could not connect. A SOURCE with a port, `192.0.2.1:20000`, is of one socket.
// More TCP sockets than a process may have are of several. All are open at once.
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MOST = 16000, SHARE = 15000, QUIET_MS = 10000, SLICE_MS = 50, SILENT_MS = 10000, CONNECT_MS = 30000 };

static int is_tcp;
static struct sockaddr_in target;
static struct pollfd sockets[MOST];

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static int make_socket(int flags)
{
	int fd = socket(AF_INET, (is_tcp ? SOCK_STREAM : SOCK_DGRAM) | flags, 0);

	if (fd < 0)
		die("socket");
	return fd;
}

/* Of all processes. */
static struct shared {
	int taken, right, wrong, silent, refused;
} *all;

/* Becomes as many processes as `count` sockets need. Returns which one this is. */
static int share_out(int count)
{
	int processes = (count + SHARE - 1) / SHARE, i = 0;

	while (++i < processes)
		if (fork() == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			return i;
		}
	return 0;
}

/*
 * Waits for the first one for as long as it takes, for others while all processes together lack some: a SYN
 * that is lost three times comes after seven seconds.
 */
static bool is_next(int fd, int taken, int count)
{
	struct pollfd wait = {.fd = fd, .events = POLLIN};

	if (!taken)
		return poll(&wait, 1, -1) == 1;
	for (int waited = 0; waited < QUIET_MS && all->taken < count; waited += SLICE_MS)
		if (poll(&wait, 1, SLICE_MS) == 1)
			return true;
	return false;
}

static void note_taken(void)
{
	if (__atomic_add_fetch(&all->taken, 1, __ATOMIC_RELAXED) == 1) {
		puts("begun");
		fflush(stdout);
	}
}

/* Until all processes together have so many, or nothing comes any more. */
static void await_others(int count)
{
	int before = -1, waited = 0;

	for (; all->taken < count && waited < QUIET_MS; waited += SLICE_MS) {
		if (all->taken != before)
			waited = 0;
		before = all->taken;
		poll(NULL, 0, SLICE_MS);
	}
}

static void serve_tcp(int listener, int count)
{
	uint32_t question;

	int taken = 0;

	share_out(count);
	while (taken < MOST && all->taken < count && is_next(listener, taken, count)) {
		int fd = accept(listener, NULL, NULL);

		if (fd < 0 && errno == EAGAIN)
			continue;
		if (fd < 0)
			die("accept");
		fcntl(fd, F_SETFL, 0);
		sockets[taken++].fd = fd;
		note_taken();
	}
	await_others(count);
	for (int i = 0; i < taken; i++)
		if (recv(sockets[i].fd, &question, sizeof(question), MSG_WAITALL) ==
		    sizeof(question))
			send(sockets[i].fd, &question, sizeof(question), MSG_NOSIGNAL);
}

static void serve_udp(int fd, int count)
{
	static struct sockaddr_in askers[MOST];
	static uint32_t questions[MOST];
	socklen_t size = sizeof(askers[0]);

	int taken = 0;

	while (taken < count && is_next(fd, taken, count)) {
		if (recvfrom(fd, &questions[taken], sizeof(questions[0]), 0,
			     (void *)&askers[taken], &size) != sizeof(questions[0]))
			die("recvfrom");
		taken++;
		note_taken();
	}
	for (int i = 0; i < taken; i++)
		sendto(fd, &questions[i], sizeof(questions[i]), 0, (void *)&askers[i], size);
}

static void serve(int count)
{
	int fd = make_socket(is_tcp ? SOCK_NONBLOCK : 0), room = 64 << 20, on = 1;

	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof(room));
	if (bind(fd, (void *)&target, sizeof(target)) != 0 || (is_tcp && listen(fd, MOST) != 0))
		die("bind");
	puts("ready");
	fflush(stdout);
	if (is_tcp)
		serve_tcp(fd, count);
	else
		serve_udp(fd, count);
	pause();
}

static void ask(int i, const char *source)
{
	struct sockaddr_in from = {.sin_family = AF_INET};
	int fd = make_socket(SOCK_NONBLOCK);
	char address[INET_ADDRSTRLEN] = "";
	unsigned port = 0;

	sscanf(source, "%15[^:]:%u", address, &port);
	from.sin_port = htons(port);
	if (inet_pton(AF_INET, address, &from.sin_addr) != 1 ||
	    bind(fd, (void *)&from, sizeof(from)) != 0)
		die(source);
	if (connect(fd, (void *)&target, sizeof(target)) != 0 && errno != EINPROGRESS)
		die("connect");
	sockets[i] = (struct pollfd){.fd = fd, .events = POLLOUT};
}

static long now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Sends the questions of sockets that are connected in time. Returns how many are not. */
static int send_all(int first, int count)
{
	long end = now_ms() + CONNECT_MS;
	int refused = 0;

	for (int i = 0; i < count; i++) {
		long left = end - now_ms();
		uint32_t question = first + i;

		if (poll(&sockets[i], 1, left > 0 ? left : 0) == 1 &&
		    send(sockets[i].fd, &question, sizeof(question), MSG_NOSIGNAL) ==
			    sizeof(question)) {
			sockets[i].events = POLLIN;
			continue;
		}
		refused++;
		sockets[i].fd = -1;
	}
	return refused;
}

/* Of the sockets of this process, the first of which is `first` of all. */
static void ask_all(int first, int count, char **sources, int n_sources)
{
	int right = 0, wrong = 0, refused;

	for (int i = 0; i < count; i++)
		ask(i, sources[(first + i) % n_sources]);
	refused = send_all(first, count);
	while (right + wrong + refused < count && poll(sockets, count, SILENT_MS) > 0) {
		for (int i = 0; i < count; i++) {
			uint32_t answer;

			if (!sockets[i].revents)
				continue;
			if (recv(sockets[i].fd, &answer, sizeof(answer), 0) != sizeof(answer))
				refused++;
			else if (answer == (uint32_t)(first + i))
				right++;
			else
				wrong++;
			sockets[i].fd = -1;
		}
	}
	__atomic_add_fetch(&all->right, right, __ATOMIC_RELAXED);
	__atomic_add_fetch(&all->wrong, wrong, __ATOMIC_RELAXED);
	__atomic_add_fetch(&all->silent, count - right - wrong - refused, __ATOMIC_RELAXED);
	__atomic_add_fetch(&all->refused, refused, __ATOMIC_RELAXED);
}

int main(int argc, char **argv)
{
	int count = argc > 5 ? atoi(argv[5]) : 0, process, first;
	struct rlimit files = {.rlim_cur = MOST + 100, .rlim_max = MOST + 100};

	is_tcp = argc > 5 && !strcmp(argv[2], "tcp");
	if (count < 1 || (!is_tcp && count > MOST))
		return 2;
	all = mmap(NULL, sizeof(*all), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	target = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(atoi(argv[4]))};
	inet_pton(AF_INET, argv[3], &target.sin_addr);
	setrlimit(RLIMIT_NOFILE, &files);
	if (!strcmp(argv[1], "serve"))
		serve(count);
	process = share_out(count);
	first = process * SHARE;
	ask_all(first, count - first < SHARE ? count - first : SHARE, argv + 6, argc - 6);
	if (process)
		return 0;
	while (wait(NULL) > 0)
		;
	printf("%d %d %d %d\n", all->right, all->wrong, all->silent, all->refused);
	return 0;
}
