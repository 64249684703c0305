// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"net/http"
	"sync"
	"time"
)

// stream is one kind of request, made at a rate, one after the other.
type stream struct {
	Name   string
	Kind   string
	Target string
	// A name that is asked for: kinds dns and held-dns.
	Asks      string
	PerSecond float64
}

type count struct {
	Requests  int
	Failed    int
	Errors    map[string]int
	LongestMs int64
}

// request makes one request; held ones keep what they have opened.
type request func() error

var kinds = map[string]func(stream) request{
	"http": each, "held": held, "udp": datagram, "dns": query, "held-dns": heldQuery, "held-udp": heldDatagram,
}

const timeout = 10 * time.Second

type load struct {
	mutex  sync.Mutex
	counts map[string]*count
	stop   chan struct{}
	done   sync.WaitGroup
}

var current *load

// control starts streams (POST /start) and ends them (GET /stop), which answers what they have counted; GET /counts answers meanwhile.
func control(address string) {
	routes := http.NewServeMux()
	routes.HandleFunc("/start", func(w http.ResponseWriter, r *http.Request) {
		var streams []stream
		if err := json.NewDecoder(r.Body).Decode(&streams); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		current = begin(streams)
	})
	routes.HandleFunc("/counts", func(w http.ResponseWriter, _ *http.Request) { current.answer(w) })
	routes.HandleFunc("/stop", func(w http.ResponseWriter, _ *http.Request) {
		close(current.stop)
		current.done.Wait()
		current.answer(w)
	})
	run(address, routes, func() {})
}

func begin(streams []stream) *load {
	started := &load{counts: map[string]*count{}, stop: make(chan struct{})}
	for _, each := range streams {
		counted := &count{Errors: map[string]int{}}
		started.counts[each.Name] = counted
		started.done.Add(1)
		go started.repeat(each, counted)
	}
	return started
}

func (l *load) repeat(of stream, counted *count) {
	defer l.done.Done()
	ask := kinds[of.Kind](of)
	ticks := time.NewTicker(time.Duration(float64(time.Second) / of.PerSecond))
	defer ticks.Stop()
	for {
		select {
		case <-l.stop:
			return
		case <-ticks.C:
		}
		began := time.Now()
		err := ask()
		l.mutex.Lock()
		counted.Requests++
		counted.LongestMs = max(counted.LongestMs, time.Since(began).Milliseconds())
		if err != nil {
			counted.Failed++
			counted.Errors[time.Now().UTC().Format("15:04:05")+" "+err.Error()]++
		}
		l.mutex.Unlock()
	}
}

func (l *load) answer(w http.ResponseWriter) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	json.NewEncoder(w).Encode(l.counts)
}
