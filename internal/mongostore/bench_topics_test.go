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
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/fanmail/fanmail/internal/mongostore"
	"github.com/fanmail/fanmail/internal/storetest/messagetest"
	"github.com/fanmail/fanmail/pkg/message"
)

const (
	topicalMessages = 200_000
	topicalAuthors  = 1000
	topicalTopics   = 200
	// topicalRead is how many messages a read finds, of all topics, and subscribedTo how many of the topics it names.
	topicalRead, subscribedTo = 1000, 20
)

// BenchmarkTopics compares two ways to find messages by topic: an array in the message, as the store has it, and a collection with a document for
// each topic of a message and each of their ancestors, written before the message. Both ways take turns. A read finds the messages of 20 topics
// in the same window of time, and then reads them.
func BenchmarkTopics(b *testing.B) {
	ways := []*topical{newTopical(b, "array"), newTopical(b, "documents")}
	ways[1].ofTopics = ways[1].raw.Collection("topical")
	for _, w := range ways {
		w.fill(b)
	}
	for n := 0; b.Loop(); n++ {
		for turn := range ways {
			w := ways[(n+turn)%len(ways)]
			w.publish(b, n)
			w.read(b)
		}
	}
	require.Equal(b, ways[0].found, ways[1].found)
	for _, w := range ways {
		w.report(b)
	}
	ways[0].count(b)
	b.ReportMetric(0, "ns/op")
}

// topical is a database with messages of topics.
type topical struct {
	name string
	db   *mongostore.DB
	raw  *mongo.Database
	// ofTopics has the documents of topics, or is nil.
	ofTopics *mongo.Collection
	// from is when the window of a read begins.
	from message.ID

	published, looked []time.Duration
	found             int
}

func newTopical(b *testing.B, name string) *topical {
	b.Helper()
	db, opts := create(b)
	return &topical{name: name, db: db, raw: raw(b, opts)}
}

// leaf returns a topic of three segments, by a number. It has two ancestors.
func leaf(n int) message.Topic {
	return message.Topic(fmt.Sprintf("root/topic-%02d/topic-%04d", n%10, n))
}

// topicalMessage returns the nth message. The numbers of messages by topic have a Zipf distribution.
func topicalMessage(zipf *rand.Zipf, random *rand.Rand, sent time.Time, n int) message.Message {
	return message.Message{
		ID: sentAt(sent, n), From: message.UserID(fmt.Sprintf("author-%04d", random.IntN(topicalAuthors))),
		Topics: []message.Topic{leaf(int(zipf.Uint64()))}, Body: "a message of some forty bytes, or fifty",
	}
}

// fill stores messages of a year, by the shapes of their records.
func (w *topical) fill(b *testing.B) {
	b.Helper()
	random := rand.New(rand.NewPCG(1, 2))
	zipf := rand.NewZipf(random, 1.1, 10, topicalTopics-1)
	begin := time.Now().AddDate(-1, 0, 0)
	distance := time.Since(begin) / topicalMessages
	if w.ofTopics != nil {
		_, err := w.ofTopics.Indexes().CreateOne(b.Context(), mongo.IndexModel{
			Keys: bson.D{{Key: "topic", Value: 1}, {Key: "message", Value: 1}}, Options: options.Index().SetName("topic_message"),
		})
		require.NoError(b, err)
	}
	var sent []message.ID
	for first := 0; first < topicalMessages; first += 2500 {
		var records, rows []bson.D
		for n := first; n < first+2500; n++ {
			m := topicalMessage(zipf, random, begin.Add(time.Duration(n)*distance), n)
			sent = append(sent, m.ID)
			record := bson.D{
				{Key: "_id", Value: stored(m.ID)},
				{Key: "v", Value: int32(2)},
				{Key: "from", Value: m.From},
				{Key: "body", Value: m.Body},
				{Key: "lag", Value: int64(0)},
				{Key: "stored_at", Value: m.Sent()},
			}
			if w.ofTopics == nil {
				record = append(record, bson.E{Key: "topics", Value: m.Topics}, bson.E{Key: "within", Value: within(m)})
			}
			records, rows = append(records, record), append(rows, rowsOf(m)...)
		}
		_, err := w.raw.Collection("messages").InsertMany(b.Context(), records)
		require.NoError(b, err)
		if w.ofTopics != nil {
			_, err := w.ofTopics.InsertMany(b.Context(), rows)
			require.NoError(b, err)
		}
	}
	w.from = sent[len(sent)-topicalRead]
}

// within returns the topics of a message with their ancestors.
func within(m message.Message) (all []message.Topic) {
	for _, source := range m.Sources() {
		topic, _ := source.Topic()
		all = append(all, topic)
	}
	return all
}

// rowsOf returns the documents of a message. Their ids are the message's with a number, because one message has several.
func rowsOf(m message.Message) (rows []bson.D) {
	for n, topic := range within(m) {
		rows = append(rows, bson.D{
			{Key: "_id", Value: bson.Binary{Data: append(m.ID[:], byte(n))}},
			{Key: "topic", Value: topic},
			{Key: "message", Value: stored(m.ID)},
			{Key: "from", Value: m.From},
		})
	}
	return rows
}

// publish stores a message as a publisher does, after the documents of its topics.
func (w *topical) publish(b *testing.B, n int) {
	b.Helper()
	random := rand.New(rand.NewPCG(3, uint64(n)))
	m := topicalMessage(rand.NewZipf(random, 1.1, 10, topicalTopics-1), random, time.Now(), n)
	began := time.Now()
	if w.ofTopics != nil {
		_, err := w.ofTopics.InsertMany(b.Context(), rowsOf(m))
		require.NoError(b, err)
		m.Topics = nil
	}
	_, err := w.db.Messages().Insert(b.Context(), []message.Message{m}, messagetest.AnyTime)
	require.NoError(b, err)
	w.published = append(w.published, time.Since(began))
}

// read finds the messages of some topics since the beginning of the window, and reads them.
func (w *topical) read(b *testing.B) {
	b.Helper()
	var topics []message.Topic
	for n := range subscribedTo {
		topics = append(topics, leaf(n))
	}
	messages := w.raw.Collection("messages")
	began := time.Now()
	c, topic, id, hint := messages, "within", "_id", "within__id"
	if w.ofTopics != nil {
		c, topic, id, hint = w.ofTopics, "topic", "message", "topic_message"
	}
	filter := bson.D{
		{Key: topic, Value: bson.D{{Key: "$in", Value: topics}}}, {Key: id, Value: bson.D{{Key: "$gte", Value: stored(w.from)}}},
	}
	cursor, err := c.Find(b.Context(), filter, options.Find().SetHint(hint).SetProjection(bson.D{{Key: id, Value: 1}, {Key: "from", Value: 1}}))
	require.NoError(b, err)
	var found []bson.Raw
	require.NoError(b, cursor.All(b.Context(), &found))
	var ids, authors bson.A
	for _, r := range found {
		ids, authors = append(ids, r.Lookup(id)), append(authors, r.Lookup("from"))
	}
	filter = bson.D{{Key: "from", Value: bson.D{{Key: "$in", Value: authors}}}, {Key: "_id", Value: bson.D{{Key: "$in", Value: ids}}}}
	cursor, err = messages.Find(b.Context(), filter)
	require.NoError(b, err)
	var read []bson.Raw
	require.NoError(b, cursor.All(b.Context(), &read))
	w.looked = append(w.looked, time.Since(began))
	require.Len(b, read, len(found))
	w.found = len(found)
}

// count counts all messages of the topics, as the recount of a gap does.
func (w *topical) count(b *testing.B) {
	b.Helper()
	var ranges []message.Range
	for n := range subscribedTo {
		ranges = append(ranges, message.Range{From: leaf(n).Source(), Before: message.MaxID})
	}
	began := time.Now()
	counted, err := w.db.Messages().CountToFollowers(b.Context(), ranges)
	require.NoError(b, err)
	b.ReportMetric(float64(time.Since(began).Microseconds())/1000, w.name+"-count-ms")
	b.ReportMetric(float64(counted), w.name+"-counted")
}

// report reports the times, and the bytes of data and indexes, of the collections that the way uses.
func (w *topical) report(b *testing.B) {
	b.Helper()
	for name, took := range map[string][]time.Duration{"publish": w.published, "read": w.looked} {
		slices.Sort(took)
		b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, w.name+"-"+name+"-p50-ms")
		b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, w.name+"-"+name+"-p99-ms")
	}
	var data, index float64
	for _, name := range []string{"messages", "topical"} {
		if name == "topical" && w.ofTopics == nil {
			continue
		}
		var stats struct {
			Size    float64 `bson:"size"`
			Indexes float64 `bson:"totalIndexSize"`
		}
		require.NoError(b, w.raw.RunCommand(b.Context(), bson.D{{Key: "collStats", Value: name}}).Decode(&stats))
		data, index = data+stats.Size, index+stats.Indexes
	}
	b.ReportMetric(data/topicalMessages, w.name+"-data-B/message")
	b.ReportMetric(index/topicalMessages, w.name+"-index-B/message")
}
