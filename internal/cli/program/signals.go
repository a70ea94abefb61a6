package program

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/fanmail/fanmail/internal/app"
)

// Signals returns a context that ends at the first interrupt or SIGTERM. After SIGTERM its cause is app.ErrTerminated. The second signal
// ends the process at once.
func Signals() context.Context {
	ctx, cancel := context.WithCancelCause(context.Background())
	received := make(chan os.Signal, 1)
	signal.Notify(received, os.Interrupt, syscall.SIGTERM)
	go func() {
		first := <-received
		signal.Stop(received)
		if first == syscall.SIGTERM {
			cancel(app.ErrTerminated)
			return
		}
		cancel(nil)
	}()
	return ctx
}
