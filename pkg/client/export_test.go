package client

import (
	"bufio"
	"io"
	"time"
)

// ServerOf is serverOf, for its test.
func (c *Client) ServerOf(path string) string { return c.serverOf(path) }

// MaxEventBytes is maxEventBytes, for its test.
const MaxEventBytes = maxEventBytes

// ReadEvents returns the names and the data of the events in a stream, and the last pause that it asks for.
func ReadEvents(r io.Reader) (read [][2]string, retry time.Duration, err error) {
	e := events{in: bufio.NewReader(r), timer: time.NewTimer(silence)}
	for {
		name, data, err := e.next()
		if err != nil {
			return read, e.retry, err
		}
		read = append(read, [2]string{name, string(data)})
	}
}
