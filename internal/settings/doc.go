// Package settings has what all processes on one store agree on: the recorded settings, the declared attributes, and the list of processes.
//
// A store holds one Record. It begins with the settings of the process that creates the store.
//
// Each process has one Current. It reads the record before the process serves, and every two seconds after that. Operations ask it for
// the rules once, at their beginning. A process whose configuration differs from the record follows the record. A process whose own
// keys do not fit the record does not start.
//
// Every process reports itself every ten seconds with what its keys need. So Service.Change finds the processes that do not fit a change.
package settings
