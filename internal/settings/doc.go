// Package settings has what all processes on one store agree on: the recorded settings, the format level, and the list of processes.
//
// A store holds one Record. At level 1 it has no settings, and each process follows its own configuration. From level 2 on the record
// decides. A new store begins at the Highest level with the settings of the process that creates it. An older store keeps its level
// until an operator raises it (Service.Upgrade), which records the settings in the same write.
//
// Each process has one Current. It reads the record before the process serves, and every two seconds after that. Operations ask it for
// the rules once, at their beginning. A process whose configuration differs from the record follows the record. A process whose own
// keys do not fit the record does not start.
//
// Every process reports itself every ten seconds with the highest level that it knows. So Service.Upgrade finds the processes that are
// too old. Processes of level 1 do not report themselves: an operator has to confirm that none runs.
package settings
