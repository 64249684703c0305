// SPDX-License-Identifier: Apache-2.0
// The thread that relays: it accepts, asks JavaScript which server a connection gets, connects to
// it, and moves bytes until both directions have ended. It decides nothing itself.
#ifndef FAIRLEAD_RELAY_LOOP_H_
#define FAIRLEAD_RELAY_LOOP_H_

#include <napi.h>
#include <pthread.h>
#include <sys/epoll.h>

#include <cstdint>
#include <deque>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include "relay/listeners.h"
#include "relay/records.h"
#include "relay/sockets.h"
#include "relay/stream.h"

namespace fairlead {

uint64_t NowMs();

struct RelayOptions {
  uint32_t connect_timeout_ms;
  // Others are reset.
  uint32_t most_connections;
  // Connections beyond these copy their bytes, which takes no file.
  uint32_t most_pipes;
};

class RelayLoop {
 public:
  explicit RelayLoop(RelayOptions options) : options_(options) {
    parts_.pipes.Limit(options.most_pipes);
  }
  ~RelayLoop() { Stop(); }
  // False with errno set on failure.
  bool Open();
  // Starts the thread, which calls `notify`; a positive errno on failure.
  int Start(napi_threadsafe_function notify);
  // Ends the thread, and all connections with a reset. Idempotent.
  void Stop();
  // On the event loop: calls `on_events` with what has happened.
  void Deliver(Napi::Env env, Napi::Function on_events);
  void Tell(const Answer* answers, size_t count);
  Listeners& listeners() { return listeners_; }

 private:
  struct Connection {
    enum State : uint8_t { kFree, kAsked, kConnecting, kOpen };
    State state = kFree;
    bool is_queued = false;
    Side client;
    Side server;
    Stream up;
    Stream down;
    uint64_t deadline_ms = 0;
  };
  enum class Ending { kEnd, kReset };

  static void* Main(void* self);
  void Run();
  // Returns false when the thread is to end.
  bool TakeAnswers();
  int TimeoutMs() const;
  void Handle(const epoll_event& event);
  void HandleConnection(uint32_t id, bool is_server, uint32_t events);

  void AcceptAll();
  // False if no more wait there.
  bool AcceptOne(uint32_t listener);
  void Ask(uint32_t listener, Accepted accepted);
  void PauseOrResume();

  void Apply(const Answer& answer);
  void Connected(uint32_t id, Connection& connection);
  void ExpireConnects();
  void Pump(uint32_t id, Connection& connection);
  void PumpQueued();
  void Close(uint32_t id, Connection& connection, Ending ending, int error = 0);
  void Free(uint32_t id, Connection& connection);

  bool Watch(int fd, uint64_t data, uint32_t events);
  void Report(const Event& event) { reported_.push_back(event); }
  void Publish();
  void Wake();

  const RelayOptions options_;
  Listeners listeners_;
  Fd epoll_;
  Fd wake_;
  napi_threadsafe_function notify_ = nullptr;
  pthread_t thread_ = {};
  bool is_stopped_ = true;  // the event loop's own view

  // The thread's own.
  StreamParts parts_;
  std::deque<Connection> connections_;
  std::vector<uint32_t> free_;
  // Not used again in this turn, of which later events may still be theirs.
  std::vector<uint32_t> freed_;
  std::vector<uint32_t> queued_;
  std::set<std::pair<uint64_t, uint32_t>> connecting_;  // by deadline
  std::vector<Answer> taken_;
  std::vector<Event> reported_;
  uint32_t open_ = 0;
  uint32_t asked_ = 0;
  bool is_paused_ = false;

  std::mutex mutex_;  // guards the rest
  std::vector<Answer> answers_;
  std::vector<Event> events_;
  bool is_notified_ = false;
  bool must_end_ = false;
};

}  // namespace fairlead

#endif  // FAIRLEAD_RELAY_LOOP_H_
