package mongostore

import (
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// schema is a collection with its shard key and its indexes.
type schema struct {
	name string
	// key is the shard key; nil if the collection stays on one shard.
	key bson.D
	// unique is true if each value of the shard key has at most one document.
	unique  bool
	indexes []index
}

// index is an index of a collection. A collection has one for its shard key, unless the shard key is hashed.
type index struct {
	keys   bson.D
	unique bool
	// partial is the filter of the documents in the index; nil is all documents.
	partial bson.D
	// expires is true if the server removes documents some time after the time in the key.
	expires bool
}

// keyIndexed reports whether an index of the collection begins with its shard key.
func (s schema) keyIndexed() bool {
	return slices.ContainsFunc(s.indexes, func(x index) bool {
		return len(x.keys) >= len(s.key) && slices.Equal(x.keys[:len(s.key)], s.key)
	})
}

func ascending(fields ...string) bson.D {
	keys := make(bson.D, len(fields))
	for i, field := range fields {
		keys[i] = bson.E{Key: field, Value: 1}
	}
	return keys
}

var hashedID = bson.D{{Key: fieldID, Value: "hashed"}}

var (
	// byFrom begins with the shard key. It holds every field that searching and counting need, so they read no message.
	byFrom = index{keys: ascending(fieldFrom, fieldID, fieldAudience, fieldLag)}
	// byTo holds each message once for every user that the message names.
	byTo = index{keys: ascending(fieldTo, fieldID), partial: bson.D{{Key: fieldTo, Value: exists}}}
	// byTopic holds each message once for every topic that it is sent to, and for each of their ancestors.
	byTopic = index{keys: ascending(fieldWithin, fieldID), partial: bson.D{{Key: fieldWithin, Value: exists}}}
	// byUnfinished holds only the messages that are not delivered yet.
	byUnfinished = index{keys: ascending(fieldUnfinished, fieldID), partial: bson.D{{Key: fieldUnfinished, Value: true}}}
	// byGone removes what is left of removed records.
	byGone = index{keys: ascending(fieldGone), partial: bson.D{{Key: fieldGone, Value: exists}}, expires: true}
	// byPending holds only the edges whose change is not in both collections yet, in followers. It is nearly always empty.
	byPending = index{keys: ascending(fieldFollower, fieldFollowee), partial: bson.D{{Key: fieldPending, Value: true}}}
)

// schemas are the collections of a database.
func schemas() []schema {
	return []schema{
		{
			// The messages of an author lie side by side. A prolific author can be split across shards.
			name: messagesName, key: ascending(fieldFrom, fieldID),
			indexes: []index{byFrom, byTo, byTopic, byUnfinished},
		},
		{
			// Users are looked up by id, hundreds at a time. Hashing spreads them most evenly.
			name: usersName, key: hashedID,
			indexes: []index{
				{keys: ascending(fieldPartition, fieldID)},
				{keys: ascending(fieldDue), partial: bson.D{{Key: fieldDue, Value: exists}}},
			},
		},
		inboxSchema(),
		{
			// A partition of an author's followers is one range, in the order in which fan-out reads it.
			name: followersName, key: ascending(fieldFollowee, fieldPartition, fieldFollower), unique: true,
			indexes: []index{{keys: ascending(fieldFollowee, fieldPartition, fieldFollower), unique: true}, byPending},
		},
		{
			name: followingName, key: ascending(fieldFollower, fieldFollowee), unique: true,
			indexes: []index{{keys: ascending(fieldFollower, fieldFollowee), unique: true}},
		},
		// Message ids ascend with time. Ranges of them would send all current writes to one shard.
		{name: fanoutsName, key: hashedID},
		{name: keysName, key: hashedID, indexes: []index{{keys: ascending(fieldExpires), expires: true}}},
		// Identities are looked up by id, a thousand at a time, and so are the lists of users, and flags.
		{name: identitiesName, key: hashedID, indexes: []index{byGone}},
		{name: listsName, key: hashedID},
		{name: flagsName, key: hashedID},
		{
			// A topic and those below it lie side by side. The id alone is unique in each shard, and says in which shard it is.
			name: topicsName, key: ascending(fieldRoot, fieldID),
			indexes: []index{byGone},
		},
		{name: metaName},
	}
}

var exists = bson.D{{Key: "$exists", Value: true}}

// model returns the index in the form that the driver needs.
func (x index) model(opts Options) mongo.IndexModel {
	o := options.Index().SetName(x.name())
	if x.unique {
		o.SetUnique(true)
	}
	if x.partial != nil {
		o.SetPartialFilterExpression(x.partial)
	}
	if x.expires {
		o.SetExpireAfterSeconds(int32(opts.KeyGrace.Seconds()))
	}
	return mongo.IndexModel{Keys: x.keys, Options: o}
}

// name returns the name of the index, which Check looks for.
func (x index) name() string {
	name := ""
	for _, key := range x.keys {
		if name != "" {
			name += "_"
		}
		name += key.Key
	}
	return name
}

// shardCommands returns the commands that shard the collections of a database.
func shardCommands(database string) []bson.D {
	commands := []bson.D{{{Key: "enableSharding", Value: database}}}
	for _, s := range schemas() {
		if s.key != nil {
			commands = append(commands, bson.D{
				{Key: "shardCollection", Value: database + "." + s.name},
				{Key: "key", Value: s.key},
				{Key: "unique", Value: s.unique},
			})
		}
	}
	return commands
}
