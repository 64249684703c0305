// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

func get(client *http.Client, url string) error {
	answer, err := client.Get(url)
	if err != nil {
		return err
	}
	return whole(answer)
}

func whole(answer *http.Response) error {
	defer answer.Body.Close()
	if _, err := io.Copy(io.Discard, answer.Body); err != nil {
		return err
	}
	if answer.StatusCode != http.StatusOK {
		return errors.New(answer.Status)
	}
	return nil
}

// each request has a connection of its own.
func each(of stream) request {
	client := &http.Client{Timeout: timeout, Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext:       resolving.DialContext,
	}}
	return func() error { return get(client, of.Target) }
}

// held keeps one connection; that it broke is a failure, even if the request could be made again on another one. Not by
// http.Client, which opens another one by itself, also where a starved machine takes 50 ms to write a request.
func held(of stream) request {
	address := strings.TrimPrefix(of.Target, "http://")
	var connection net.Conn
	var answers *bufio.Reader
	return func() error {
		if connection == nil {
			opened, err := net.DialTimeout("tcp", address, timeout)
			if err != nil {
				return err
			}
			connection, answers = opened, bufio.NewReader(opened)
		}
		connection.SetDeadline(time.Now().Add(timeout))
		err := ask(connection, answers)
		if err != nil {
			connection.Close()
			connection = nil
		}
		return err
	}
}

func ask(connection net.Conn, answers *bufio.Reader) error {
	if _, err := io.WriteString(connection, "GET / HTTP/1.1\r\nHost: held\r\n\r\n"); err != nil {
		return err
	}
	answer, err := http.ReadResponse(answers, nil)
	if err != nil {
		return err
	}
	return whole(answer)
}

func exchange(socket net.Conn, question []byte) ([]byte, error) {
	socket.SetDeadline(time.Now().Add(timeout))
	if _, err := socket.Write(question); err != nil {
		return nil, err
	}
	buffer := make([]byte, 2048)
	length, err := socket.Read(buffer)
	return buffer[:length], err
}

func once(address string, question func() []byte, judge func([]byte, []byte) error) error {
	socket, err := net.DialTimeout("udp", address, timeout)
	if err != nil {
		return err
	}
	defer socket.Close()
	before, isUsed := ports.use(socket)
	asked := question()
	answer, err := exchange(socket, asked)
	if err == nil {
		return judge(asked, answer)
	}
	if isUsed {
		return usedPort{err, before}
	}
	return err
}

// keeping uses one connected socket, as programs do that never connect again.
func keeping(address string, question func() []byte, judge func([]byte, []byte) error) request {
	var socket net.Conn
	return func() error {
		if socket == nil {
			opened, err := net.DialTimeout("udp", address, timeout)
			if err != nil {
				return err
			}
			socket = opened
		}
		ports.use(socket)
		asked := question()
		answer, err := exchange(socket, asked)
		if err == nil {
			return judge(asked, answer)
		}
		// What is destroyed or refused is opened anew, as a resolver does; a lost answer is not noticed so.
		var failed net.Error
		if !(errors.As(err, &failed) && failed.Timeout()) {
			socket.Close()
			socket = nil
		}
		return err
	}
}

func anything(_, answer []byte) error {
	if len(answer) == 0 {
		return errors.New("an empty answer")
	}
	return nil
}

func ping() []byte { return []byte("ping") }

func datagram(of stream) request {
	return func() error { return once(of.Target, ping, anything) }
}

func heldDatagram(of stream) request { return keeping(of.Target, ping, anything) }

func query(of stream) request {
	return func() error { return once(of.Target, questionOf(of.Asks), answered) }
}

func heldQuery(of stream) request { return keeping(of.Target, questionOf(of.Asks), answered) }

// questionOf asks for the A records of a name (RFC 1035 section 4).
func questionOf(name string) func() []byte {
	id := uint16(time.Now().UnixNano())
	return func() []byte {
		id++
		message := binary.BigEndian.AppendUint16(nil, id)
		message = append(message, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0)
		for _, label := range strings.Split(strings.TrimSuffix(name, "."), ".") {
			message = append(append(message, byte(len(label))), label...)
		}
		return append(message, 0, 0, 1, 0, 1)
	}
}

func answered(asked, answer []byte) error {
	switch {
	case len(answer) < 12 || answer[0] != asked[0] || answer[1] != asked[1]:
		return errors.New("an answer to another question")
	case answer[3]&15 != 0:
		return fmt.Errorf("response code %d", answer[3]&15)
	case binary.BigEndian.Uint16(answer[6:]) == 0:
		return errors.New("no records")
	}
	return nil
}
