//go:build mongodb

package mongostore_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/fanmail/fanmail/pkg/message"
)

// BenchmarkToFollowers asks for the newest page of somebody who follows a thousand authors: who has missed many messages in a
// year, and who has missed ten.
func BenchmarkToFollowers(b *testing.B) {
	const authors, page = 1000, 50
	for _, missed := range []int{200_000, 10} {
		b.Run(fmt.Sprintf("of %d authors with %d missed", authors, missed), func(b *testing.B) {
			db, opts := create(b)
			now := time.Now()
			random := rand.New(rand.NewPCG(1, 2))
			author := func(n int) message.UserID { return message.UserID(fmt.Sprintf("author-%04d", n)) }
			messages := make([]bson.D, missed)
			for i := range messages {
				id := sentAt(now.Add(-time.Duration(random.Int64N(int64(365*24*time.Hour)))), i)
				messages[i] = bson.D{
					{Key: "_id", Value: bson.Binary{Subtype: bson.TypeBinaryUUID, Data: id[:]}},
					{Key: "v", Value: int32(1)},
					{Key: "from", Value: author(random.IntN(authors))},
					{Key: "audience", Value: "followers"},
					{Key: "body", Value: "a message of some forty bytes, or fifty"},
					{Key: "lag", Value: int64(3)},
				}
			}
			for some := range slices.Chunk(messages, 5000) {
				_, err := raw(b, opts).Collection("messages").InsertMany(b.Context(), some)
				require.NoError(b, err)
			}
			ranges := make([]message.Range, authors)
			for i := range ranges {
				ranges[i] = message.Range{From: author(i).Source(), After: message.LastBefore(now.AddDate(-1, 0, -1)), Before: message.MaxID}
			}
			var took []time.Duration
			for b.Loop() {
				start := time.Now()
				found, err := db.Messages().ToFollowers(b.Context(), ranges, message.NewestFirst, page)
				require.NoError(b, err)
				require.Len(b, found, min(page, missed))
				took = append(took, time.Since(start))
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
			start := time.Now()
			count, err := db.Messages().CountToFollowers(b.Context(), ranges)
			require.NoError(b, err)
			require.EqualValues(b, missed, count)
			b.ReportMetric(float64(time.Since(start).Milliseconds()), "count-ms")
		})
	}
}
