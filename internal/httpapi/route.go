package httpapi

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fanmail/fanmail/pkg/client"
	"github.com/fanmail/fanmail/pkg/message"
)

// endpoint is one method of one path.
type endpoint struct {
	// handle answers the request. If it returns an error, it has written nothing.
	handle func(*response, *http.Request) error
	// access is the required permission; the zero value admits only operators.
	access access
	// query lists the allowed query parameters, each at most once, except those of repeated.
	query, repeated []string
	// body means that the endpoint reads a JSON body.
	body bool
	// adds means that the endpoint stores messages, edges or identities. It is refused while the disk is nearly full.
	adds bool
	// memory is the most that a request takes, in bytes; zero if that is little.
	memory int64
}

// methods are the endpoints of one path by method. The patterns of http.ServeMux do not name methods, for two reasons. ServeMux
// would answer a wrong method in plain text. It would also see a conflict between /inbox/read and /inbox/{id}, which have different
// methods.
type methods map[string]endpoint

func (s *server) route(pattern string, m methods) {
	s.routed[pattern] = m
	s.measured.add(pattern, slices.Collect(maps.Keys(m))...)
	s.mux.Handle(pattern, s.serve(m))
}

// serve returns the handler of a path with these methods. Without methods, the handler answers that the path does not exist.
func (s *server) serve(m methods) http.Handler {
	allowed := slices.Sorted(maps.Keys(m))
	if _, ok := m[http.MethodGet]; ok {
		allowed = append(allowed, http.MethodHead)
	}
	allow := strings.Join(allowed, ", ")
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w := rw.(*response) // ServeHTTP passes only *response to the mux
		method := r.Method
		if method == http.MethodHead {
			method = http.MethodGet
		}
		e, ok := m[method]
		switch {
		case ok:
			err := s.admit(w, r, e.access)
			if err == nil && e.adds && s.full() {
				s.measured.noRoom.Inc()
				err = refuse(client.ProblemBusy, "", "the server's disk is nearly full, and it accepted nothing of this request: try again after Retry-After")
			}
			if err == nil && e.adds && e.access.own {
				err = s.mayAdd(w, "user", message.UserID(r.PathValue("user")))
			}
			release := func() {}
			if err == nil {
				release, err = s.reserve(w, r, e)
			}
			if err == nil {
				defer release()
				err = e.run(w, r)
			}
			if err != nil {
				s.fail(w, err)
			}
		case m == nil:
			s.fail(w, errNoPath)
		default:
			w.Header().Set("Allow", allow)
			s.fail(w, refuse(client.ProblemMethod, "", "%s is not among the methods of this path: use %s", shorten(r.Method), allow))
		}
	})
}

// full reports whether the store has no room for more data.
func (s *server) full() bool { return s.Room != nil && s.Room() != nil }

// consolePath is what the paths of the console begin with.
const consolePath = "/console/"

// console returns the handler of the console's pages. They have no access of their own: they ask this server with the token of their visitor.
func (s *server) console(pages http.Handler) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w := rw.(*response) //nolint:forcetypeassert // ServeHTTP passes only *response to the mux
		if err := s.forThisHost(r); err != nil {
			s.fail(w, err)
			return
		}
		if strings.Contains(r.Header.Get("Accept"), "text/event-stream") {
			w.opened()
		}
		pages.ServeHTTP(w, r.WithContext(r.Context())) // a copy, whose pattern the pages may change
	})
}

var errNoPath = refuse(client.ProblemNotFound, "", "there is nothing at this path: check its spelling, "+
	"and write a user id as one percent-encoded segment")

// clean reports whether http.ServeMux serves a path unchanged. ServeMux redirects a path with empty or dot segments to the path
// without them, which may belong to another user.
func clean(escaped string) bool {
	cleaned := path.Clean(escaped)
	return strings.HasPrefix(escaped, "/") && (cleaned == escaped || cleaned+"/" == escaped && cleaned != "/")
}

func (e endpoint) run(w *response, r *http.Request) error {
	if r.URL.RawQuery != "" {
		if err := checkQuery(r.URL.RawQuery, e.query, e.repeated); err != nil {
			return err
		}
	}
	if e.body {
		if err := checkContent(r.Header); err != nil {
			return err
		}
	}
	return e.handle(w, r)
}

func checkQuery(raw string, known, repeated []string) error {
	query, err := url.ParseQuery(raw)
	if err != nil {
		return refuse(client.ProblemMalformed, "", "the query cannot be read: separate parameters by & and percent-encode their values")
	}
	for _, name := range slices.Sorted(maps.Keys(query)) {
		switch {
		case len(known) == 0:
			return refuse(client.ProblemInvalid, shorten(name), "the query parameter %q is unknown: this path takes none", shorten(name))
		case !slices.Contains(known, name):
			return refuse(client.ProblemInvalid, shorten(name), "the query parameter %q is unknown: this path takes %s",
				shorten(name), strings.Join(known, ", "))
		case len(query[name]) > 1 && !slices.Contains(repeated, name):
			return refuse(client.ProblemInvalid, name, "the query parameter %q is there %d times: give it once", name, len(query[name]))
		}
	}
	return nil
}

// shorten cuts a client's text to 64 bytes, so that an error can quote it.
func shorten(s string) string {
	const most = 64
	if len(s) > most {
		return s[:most] + "…"
	}
	return s
}

// pathUser returns the user in the path.
func pathUser(r *http.Request) (message.UserID, error) {
	user := message.UserID(r.PathValue("user"))
	return user, user.Validate("user")
}

// forUser returns the handler of an endpoint below the user in the path.
func forUser(handle func(*response, *http.Request, message.UserID) error) func(*response, *http.Request) error {
	return given(pathUser, handle)
}

// given returns the handler of an endpoint that first reads what the path names.
func given[T any](read func(*http.Request) (T, error), handle func(*response, *http.Request, T) error) func(*response, *http.Request) error {
	return func(w *response, r *http.Request) error {
		named, err := read(r)
		if err != nil {
			return err
		}
		return handle(w, r, named)
	}
}

// pageSize returns the number of items that the request wants on a page.
func (s *server) pageSize(query url.Values) (int, error) {
	const usual = 50
	if !query.Has("limit") {
		return min(usual, s.opts.PageMax), nil
	}
	text := query.Get("limit")
	limit, err := strconv.Atoi(text)
	if err != nil || limit < 1 || limit > s.opts.PageMax {
		return 0, &message.InvalidError{
			Field:  "limit",
			Reason: fmt.Sprintf("is %q: give a whole number from 1 to %d", shorten(text), s.opts.PageMax),
		}
	}
	return limit, nil
}

// queryTime returns the time in a query parameter, or the zero time if the parameter is missing.
func queryTime(query url.Values, name string) (time.Time, error) {
	if !query.Has(name) {
		return time.Time{}, nil
	}
	t, err := parseTime(name, query.Get(name))
	if err == nil && t.Before(time.UnixMilli(0)) {
		err = &message.InvalidError{Field: name, Reason: "is before 1970: leave it out for no bound"}
	}
	return t, err
}

// queryFlag reports whether a query parameter is true. A missing parameter is false.
func queryFlag(query url.Values, name string) (bool, error) {
	text := query.Get(name)
	if query.Has(name) && text != "true" && text != "false" {
		return false, &message.InvalidError{Field: name, Reason: "is neither true nor false"}
	}
	return text == "true", nil
}
