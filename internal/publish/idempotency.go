package publish

import (
	"cmp"
	"context"
	"errors"
	"mime"
	"slices"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/sync/errgroup"

	"github.com/fanmail/fanmail/internal/panics"
	"github.com/fanmail/fanmail/pkg/message"
)

// maxKeyBytes bounds an idempotency key. UUIDs and hashes fit.
const maxKeyBytes = 255

// reserveConcurrency is how many keys one call reserves at the same time. Concurrent reservations share commits of the store.
const reserveConcurrency = 64

// reservation returns the text under which the request's key is reserved: the number of the line, # and the key. A single request has no number,
// so no key of a client is that of a line of a batch with another key.
func (r Request) reservation() string {
	line := ""
	if r.Line > 0 {
		line = strconv.Itoa(r.Line)
	}
	return line + "#" + r.Key
}

// digest returns the digest of a request for m. It is the same for all spellings of a request. Large integers that a float64 cannot hold stay
// apart. Attributes without one meaning, such as a name that is there twice, count as they are spelled.
func digest(m message.Message, identities []string) message.Digest {
	attrs := jsontext.Value(slices.Clone(m.Attrs))
	if attrs.Canonicalize(jsontext.CanonicalizeRawInts(false)) == nil {
		m.Attrs = []byte(attrs)
	}
	if string(m.Attrs) == "{}" {
		m.Attrs = nil
	}
	if media, parameters, err := mime.ParseMediaType(m.ContentType); err == nil {
		m.ContentType = cmp.Or(mime.FormatMediaType(media, parameters), m.ContentType)
	}
	return m.DigestTo(identities)
}

// reserveAll reserves the idempotency keys of attempts. It returns the attempts without an error, which the caller then stores.
func (s *Service) reserveAll(ctx context.Context, attempts []*attempt) []*attempt {
	var group errgroup.Group
	group.SetLimit(reserveConcurrency)
	for _, a := range attempts {
		if a.request.Key != "" {
			group.Go(func() error {
				a.result.Err = panics.Do(func() error { return s.reserve(ctx, a) })
				return nil
			})
		}
	}
	_ = group.Wait() // each result has its own error
	return slices.DeleteFunc(attempts, func(a *attempt) bool { return a.result.Err != nil })
}

// reserve gives a message the id that is reserved for its idempotency key. An earlier request may have stored the message under that id.
// Inserting it again changes nothing, and returns the stored time, which decides whether the message counts or is void. The decision
// uses no local clock, so all requests with the key agree.
func (s *Service) reserve(ctx context.Context, a *attempt) error {
	if len(a.request.Key) > maxKeyBytes {
		return &message.InvalidError{Field: "Idempotency-Key", Reason: "is longer than 255 bytes: use a shorter one, such as a UUID"}
	}
	now := s.opts.Now()
	m := &a.result.Message
	wanted := message.Key{From: m.From, Key: a.request.reservation(), ID: m.ID, Digest: a.digest, Expires: now.Add(s.opts.KeyTTL())}
	var err error
	if a.key, err = s.hold(ctx, wanted, now); err != nil {
		return err
	}
	a.repeated = a.key.ID != m.ID
	m.ID = a.key.ID
	return nil
}

// hold reserves a key, or returns the reservation of an earlier request. It returns message.ErrKeyReused if that request had another
// message: its id must never become the id of this one.
func (s *Service) hold(ctx context.Context, wanted message.Key, now time.Time) (message.Key, error) {
	held, err := s.keys.Reserve(ctx, wanted, now)
	if err == nil && held.Digest != wanted.Digest {
		err = message.ErrKeyReused
	}
	return held, err
}

// rekey reserves a new id for the attempt's key, or adopts the id that another request has reserved meanwhile.
func (s *Service) rekey(ctx context.Context, a *attempt, id message.ID) error {
	switch err := s.keys.Replace(ctx, a.key, id); {
	case errors.Is(err, message.ErrKeyChanged):
		held, err := s.hold(ctx, a.key, s.opts.Now())
		if err != nil {
			return err
		}
		a.key = held
	case err != nil:
		return err
	default:
		a.key.ID = id
	}
	a.result.Message.ID = a.key.ID
	return nil
}
