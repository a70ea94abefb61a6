//go:build !long

package pebblestore_test

const diskRounds = 2
