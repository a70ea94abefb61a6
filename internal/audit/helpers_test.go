package audit_test

import (
	"strings"

	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/message"
)

// replaceID returns a text with an id in place of ID.
func replaceID(text string, id message.ID) string { return strings.ReplaceAll(text, "ID", id.String()) }

// replaceIDs returns a text with an id in place of ID, and that of the last but one in the first bucket in place of BELOW.
func replaceIDs(text string, id message.ID, all []message.Message) string {
	return strings.ReplaceAll(replaceID(text, id), "BELOW", all[bucket.Capacity-2].ID.String())
}
