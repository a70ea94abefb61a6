package main

// Run exports run to the tests.
var Run = run
