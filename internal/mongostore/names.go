package mongostore

// The collections. Their shard keys and indexes are in schema.go.
const (
	messagesName  = "messages"
	usersName     = "users"
	inboxName     = "inbox"
	followersName = "followers"
	followingName = "following"
	fanoutsName   = "fanouts"
	keysName      = "publish_keys"
	topicsName    = "topics"
	flagsName     = "flags"
	metaName      = "meta"

	identitiesName = "identities"
	listsName      = "user_identities"
)

// indexOfIDs is the name of the index that every collection has.
const indexOfIDs = "_id_"

// The fields by which documents are found and updated. The rest of a document is in the record type of its collection.
const (
	fieldID      = "_id"
	fieldVersion = "v" // format version of the document

	// Of messages.
	fieldFrom       = "from"
	fieldTo         = "to"
	fieldAudience   = "audience"
	fieldWithin     = "within"
	fieldLag        = "lag"        // 0 if the message is valid, voidLag if it is void
	fieldStoredAt   = "stored_at"  // by the server's clock
	fieldUnfinished = "unfinished" // true until the message is delivered, then removed
	fieldEnding     = "ending"     // how the fan-out ended
	fieldBlocked    = "blocked"

	// Of inbox.
	fieldOwner    = "owner"
	fieldSequence = "sequence"

	// Of followers, following.
	fieldFollowee  = "followee"
	fieldPartition = "partition" // of the follower; in users, of the user
	fieldFollower  = "follower"
	fieldSpans     = "spans"
	fieldRevision  = "revision"
	fieldPending   = "pending" // following may not have the same spans yet

	// Of users.
	fieldLastViewed = "last_viewed"
	fieldKeep       = "keep"
	fieldHorizon    = "horizon"
	fieldHead       = "head"
	fieldReadMark   = "read_mark"
	fieldUpTo       = "up_to"
	fieldMark       = "mark"
	fieldSweep      = "sweep"
	fieldLease      = "lease"
	fieldGaps       = "gaps"
	fieldRecovered  = "recovered"
	fieldPurged     = "purged"
	fieldFlagged    = "flagged"
	fieldMarks      = "marks"
	fieldGapsMade   = "gaps_made"
	fieldDue        = "due"  // when the lease of a rehydration ends
	fieldStep       = "step" // token of the last change

	// Of flags.
	fieldFlags = "flags"

	// Of fanouts.
	fieldMoved = "moved"
	fieldScans = "partitions"

	// Of meta.
	fieldRecorded     = "settings"
	fieldDeclared     = "declared"
	fieldLastDeclared = "last_declared"
	fieldCounters     = "counters"
	fieldSeen         = "seen" // when, by the server's clock; in users, how many slots

	// Of identities and topics.
	fieldNumber  = "number"
	fieldInForce = "in_force"
	fieldGone    = "gone" // when it was removed

	// Of topics.
	fieldRoot    = "root"   // the first segment
	fieldParent  = "parent" // number of the topic above
	fieldRemoval = "mark"   // token of a deletion

	// Of publish_keys.
	fieldMessage = "message_id"
	fieldDigest  = "digest"
	fieldExpires = "expires"
)
