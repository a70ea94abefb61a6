// Package partition says which fixed share of all users a user belongs to. Fan-out works on one partition of
// a message's audience at a time, so that many workers share it without talking to each other.
package partition

import (
	"fmt"

	"github.com/cespare/xxhash/v2"

	"github.com/fanmail/fanmail/pkg/message"
)

const (
	// DefaultCount is the number of partitions unless configured otherwise.
	DefaultCount = 16
	// MaxCount is the greatest number of partitions there may be.
	MaxCount = 256
)

// Of returns the partition of a user, from 0 to count-1: xxhash64(user) mod count. The count is fixed when a
// store is created, since edges and tasks are filed by partition.
func Of(user message.UserID, count int) int { return OfHash(Hash(user), count) }

// Hash returns the hash of a user that Of uses.
func Hash(user message.UserID) uint64 { return xxhash.Sum64String(string(user)) }

// OfHash is Of for a user's hash.
func OfHash(hash uint64, count int) int {
	return int(hash % uint64(count)) //nolint:gosec // count is 1 to MaxCount
}

// ValidateCount returns an error unless there can be count partitions.
func ValidateCount(count int) error {
	if count < 1 || count > MaxCount {
		return fmt.Errorf("partitions: %d is out of range: there can be 1 to %d", count, MaxCount)
	}
	return nil
}
