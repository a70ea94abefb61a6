// Package natsbus sends Fanmail's events over NATS JetStream: on a server inside the process (package natsserver), or on NATS servers of
// version 2.11 or later.
//
// There are four streams. FANMAIL_PUBLISHED holds events of published messages for the routers, which share one consumer.
// FANMAIL_FANOUT holds the tasks that the routers emit, on one subject for each lane and partition. FANMAIL_LOGIN holds
// logins for the rehydrators, which share one consumer. FANMAIL_DLQ holds work that cannot succeed. Each of these has a limit
// in bytes. If it is full, it refuses new events (event.ErrFull) and drops none, because the bus has accepted what it holds. The
// first three are work queues: an event stays until a stage acknowledges it, even while no stage runs.
//
// # Logins
//
// Any client of the bus can publish a login: {"user":"ann"} on fanmail.v1.login. A client that publishes through JetStream
// gets an acknowledgement, or an error if the stream is full. A plain publish gets no answer. Fanmail announces a rehydrated
// user on fanmail.v1.rehydrated; no stream keeps that event. The hints of package wake (Say, Hear) are kept by no stream either.
//
// # One holder per lane and partition
//
// Each lane and partition has one durable consumer that hands out one task at a time. The worker that has this task (Take) holds the
// partition in that lane. The hold ends when the holder acknowledges the task (Done), hands it back (Release), or does not extend it for
// Options.Lease. The holder reads the tasks behind the held one by sequence (Waiting) and handles all of them as one batch. It removes them
// from the stream (Remove) and acknowledges the held one last. If the holder does not finish the batch, the whole batch stays in the stream
// for the next holder.
//
// A lease is not a lock: a holder that stalled for longer than its lease may still run when the next holder begins. Every
// method of bus.Held is harmless then. The exclusion is for speed and order. Correctness must not depend on it.
//
// # Repeats
//
// Every event is delivered at least once. GiveBack stores an unworked task again, because the server counts each time that it hands out a
// message. The header Fanmail-Attempts has the number of earlier attempts. A message id suppresses repeats of a published event for two
// minutes. The server keeps an id after its event was acknowledged, so tasks, dead letters and events that the resumer emits again carry no id.
package natsbus
