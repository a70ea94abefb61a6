// Package startstop is the one lifecycle of everything long-lived: how it is started, how it is told to stop, and
// who waits for its goroutines.
//
// A Service is in one of three states:
//
//	new ──Start──▶ running ──Stop──▶ stopped
//	 └─────────────Stop─────────────────▲
//
// A service runs once. Start of one that runs returns ErrRunning, of one that was stopped ErrStopped; Stop may be
// called at any time, from anywhere, any number of times, of a service that was never started too.
//
// Stopping has two steps, and a running goroutine has a context for each:
//
//	intake ends at once when Stop is called: take on nothing new.
//	work   ends when the context of Stop does: what is in flight is cut off and will have to be repeated.
//
// So the context of Stop is the drain timeout. Stop returns when the last goroutine has returned, whatever its
// context says, for nothing that a service uses may be closed before that. It returns ErrCutShort if work was cut off.
//
// The context of Start bounds the starting alone, and lends its values to what runs: a service does not stop
// because the context that it was started with ends.
//
// A Runner makes a Service of functions, a Group makes one of Services. What uses something is added to a Group after
// it: a Group starts in order, and stops in reverse, one after another, with one context for all.
package startstop
