package cli

// NewRoot returns the command fanmail.
var NewRoot = newRoot
