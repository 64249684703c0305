// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"time"
)

func reader(text string) io.Reader { return strings.NewReader(text) }

// serve answers with its pod's name, over HTTP and UDP. After SIGTERM it goes on for a while, as proxies learn of its end
// later than it does, and then finishes what it has begun.
func serve(address string, drain time.Duration) {
	name, _ := os.Hostname()
	var ending atomic.Bool
	routes := http.NewServeMux()
	routes.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, name) })
	routes.HandleFunc("/readyz", func(w http.ResponseWriter, _ *http.Request) {
		if ending.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	go echo(address, name)
	run(address, routes, func() { ending.Store(true); time.Sleep(drain) })
}

func run(address string, routes http.Handler, before func()) {
	server := http.Server{Addr: address, Handler: routes}
	done := make(chan struct{})
	go func() {
		<-stopped()
		before()
		limited, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		server.Shutdown(limited)
		close(done)
	}()
	if err := server.ListenAndServe(); err != http.ErrServerClosed {
		fail(err.Error())
	}
	<-done
}

func echo(address, name string) {
	socket, err := net.ListenPacket("udp", address)
	if err != nil {
		fail(err.Error())
	}
	buffer := make([]byte, 2048)
	for {
		if _, peer, err := socket.ReadFrom(buffer); err == nil {
			socket.WriteTo([]byte(name), peer)
		}
	}
}

// proxy opens a connection for each request, as an ingress with many backends mostly does.
func proxy(address, to string) {
	target, err := url.Parse(to)
	if err != nil {
		fail(err.Error())
	}
	handler := httputil.NewSingleHostReverseProxy(target)
	handler.Transport = &http.Transport{DisableKeepAlives: true}
	run(address, handler, func() { time.Sleep(3 * time.Second) })
}
