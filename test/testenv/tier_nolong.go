//go:build !long

package testenv

// Long reports whether the tests are built with the tag long: see tier.go.
const Long = false
