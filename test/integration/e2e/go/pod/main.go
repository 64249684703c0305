// SPDX-License-Identifier: Apache-2.0

// The program of the pods: a server, a client that counts what fails, a proxy, or nothing (pause). One static file, so that
// its image has no other.
package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	arguments := append(os.Args[1:], "", "", "")
	switch arguments[0] {
	case "pause":
		pause()
	case "serve": // serve :8080 DRAIN, for example 5s
		serve(arguments[1], duration(arguments[2]))
	case "proxy": // proxy :8080 http://web
		proxy(arguments[1], arguments[2])
	case "load": // load :9000
		control(arguments[1])
	case "call": // call URL [BODY]
		call(arguments[1], arguments[2])
	default:
		fail("usage: pod pause | serve ADDRESS DRAIN | proxy ADDRESS URL | load ADDRESS | call URL [BODY]")
	}
}

// Process 1 of a pod without a shared process namespace has no children: nothing is to be reaped.
func pause() {
	<-stopped()
}

func stopped() chan os.Signal {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	return signals
}

func call(url, body string) {
	client := http.Client{Timeout: 20 * time.Second}
	var answer *http.Response
	var err error
	if body == "" {
		answer, err = client.Get(url)
	} else {
		answer, err = client.Post(url, "application/json", reader(body))
	}
	if err != nil {
		fail(err.Error())
	}
	defer answer.Body.Close()
	if _, err := io.Copy(os.Stdout, answer.Body); err != nil {
		fail(err.Error())
	}
	if answer.StatusCode != http.StatusOK {
		fail(answer.Status)
	}
}

func duration(text string) time.Duration {
	value, err := time.ParseDuration(text)
	if err != nil {
		fail(err.Error())
	}
	return value
}

func fail(text string) {
	fmt.Fprintln(os.Stderr, text)
	os.Exit(1)
}
