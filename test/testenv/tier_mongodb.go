//go:build mongodb

package testenv

// OnMongoDB reports whether the tests are built with the tag mongodb: see tier.go.
const OnMongoDB = true
