package mongostore

import (
	"context"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// replaceRevised replaces a document that has the given revision by one with another revision. At revision 0 there is no document, and
// replaceRevised inserts it. It returns the error changed if the stored document has another revision.
func (c collection) replaceRevised(ctx context.Context, what, id string, revision int64, document any, changed error) error {
	return c.call(ctx, what, func(ctx context.Context) error {
		if revision == 0 {
			_, err := c.InsertOne(ctx, document)
			if duplicate(err) {
				return changed
			}
			return err
		}
		result, err := c.ReplaceOne(ctx, bson.D{{Key: fieldID, Value: id}, {Key: fieldRevision, Value: revision}}, document)
		if err == nil && result.MatchedCount == 0 {
			return changed
		}
		return err
	})
}
