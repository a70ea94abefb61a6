package cli

import (
	"fmt"
	"strings"

	"github.com/fanmail/fanmail/pkg/follow"
	"github.com/fanmail/fanmail/pkg/message"
)

// pairHeader is a first line that names the columns of edges.
const pairHeader = "follower\tfollowee"

// parsePair parses an edge: a follower, a tab, a followee.
func parsePair(text []byte) (follow.Pair, error) {
	columns := strings.Split(string(text), "\t")
	if len(columns) != 2 {
		return follow.Pair{}, fmt.Errorf("has %s: expected follower, tab, followee", plural(len(columns), "column", "columns"))
	}
	followee := message.UserID(columns[1])
	pair := follow.Pair{Follower: message.UserID(columns[0]), Followee: followee.Source()}
	if err := followee.Validate("followee"); err != nil {
		return pair, err
	}
	return pair, pair.Validate()
}
