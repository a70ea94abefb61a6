// Package cli is the program fanmail: a server with all roles, and the commands for people and scripts. Package program has what
// fanmail shares with the programs of single roles.
//
// Main runs a command line and returns its exit code. Results go to standard output: as text, or as JSON with --json. Progress and
// errors go to standard error. An error is one line that says what to do. Commands escape the control characters of everything that
// comes from others (bodies, user ids, answers of servers), so that no message can control a terminal.
//
// The commands that talk to a server use pkg/client only. serve, demo and bench start an app.App.
package cli
