// Package natsbus carries Fanmail's events over NATS JetStream, on a server inside the process (package
// natsserver) or on any NATS 2.11 or later.
//
// There are four streams. A published message goes through FANMAIL_PUBLISHED to one of the routers, which
// share one consumer. The tasks they make of it go through FANMAIL_FANOUT, one subject for each lane and
// partition. Logins go through FANMAIL_LOGIN to one of the rehydrators, which share one consumer, too. What
// cannot succeed ends in FANMAIL_DLQ. All are limited in bytes and refuse what is new when they are full
// (event.ErrFull), since what they hold has been accepted. The first three are work queues: an event stays until
// somebody has acknowledged it, also while nobody consumes.
//
// # Logins
//
// Anybody on the bus may publish a login, which is {"user":"ann"} on fanmail.v1.login. Whoever publishes it
// through JetStream is told whether it was stored, and gets an error where the stream is full; a plain publish
// waits for nothing, and tells nothing. That a user is rehydrated is told on fanmail.v1.rehydrated, which
// no stream keeps.
//
// # One holder per lane and partition
//
// Each lane and partition has one durable consumer that lets a single task be out at a time. Whoever holds
// it (Take, Held) holds the partition in that lane: nobody else gets a task of it until the held one is
// acknowledged (Done), handed back (Release), or not extended for the length of the lease (Options.Lease).
// The holder reads the tasks waiting behind it by sequence (Held.Waiting), handles all of them as one batch,
// removes them from the stream (Held.Remove) and acknowledges the held one last. So a batch that its
// holder does not finish stays in the stream, whole, for the next holder.
//
// A lease is no lock: a holder that stalled for longer than its lease may still be at work when the next one
// begins, and every call on Held stays harmless then. That one at a time works on a partition is for
// speed and order; what depends on exactly once must not rely on it.
//
// # Repeats
//
// Everything is delivered at least once. A message id suppresses repeats of a published event for the length
// of a short window; but ids stay in it after the event was acknowledged, so tasks, dead letters and what a
// sweep emits again carry none.
package natsbus
