// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"
)

// How long the kernel's conntrack knows a UDP flow at most (nf_conntrack_udp_timeout_stream).
const tracked = 120 * time.Second

// usedPort is a request that failed and whose source port another one to the same address had a moment before: where netfilter
// translates, it belongs to that one's flow, and goes to its endpoint.
type usedPort struct {
	error
	before time.Duration
}

func (failed usedPort) Error() string {
	return fmt.Sprintf("%v (source port used %.1f s before)", failed.error, failed.before.Seconds())
}

// portsOf knows when each pair of a source port and an address was used last: the kernel chooses source ports at random.
type portsOf struct {
	mutex sync.Mutex
	last  map[[2]string]time.Time
}

var ports = portsOf{last: map[[2]string]time.Time{}}

func (p *portsOf) use(socket net.Conn) (before time.Duration, isUsed bool) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	pair := [2]string{socket.LocalAddr().String(), socket.RemoteAddr().String()}
	last, isKnown := p.last[pair]
	p.last[pair] = time.Now()
	before = time.Since(last)
	return before, isKnown && before < tracked
}

// resolving notes the ports of the resolver's sockets, too: a name is asked for from several, each of which is as much a port of this address
// as those of the streams.
var resolving = net.Dialer{Resolver: &net.Resolver{
	PreferGo: true,
	Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
		var dialer net.Dialer
		socket, err := dialer.DialContext(ctx, network, address)
		if err == nil && strings.HasPrefix(network, "udp") {
			ports.use(socket)
		}
		return socket, err
	},
}}
