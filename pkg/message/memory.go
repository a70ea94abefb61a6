package message

const (
	// MaxRecipients is the greatest number of user ids in To of a new message. Larger audiences are followers.
	MaxRecipients = 10_000
	// MaxTextBytes is the greatest length of body and attributes together. So an entry has at most 136 KiB, of which 9 KiB are left
	// to its ids, names, topics and its content type. The 64 entries of the largest bucket fit into a MongoDB document of 16 MiB.
	MaxTextBytes = 127 << 10

	// memoryOverhead is about the memory of a message besides its texts, with its places in the maps that hold it.
	memoryOverhead = 512
	// stringBytes is the memory of a string besides its bytes.
	stringBytes = 16
	// MaxMemory is the greatest Memory of a message with at most MaxRecipients and MaxTextBytes.
	MaxMemory = memoryOverhead + 2*MaxUserIDBytes + maxContentTypeBytes + MaxTextBytes + MaxRecipients*(stringBytes+MaxUserIDBytes) +
		MaxTopics*(stringBytes+MaxTopicSegments*(MaxSegmentBytes+1))
)

// Memory returns about how many bytes of memory the message takes.
func (m Message) Memory() int {
	n := memoryOverhead + len(m.From) + len(m.Body) + len(m.ContentType) + len(m.Attrs) + UsersMemory(m.To)
	for _, t := range m.Topics {
		n += stringBytes + len(t)
	}
	return n
}

// UsersMemory returns how many bytes of memory a list of user ids takes.
func UsersMemory(users []UserID) int {
	n := stringBytes * cap(users)
	for _, user := range users {
		n += (len(user) + 15) &^ 15 // memory is allocated in steps of up to 16 bytes
	}
	return n
}
