package app

import (
	"container/list"
	"crypto/tls"
	"net"
	"net/http"
	"sync"
)

// idleConnections closes the connection that has been idle for the longest time when a new one takes more than three quarters of the
// places. Otherwise idle clients could lock all others out. A connection without a first request is not idle: http.read_header_timeout ends it.
type idleConnections struct {
	most int

	mu    sync.Mutex
	open  int
	order list.List // of net.Conn, the longest idle one first
	idle  map[net.Conn]*list.Element
}

// changed is an http.Server's ConnState.
func (c *idleConnections) changed(conn net.Conn, state http.ConnState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.busy(conn)
	switch state {
	case http.StateNew:
		c.open++
		if longest := c.order.Front(); longest != nil && 4*c.open > 3*c.most {
			other := longest.Value.(net.Conn) //nolint:forcetypeassert // the list has nothing else
			c.busy(other)
			if secure, ok := other.(*tls.Conn); ok {
				other = secure.NetConn() // closing it does not wait for the client
			}
			_ = other.Close()
		}
	case http.StateIdle:
		c.idle[conn] = c.order.PushBack(conn)
	case http.StateClosed, http.StateHijacked:
		c.open--
	case http.StateActive:
	}
}

// busy removes a connection from the idle ones.
func (c *idleConnections) busy(conn net.Conn) {
	if element := c.idle[conn]; element != nil {
		c.order.Remove(element)
		delete(c.idle, conn)
	}
}
