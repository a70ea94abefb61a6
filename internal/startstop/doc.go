// Package startstop is the lifecycle of every long-lived part of a process. It starts a part, stops it, and waits for its
// goroutines.
//
// A Service is in one of three states:
//
//	new ──Start──▶ running ──Stop──▶ stopped
//	 └─────────────Stop─────────────────▲
//
// A service runs once. Start returns ErrRunning if the service runs already, and ErrStopped if it was stopped. Any goroutine may
// call Stop at any time and any number of times, even if the service was never started.
//
// Stopping has two steps, and a running goroutine has a context for each:
//
//	intake ends when Stop is called: begin no new work.
//	work   ends when the context of Stop ends: abort the work in flight, which has to be repeated later.
//
// So the context of Stop is the drain timeout. Stop always waits until the last goroutine has returned, even if its context has
// ended, because the caller then closes the resources that the service uses. Stop returns ErrCutShort if it aborted work.
//
// The context of Start bounds only the start. Its values are passed on to the goroutines; its end does not stop the service.
//
// A Runner makes a Service from functions. A Group makes one Service from several. Add a service to a Group after the services that it
// uses. A Group starts its services in order and stops them in reverse order, with one context for all.
package startstop
