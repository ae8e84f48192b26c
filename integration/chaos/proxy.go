package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
)

// proxies stand between each producer or worker slot and the server.
type proxies struct {
	api  *toxiproxy.ApiServer
	all  map[string]*toxiproxy.Proxy
	list []*toxiproxy.Proxy

	mu   sync.Mutex
	busy map[string]bool // a fault is under way
}

func newProxies() *proxies {
	return &proxies{
		api: toxiproxy.NewServer(toxiproxy.NewMetricsContainer(prometheus.NewRegistry()), zerolog.Nop()),
		all: make(map[string]*toxiproxy.Proxy), busy: make(map[string]bool),
	}
}

// add starts a proxy and returns the URL of the server behind it.
func (p *proxies) add(name, upstream string) (string, error) {
	for range 100 {
		// Below the ports that the system gives to clients, so that nobody takes it while a failover has the proxy closed.
		listen := net.JoinHostPort("127.0.0.1", strconv.Itoa(20000+rand.IntN(12000)))
		proxy := toxiproxy.NewProxy(p.api, name, listen, upstream)
		if err := proxy.Start(); err != nil {
			continue
		}
		p.all[name] = proxy
		p.list = append(p.list, proxy)
		return "postgres://postgres@" + listen + "/postgres?sslmode=disable", nil
	}
	return "", errors.New("no free port for a proxy")
}

// take picks one of the names that no other fault is at, and reserves it.
func (p *proxies) take(random *rand.Rand, names []string) *toxiproxy.Proxy {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		if name := names[random.IntN(len(names))]; !p.busy[name] {
			p.busy[name] = true
			return p.all[name]
		}
	}
}

func (p *proxies) free(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.busy, name)
}

// repoint sends all that connects from now on to another server, and cuts what is connected.
func (p *proxies) repoint(upstream string) error {
	for _, proxy := range p.list {
		proxy.Stop()
		proxy.Upstream = upstream
		var err error
		for range 50 {
			if err = proxy.Start(); err == nil {
				break
			}
			time.Sleep(100 * time.Millisecond)
		}
		if err != nil {
			return fmt.Errorf("proxy %s: %w", proxy.Name, err)
		}
	}
	return nil
}

func (p *proxies) close() {
	for _, proxy := range p.list {
		proxy.Stop()
	}
}

const (
	upstream   = "upstream"   // from the client to the server
	downstream = "downstream" // from the server to the client
)

// trouble is a toxic, in toxiproxy's words.
func trouble(proxy *toxiproxy.Proxy, kind, direction, attributes string) (remove func() error, err error) {
	toxic, err := proxy.Toxics.AddToxicJson(strings.NewReader(fmt.Sprintf(
		`{"type": %q, "name": "%s_%s", "stream": %q, "attributes": {%s}}`, kind, kind, direction, direction, attributes)))
	if err != nil {
		return nil, fmt.Errorf("proxy %s: %w", proxy.Name, err)
	}
	return func() error { return proxy.Toxics.RemoveToxic(context.Background(), toxic.Name) }, nil
}

// blackhole lets nothing through in one direction. Requests that do not reach the server are lost before their COMMIT, answers that
// do not reach the client after it. Removing it closes the connections.
func blackhole(proxy *toxiproxy.Proxy, direction string) (remove func() error, err error) {
	return trouble(proxy, "timeout", direction, `"timeout": 0`)
}

func cut(proxy *toxiproxy.Proxy, direction string) (remove func() error, err error) {
	return trouble(proxy, "timeout", direction, `"timeout": 1`)
}

func delay(proxy *toxiproxy.Proxy, direction string, milliseconds int) (remove func() error, err error) {
	return trouble(proxy, "latency", direction, fmt.Sprintf(`"latency": %d, "jitter": %d`, milliseconds, milliseconds/2))
}

// networkFault does something to the connections of one producer or worker slot.
func (c *conductor) networkFault(random *rand.Rand) error {
	proxy := c.proxies.take(random, c.victims)
	defer c.proxies.free(proxy.Name)
	direction := [...]string{upstream, downstream}[random.IntN(2)]
	f := fault{scope: proxy.Name, from: time.Now()}
	var remove func() error
	var err error
	var length time.Duration
	switch random.IntN(4) {
	case 0:
		f.kind, length = faultCut, 50*time.Millisecond
		remove, err = cut(proxy, direction)
	case 1:
		f.kind, length = faultDelay, time.Duration(1000+random.IntN(1500))*time.Millisecond
		remove, err = delay(proxy, direction, 50+random.IntN(700))
	default:
		f.kind, length = faultHole, time.Duration(500+random.IntN(3000))*time.Millisecond
		remove, err = blackhole(proxy, direction)
	}
	if err != nil {
		return err
	}
	time.Sleep(length)
	err = remove()
	f.to = time.Now()
	c.faults.add(f)
	return err
}
