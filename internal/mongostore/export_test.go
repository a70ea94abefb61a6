package mongostore

import "go.mongodb.org/mongo-driver/v2/bson"

// ShardKeys returns the shard key of each collection that has one.
func ShardKeys() map[string]bson.D {
	keys := make(map[string]bson.D)
	for _, s := range schemas() {
		if s.key != nil {
			keys[s.name] = s.key
		}
	}
	return keys
}

// ShardCommands returns the commands that shard the collections of a database.
func ShardCommands(database string) []bson.D { return shardCommands(database) }

// Sharded reports whether the server is the router of a sharded cluster.
func (db *DB) Sharded() bool { return db.server.sharded() }

// Permanent reports whether repeating what failed cannot help.
func Permanent(err error) bool { return permanent(err) }
