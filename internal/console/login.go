package console

import (
	"context"
	"net"
	"net/http"
	"net/url"
	"strings"
)

// cookieName is the name of the cookie with the token. It is sent to the console only.
const cookieName = "fanmail_console"

// tokenOf returns the token of a visitor, or "".
func tokenOf(r *http.Request) string {
	cookie, err := r.Cookie(cookieName)
	if err != nil {
		return ""
	}
	token, err := url.QueryUnescape(cookie.Value)
	if err != nil {
		return ""
	}
	return token
}

// setToken lets a browser keep a token until it is closed, or forget it if it is empty. Only browsers on the same host get it without TLS.
func setToken(w http.ResponseWriter, r *http.Request, token string) {
	cookie := &http.Cookie{ //nolint:gosec // a server on loopback has no TLS
		Name: cookieName, Value: url.QueryEscape(token), Path: Prefix, HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: !onLoopback(r.Host),
	}
	if token == "" {
		cookie.MaxAge = -1
	}
	http.SetCookie(w, cookie)
}

func onLoopback(host string) bool {
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}
	ip := net.ParseIP(strings.Trim(name, "[]"))
	return name == "localhost" || ip != nil && ip.IsLoopback()
}

// toLogin sends a visitor to the form, and back afterwards.
func toLogin(w http.ResponseWriter, r *http.Request) {
	http.Redirect(w, r, Prefix+"login?to="+url.QueryEscape(r.URL.RequestURI()), http.StatusSeeOther)
}

// back returns where a visitor goes after the login: only to a page of the console.
func back(to string) string {
	u, err := url.Parse(to)
	if err != nil || u.Scheme != "" || u.Host != "" || !strings.HasPrefix(u.Path, Prefix) || strings.HasPrefix(u.Path, Prefix+"login") {
		return Prefix
	}
	return u.RequestURI()
}

func (s *server) loginForm(w http.ResponseWriter, r *http.Request) {
	if !s.opts.Login {
		http.Redirect(w, r, Prefix, http.StatusSeeOther)
		return
	}
	s.askToken(w, r, http.StatusOK, r.URL.Query().Get("to"), "")
}

func (s *server) askToken(w http.ResponseWriter, r *http.Request, status int, to, trouble string) {
	body := render("login", map[string]string{"To": back(to), "Trouble": trouble})
	s.write(w, r, status, page{title: "Log in"}, []shown{{Name: "login", Heading: "Log in", Body: body}})
}

func (s *server) login(w http.ResponseWriter, r *http.Request) {
	token, to := strings.TrimSpace(r.PostFormValue("token")), r.PostFormValue("to")
	if token == "" {
		s.askToken(w, r, http.StatusUnprocessableEntity, to, "Type a token.")
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), askWithin)
	defer cancel()
	if _, err := s.client(r, token).Processes(ctx); err != nil {
		s.askToken(w, r, statusOf(err), to, err.Error())
		return
	}
	setToken(w, r, token)
	http.Redirect(w, r, back(to), http.StatusSeeOther) //nolint:gosec // back returns only paths of the console
}

func (s *server) logout(w http.ResponseWriter, r *http.Request) {
	setToken(w, r, "")
	http.Redirect(w, r, Prefix+"login", http.StatusSeeOther)
}
