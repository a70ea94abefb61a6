package main

// Run is run, for tests from outside.
var Run = run
