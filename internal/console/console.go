// Package console serves the pages on which operators look at a deployment.
//
// It has no data of its own: it reads everything from the API, whose handler it calls in this process with the token of the visitor. So the access, the
// limits and the errors are those of the API. The console only shows them, and works without JavaScript but for what moves.
package console

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/fanmail/fanmail/pkg/client"
	"github.com/fanmail/fanmail/pkg/message"
)

// Prefix is what all paths of the console begin with.
const Prefix = "/console/"

const (
	// askWithin is how long one question to the API may take. The panel that asked shows the error.
	askWithin = 3 * time.Second
	// mostRows is how long a list gets.
	mostRows = 200
	// maxForm is the size of a request's body, in bytes.
	maxForm = 64 << 10
)

// Options configures the console.
type Options struct {
	// Login makes visitors log in with a token: the API authenticates clients.
	Login bool
	// Ending is closed when the process stops, so that open pages do not hold it.
	Ending <-chan struct{}
	// Now is the clock. It is required.
	Now    func() time.Time
	Logger zerolog.Logger
}

// server is the handler.
type server struct {
	api     http.Handler
	opts    Options
	mux     *http.ServeMux
	sites   *http.CrossOriginProtection
	history history
	// followers counts the open pages that are kept current.
	followers atomic.Int64
}

//go:embed assets
var assets embed.FS

// New returns the handler of all paths below Prefix.
func New(api http.Handler, opts Options) http.Handler {
	s := &server{api: api, opts: opts, mux: http.NewServeMux(), sites: http.NewCrossOriginProtection()}
	files, err := fs.Sub(assets, "assets")
	if err != nil {
		panic(err) // the folder is embedded
	}
	s.mux.Handle("GET /console/assets/", http.StripPrefix("/console/assets/", asset(http.FileServerFS(files))))
	s.mux.HandleFunc("GET /console/login", s.loginForm)
	s.mux.HandleFunc("POST /console/login", s.login)
	s.mux.HandleFunc("POST /console/logout", s.logout)
	s.mux.HandleFunc("POST /console/dead-letters", s.settle)
	for pattern, build := range map[string]func(*http.Request) page{
		"/console/{$}":                  s.overviewPage,
		"/console/messages":             messagesPage,
		"/console/messages/{id}":        messagePage,
		"/console/why":                  whyPage,
		"/console/users/{user}/inbox":   inboxPage,
		"/console/dead-letters":         lettersPage,
		"/console/dead-letters/confirm": confirmPage,
		"/console/dormancy":             dormancyPage,
	} {
		s.mux.HandleFunc("GET "+pattern, func(w http.ResponseWriter, r *http.Request) { s.serve(w, r, build) }) //nolint:contextcheck // the request has it
	}
	s.mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		refuse(w, http.StatusNotFound, "There is nothing at this path.")
	})
	return s
}

// asset lets a browser keep a file, and ask whether it is still the same. The release is its ETag.
func asset(files http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-cache")
		w.Header().Set("ETag", `"`+digest()+`"`)
		files.ServeHTTP(w, r)
	})
}

// ServeHTTP implements http.Handler.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-store")
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		// Every browser says where a form comes from. A request that does not say it is refused, too.
		if r.Header.Get("Origin") == "" && r.Header.Get("Sec-Fetch-Site") == "" || s.sites.Check(r) != nil {
			refuse(w, http.StatusForbidden, "The request does not come from a page of this console.")
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	}
	s.mux.ServeHTTP(w, r)
}

func refuse(w http.ResponseWriter, status int, text string) { http.Error(w, text, status) }

// page is what one path shows.
type page struct {
	title  string
	panels []panel
	// live says that the page is kept current while it is open.
	live bool
}

// panel is a part of a page. It fails alone.
type panel struct {
	// name is that of its template, and its id on the page.
	name, heading string
	// still says that the panel has a form, which must not change under the hands of its visitor.
	still bool
	// load returns the data of the template.
	load func(context.Context, *client.Client) (any, error)
}

// shown is a panel that was loaded.
type shown struct {
	Name, Heading string
	Body          string
	err           error
}

// show loads the panels of a page side by side.
func (s *server) show(r *http.Request, p page, token string) []shown {
	c := s.client(r, token)
	all := make([]shown, len(p.panels))
	var group sync.WaitGroup
	for i, one := range p.panels {
		group.Go(func() {
			ctx, cancel := context.WithTimeout(r.Context(), askWithin)
			defer cancel()
			all[i] = s.panel(ctx, c, one)
		})
	}
	group.Wait()
	return all
}

func (s *server) panel(ctx context.Context, c *client.Client, p panel) (one shown) {
	one = shown{Name: p.name, Heading: p.heading}
	defer func() {
		if cause := recover(); cause != nil { // no request is around this goroutine that would be answered with it
			s.opts.Logger.Error().Str("panel", p.name).Interface("panic", fmt.Sprint(cause)).Bytes("stack", debug.Stack()).Msg("a panel of the console panicked")
			one.Body, one.err = render("failed", "The console failed, and has logged the cause."), errFailed
		}
	}()
	data, err := p.load(ctx, c)
	if one.err = err; err != nil {
		one.Body = render("failed", err.Error())
		return one
	}
	one.Body = render(p.name, data)
	return one
}

var errFailed = errors.New("the console failed")

// serve answers with a page, or keeps it current.
func (s *server) serve(w http.ResponseWriter, r *http.Request, build func(*http.Request) page) {
	w.Header().Set("Vary", "Accept")
	follows := strings.Contains(r.Header.Get("Accept"), "text/event-stream")
	token := ""
	if s.opts.Login {
		if token = tokenOf(r); token == "" && !follows {
			toLogin(w, r)
			return
		}
	}
	if follows {
		s.follow(w, r, build, token)
		return
	}
	p := build(r)
	all := s.show(r, p, token)
	status, failed := http.StatusOK, 0
	for _, one := range all {
		if one.err == nil {
			continue
		}
		failed++
		if status = statusOf(one.err); status == http.StatusUnauthorized && s.opts.Login {
			toLogin(w, r)
			return
		}
	}
	if failed < len(all) {
		status = http.StatusOK
	}
	s.write(w, r, status, p, all)
}

// statusOf returns the status of an answer that an error ends.
func statusOf(err error) int {
	problem, ok := errors.AsType[*client.Problem](err)
	switch {
	case ok:
		return problem.Status
	case errors.Is(err, errUnknownAction), errors.As(err, new(*message.InvalidError)):
		return http.StatusUnprocessableEntity
	default:
		return http.StatusInternalServerError
	}
}

// write answers with a whole page.
func (s *server) write(w http.ResponseWriter, r *http.Request, status int, p page, all []shown) {
	text := render("layout", map[string]any{"Title": p.title, "Path": r.URL.Path, "Login": s.opts.Login, "Live": p.live, "Panels": all})
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(text)) // a browser that is gone needs no answer
}
