package mongostore

import (
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// schema is a collection with what it is sharded and searched by.
type schema struct {
	name string
	// key is the shard key; nil where the collection stays on one shard.
	key bson.D
	// unique tells that there is one document for each value of the shard key.
	unique  bool
	indexes []index
}

// index is an index of a collection. A collection has one for its shard key where that is not hashed.
type index struct {
	keys   bson.D
	unique bool
	// partial is which documents are in it; nil is all of them.
	partial bson.D
	// expires tells that the server removes documents some time after the time in the key has passed.
	expires bool
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
	// byFrom begins with the shard key, and holds all that searching and counting need, which then read no message.
	byFrom = index{keys: ascending(fieldFrom, fieldID, fieldAudience, fieldLag)}
	// byTo holds each message once for every user that it names.
	byTo = index{keys: ascending(fieldTo, fieldID), partial: bson.D{{Key: fieldTo, Value: exists}}}
	// byUnfinished is as small as what is under way.
	byUnfinished = index{keys: ascending(fieldUnfinished, fieldID), partial: bson.D{{Key: fieldUnfinished, Value: true}}}
)

// schemas are the collections of a database.
func schemas() []schema {
	return []schema{
		{
			// An author's messages lie side by side, and split where there are many.
			name: messagesName, key: ascending(fieldFrom, fieldID),
			indexes: []index{byFrom, byTo, byUnfinished},
		},
		{
			// Users are looked up by id, hundreds at a time: any spread will do, and hashing gives the evenest.
			name: usersName, key: hashedID,
			indexes: []index{
				{keys: ascending(fieldPartition, fieldID)},
				{keys: ascending(fieldDue), partial: bson.D{{Key: fieldDue, Value: exists}}},
			},
		},
		inboxSchema(),
		{
			// A partition of an author's followers is one range, in the order in which fan-out goes through it.
			name: followersName, key: ascending(fieldFollowee, fieldPartition, fieldFollower), unique: true,
			indexes: []index{{keys: ascending(fieldFollowee, fieldPartition, fieldFollower), unique: true}},
		},
		{
			name: followingName, key: ascending(fieldFollower, fieldFollowee), unique: true,
			indexes: []index{{keys: ascending(fieldFollower, fieldFollowee), unique: true}},
		},
		// Message ids ascend with time: ranges of them would send all that is going on to one shard.
		{name: fanoutsName, key: hashedID},
		{name: keysName, key: hashedID, indexes: []index{{keys: ascending(fieldExpires), expires: true}}},
		{name: metaName},
	}
}

var exists = bson.D{{Key: "$exists", Value: true}}

// model returns the index as the driver creates it.
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

// name returns the name of the index, by which it is known to be there.
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
