package app

import (
	"net"
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// The error of an address says what helps. Only an address that is taken lets another server be suspected.
func TestListenError(t *testing.T) {
	t.Parallel()
	for errno, want := range map[syscall.Errno]string{
		syscall.EADDRINUSE: "listen on :80: bind: address already in use: is another server running there? --addr or FANMAIL_ADDR takes another address",
		syscall.EACCES: "listen on :80: bind: permission denied: use a port above 1023, or allow the process lower ones (CAP_NET_BIND_SERVICE); " +
			"--addr or FANMAIL_ADDR takes another address",
		syscall.EADDRNOTAVAIL: "listen on :80: bind: cannot assign requested address: --addr or FANMAIL_ADDR takes another address",
	} {
		err := listenError(":80", &net.OpError{Op: "listen", Net: "tcp", Addr: &net.TCPAddr{Port: 80}, Err: os.NewSyscallError("bind", errno)})
		require.EqualError(t, err, want)
		require.ErrorIs(t, err, errno)
	}
	unknown := &net.DNSError{Err: "no such host", Name: "nowhere"}
	require.EqualError(t, listenError("nowhere:80", unknown), "listen on nowhere:80: lookup nowhere: no such host: --addr or FANMAIL_ADDR takes another address")
}
