// SPDX-License-Identifier: Apache-2.0
// See relay_loop.h. The thread never enters JavaScript and never waits for it. What becomes of one
// connection is in connections.cc.
#include "relay/relay_loop.h"

#include <errno.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <time.h>

#include "binding/args.h"
#include "binding/notify.h"

namespace fairlead {
namespace {

// Not ids of connections, of which two bits say more.
constexpr uint64_t kWake = ~uint64_t{0};
constexpr uint64_t kAccept = ~uint64_t{1};
constexpr int kEventsPerTurn = 256;
constexpr int kAcceptsPerListener = 64;
// Questions that JavaScript has not answered: beyond these connections wait in the kernel.
constexpr uint32_t kMostAsked = 1024;

}  // namespace

uint64_t NowMs() {
  timespec now = {};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1000 + static_cast<uint64_t>(now.tv_nsec) / 1'000'000;
}

bool RelayLoop::Open() {
  epoll_ = Fd(epoll_create1(EPOLL_CLOEXEC));
  wake_ = Fd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  return epoll_.is_valid() && wake_.is_valid() && listeners_.Open() &&
         Watch(wake_.get(), kWake, EPOLLIN) && Watch(listeners_.epoll(), kAccept, EPOLLIN);
}

bool RelayLoop::Watch(int fd, uint64_t data, uint32_t events) {
  epoll_event event = {.events = events, .data = {.u64 = data}};
  return epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0;
}

void* RelayLoop::Main(void* self) {
  static_cast<RelayLoop*>(self)->Run();
  return nullptr;
}

// Without signals: they are for the threads of Node, and SIGPIPE of splice for none.
int RelayLoop::Start(napi_threadsafe_function notify) {
  notify_ = notify;
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  int error = pthread_create(&thread_, nullptr, Main, this);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  is_stopped_ = error != 0;
  return error;
}

void RelayLoop::Stop() {
  if (is_stopped_) return;
  is_stopped_ = true;
  {
    std::lock_guard lock(mutex_);
    must_end_ = true;
    events_.clear();
  }
  Wake();
  pthread_join(thread_, nullptr);
  napi_release_threadsafe_function(notify_, napi_tsfn_abort);
  listeners_.Close();
  for (Connection& connection : connections_) {
    CloseWithReset(std::move(connection.client.fd));
    CloseWithReset(std::move(connection.server.fd));
  }
  connections_.clear();
  parts_ = {};
  epoll_.Reset();
  wake_.Reset();
}

void RelayLoop::Wake() {
  eventfd_write(wake_.get(), 1);
}

void RelayLoop::Run() {
  epoll_event events[kEventsPerTurn];
  while (TakeAnswers()) {
    for (const Answer& answer : taken_) Apply(answer);
    taken_.clear();
    PumpQueued();
    ExpireConnects();
    PauseOrResume();
    Publish();
    free_.insert(free_.end(), freed_.begin(), freed_.end());
    freed_.clear();
    int count = epoll_wait(epoll_.get(), events, kEventsPerTurn, TimeoutMs());
    for (int at = 0; at < count; at += 1) Handle(events[at]);
  }
}

bool RelayLoop::TakeAnswers() {
  std::lock_guard lock(mutex_);
  taken_.swap(answers_);
  return !must_end_;
}

int RelayLoop::TimeoutMs() const {
  if (!queued_.empty()) return 0;
  if (connecting_.empty()) return -1;
  uint64_t now = NowMs();
  uint64_t first = connecting_.begin()->first;
  return first <= now ? 0 : static_cast<int>(first - now);
}

void RelayLoop::Handle(const epoll_event& event) {
  if (event.data.u64 == kWake) {
    eventfd_t ignored = 0;
    eventfd_read(wake_.get(), &ignored);
    return;
  }
  if (event.data.u64 == kAccept) {
    AcceptAll();
    return;
  }
  HandleConnection(static_cast<uint32_t>(event.data.u64 >> 1), (event.data.u64 & 1) != 0,
                   event.events);
}

void RelayLoop::AcceptAll() {
  listeners_.Visit([this](uint32_t listener) {
    for (int left = kAcceptsPerListener; left > 0 && asked_ < kMostAsked; left -= 1) {
      if (!AcceptOne(listener)) return;
    }
  });
}

bool RelayLoop::AcceptOne(uint32_t listener) {
  Accepted accepted = listeners_.Accept(listener);
  if (accepted.result == Accepted::kNone) return false;
  if (accepted.result == Accepted::kOne && open_ < options_.most_connections) {
    Ask(listener, std::move(accepted));
    return true;
  }
  CloseWithReset(std::move(accepted.fd));
  Event event = {};
  event.kind = Event::kShed;
  event.listener = listener;
  Report(event);
  return accepted.result == Accepted::kOne;
}

void RelayLoop::PauseOrResume() {
  bool is_full = asked_ >= kMostAsked;
  if (is_full == is_paused_) return;
  is_paused_ = is_full;
  epoll_event event = {.events = is_full ? 0U : EPOLLIN, .data = {.u64 = kAccept}};
  epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, listeners_.epoll(), &event);
}

void RelayLoop::Publish() {
  if (reported_.empty()) return;
  std::lock_guard lock(mutex_);
  events_.insert(events_.end(), reported_.begin(), reported_.end());
  reported_.clear();
  if (is_notified_ || must_end_) return;
  is_notified_ = napi_call_threadsafe_function(notify_, nullptr, napi_tsfn_nonblocking) == napi_ok;
}

void RelayLoop::Deliver(Napi::Env env, Napi::Function on_events) {
  if (is_stopped_) return;
  std::vector<Event> events;
  {
    std::lock_guard lock(mutex_);
    is_notified_ = false;
    events.swap(events_);
  }
  if (events.empty()) return;
  Napi::HandleScope scope(env);
  napi_value argument = CopyBytes(env, reinterpret_cast<const uint8_t*>(events.data()),
                                  events.size() * sizeof(Event));
  if (argument == nullptr) return;  // the environment is ending
  CallFromLoop(env, on_events, 1, &argument);
}

void RelayLoop::Tell(const Answer* answers, size_t count) {
  if (is_stopped_ || count == 0) return;
  {
    std::lock_guard lock(mutex_);
    answers_.insert(answers_.end(), answers, answers + count);
  }
  Wake();
}

}  // namespace fairlead
