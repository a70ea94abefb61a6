package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/fanmail/fanmail/pkg/client"
	"github.com/fanmail/fanmail/pkg/follow"
	"github.com/fanmail/fanmail/pkg/message"
)

// smallBytes is the maximum length of a JSON object with one or two user ids, or a time.
const smallBytes = 4 << 10

// pathPair returns what reads a pair from two segments of a path, given by their names.
func pathPair(follower, followee string) func(*http.Request) (follow.Pair, error) {
	return func(r *http.Request) (follow.Pair, error) {
		return authorPair(client.Edge{Follower: message.UserID(r.PathValue(follower)), Followee: message.UserID(r.PathValue(followee))})
	}
}

// authorPair returns the pair of a follower and an author. Without the first check, a followee with byte 01 would be a topic.
func authorPair(e client.Edge) (follow.Pair, error) {
	pair := follow.Pair{Follower: e.Follower, Followee: e.Followee.Source()}
	if err := e.Follower.Validate("follower"); err != nil {
		return pair, err
	}
	if err := e.Followee.Validate("followee"); err != nil {
		return pair, err
	}
	return pair, pair.Validate()
}

func (s *server) follow(w *response, r *http.Request, pair follow.Pair) error {
	if err := s.Following.Follow(r.Context(), []follow.Pair{pair}); err != nil {
		return err
	}
	return done(w, s.Following.Seen(r.Context(), pair.Follower))
}

func (s *server) unfollow(w *response, r *http.Request, pair follow.Pair) error {
	return done(w, s.Following.Unfollow(r.Context(), pair))
}

func (s *server) block(w *response, r *http.Request, pair follow.Pair) error {
	return done(w, s.Following.Block(r.Context(), pair))
}

func (s *server) unblock(w *response, r *http.Request, pair follow.Pair) error {
	return done(w, s.Following.Unblock(r.Context(), pair))
}

func (s *server) followBatch(w *response, r *http.Request) error {
	decode := func(edge client.Edge) (follow.Pair, error) {
		pair, err := authorPair(edge)
		if err != nil {
			return pair, err
		}
		return pair, s.mayAdd(w, "follower", pair.Follower)
	}
	return handleBatch(s, w, r, decode, func(pairs []follow.Pair) ([]error, error) {
		errs, err := make([]error, len(pairs)), s.Following.Follow(r.Context(), pairs)
		refused, ok := errors.AsType[follow.RefusedError](err)
		if !ok {
			return errs, err
		}
		for i, p := range pairs {
			errs[i] = refused[p]
		}
		return errs, nil
	})
}

// handleBatch answers a batch whose lines are accepted or rejected. decode returns the value of a line. do handles the values of a chunk, and
// returns one error (or nil) per value, in their order.
func handleBatch[L, T any](s *server, w *response, r *http.Request, decode func(L) (T, error), do func([]T) ([]error, error)) error {
	b := s.newBatch(w, r, smallBytes)
	defer b.close()
	result := client.BatchResult{Rejected: []client.Rejection{}}
	read := func(text []byte) (value T, err error) {
		var line L
		if err := decodeObject(text, &line, "the line"); err != nil {
			return value, err
		}
		return decode(line)
	}
	err := eachChunk(b, false, read, func(items []item[T]) error {
		values := make([]T, 0, len(items))
		for _, i := range items {
			if i.err == nil {
				values = append(values, i.value)
			}
		}
		errs, err := do(values)
		if err != nil {
			p := *problemOf(err)
			p.Line = items[0].line
			p.Detail += "; the lines before this one were handled, and the batch can be sent again"
			return fmt.Errorf("%w: %w", &p, err)
		}
		for _, i := range items {
			if i.err == nil {
				i.err, errs = errs[0], errs[1:]
			}
			if i.err == nil {
				result.Accepted++
				continue
			}
			result.Rejected = append(result.Rejected, client.Rejection{Line: i.line, Error: s.problem(w, i.err).Detail})
		}
		return nil
	})
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, client.ContentJSON, result)
}

func (s *server) followers(w *response, r *http.Request, user message.UserID) error {
	return listPage(s, w, r, user.Source(), s.Following.Followers, userPage)
}

func (s *server) following(w *response, r *http.Request, user message.UserID) error {
	return listPage(s, w, r, user, s.Following.Following, userPage)
}

func (s *server) blocked(w *response, r *http.Request, user message.UserID) error {
	return listPage(s, w, r, user, s.Following.Blocked, userPage)
}

func userPage(users []message.UserID, next client.Cursor) client.UserPage {
	return client.UserPage{Users: users, Next: next}
}

// listPage answers with the page of a list that begins after the item in the query, in the form that page gives it.
func listPage[T any, I interface {
	~string
	Validate(field string) error
}, P any](
	s *server, w *response, r *http.Request, of T,
	list func(ctx context.Context, of T, after I, limit int) ([]I, I, error), page func([]I, client.Cursor) P,
) error {
	query := r.URL.Query()
	limit, err := s.pageSize(query)
	if err != nil {
		return err
	}
	after := I(query.Get("after"))
	if query.Has("after") {
		if err := after.Validate("after"); err != nil {
			return err
		}
	}
	items, next, err := list(r.Context(), of, after, limit)
	if err != nil {
		return err
	}
	if items == nil {
		items = []I{}
	}
	return writeJSON(w, http.StatusOK, client.ContentJSON, page(items, client.Cursor(next)))
}
