// Package cli is the command fanmail: all roles in one process, and the commands that people and scripts use.
//
// Main runs a command line and returns its exit code: ExitDone, ExitFailed or ExitUsage. Results go to standard
// output, as text for people or, with --json, as JSON for programs; progress and errors go to standard error, an
// error as one line that says what to do. Everything that comes from somebody else (bodies, user ids, what a
// server answers) is shown with its control characters escaped, so that no message can take over a terminal.
//
// The commands that talk to a server use pkg/client and nothing else; serve and demo start an app.App.
package cli
