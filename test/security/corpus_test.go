//go:build long

package security_test

import (
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"net/url"
	"strings"
)

// class is a kind of hostile requests.
type class struct {
	name  string
	count int
	// expected are the statuses that such requests may be answered with.
	expected []int
	// cut tells that now and then an answer is lost: the server closes without reading the rest, and what is on its way to it then
	// resets the connection.
	cut  bool
	make func(random *rand.Rand, token string, n int) attempt
}

// slow reports whether the requests are those of clients that send a byte now and then.
func (c class) slow() bool { return strings.HasPrefix(c.name, "slow") }

// atOnce is how many of them are under way at a time: the slow ones spend their time waiting.
func (c class) atOnce() int {
	if c.slow() {
		return c.count
	}
	return 16
}

// classes are the corpus, in the order in which it is sent. An unknown Transfer-Encoding or version of HTTP is not in it: package
// net/http answers it with 501 and 505, as RFC 9110 demands.
func classes() []class {
	return []class{
		{name: "oversized bodies", count: 800, expected: []int{413}, cut: true, make: oversized},
		{name: "values over their limits", count: 600, expected: []int{422}, make: overLimits},
		{name: "deep JSON", count: 800, expected: []int{400}, make: deep},
		{name: "wrong types", count: 1000, expected: []int{400}, make: wrongTypes},
		{name: "malformed JSON", count: 1000, expected: []int{400}, make: malformed},
		{name: "media types", count: 500, expected: []int{415}, make: mediaTypes},
		{name: "header floods", count: 600, expected: []int{431}, cut: true, make: floods},
		{name: "framing", count: 800, expected: []int{400}, make: framing},
		{name: "path tricks", count: 1000, expected: []int{400, 403, 404, 405, 422}, make: paths},
		{name: "queries", count: 900, expected: []int{400, 422}, make: queries},
		{name: "methods", count: 500, expected: []int{405}, make: otherMethods},
		{name: "tokens", count: 900, expected: []int{401}, make: tokens},
		{name: "slow headers", count: 200, expected: []int{400, silence}, make: slowHeaders},
		{name: "slow bodies", count: 200, expected: []int{400}, make: slowBodies},
		{name: "left in the middle", count: 200, expected: []int{silence}, make: left},
	}
}

// pick returns one of some.
func pick[T any](random *rand.Rand, of ...T) T { return of[random.IntN(len(of))] }

// raw returns a request as it goes over the connection.
func raw(method, target, token, headers, body string) string {
	return fmt.Sprintf("%s %s HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nAuthorization: Bearer %s\r\n%sContent-Length: %d\r\n\r\n%s",
		method, target, token, headers, len(body), body)
}

func post(target, token, body string) attempt {
	return attempt{text: raw("POST", target, token, "Content-Type: application/json\r\n", body)}
}

func oversized(random *rand.Rand, token string, _ int) attempt {
	const most = 72 << 10 // of a message within the limits of the test
	size := most + random.IntN(2*most)
	if random.IntN(2) == 0 { // whole
		return post("/v1/messages", token, `{"from":"ann","to":["bob"],"body":"`+strings.Repeat("x", size)+`"}`)
	}
	chunk := fmt.Sprintf("%x\r\n%s\r\n", size, strings.Repeat(" ", size))
	return attempt{text: "POST " + pick(random, "/v1/messages", "/v1/users/insider/inbox/read") +
		" HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer " + token + "\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk + "0\r\n\r\n"}
}

func overLimits(random *rand.Rand, token string, _ int) attempt {
	long := strings.Repeat("x", 1025+random.IntN(4000))
	return post("/v1/messages", token, pick(random,
		`{"from":"ann","to":["bob"],"body":"`+long+`"}`,
		`{"from":"ann","to":["bob"],"attrs":{"a":"`+long+`"}}`,
		`{"from":"ann","to":["`+long+`"],"body":"x"}`,
		`{"from":"`+long+`","to":["bob"],"body":"x"}`,
		`{"from":"ann","to":["bob","`+strings.Repeat(`b","`, 101)+`c"],"body":"x"}`,
		`{"from":"ann","to":["a/b"],"body":"x"}`,
		`{"from":"ann","to":["..","."],"body":"x"}`,
		`{"from":"ann","to":["a\u0000b"],"body":"x"}`,
	))
}

func deep(random *rand.Rand, token string, _ int) attempt {
	depth := 10_001 + random.IntN(1000) // encoding/json goes no deeper than 10,000
	return post("/v1/messages", token, pick(random,
		strings.Repeat("[", depth), strings.Repeat(`{"a":`, depth),
		`{"from":"ann","to":["bob"],"attrs":`+strings.Repeat(`{"a":`, depth/2)+strings.Repeat("[", depth/2)+"1"+strings.Repeat("]", depth/2)+strings.Repeat("}", depth/2)+`}`,
		`{"from":"ann","to":`+strings.Repeat("[", depth)+strings.Repeat("]", depth)+`,"body":"x"}`,
	))
}

func wrongTypes(random *rand.Rand, token string, _ int) attempt {
	wrong := func() string {
		return pick(random, "1", "-1e999", "true", "{}", `{"$gt":""}`, `[{"$ne":null}]`, "[1,2]", "[[]]", `[null,{}]`)
	}
	switch random.IntN(3) {
	case 0:
		return post("/v1/users/insider/inbox/read", token, `{"up_to":`+wrong()+`}`)
	case 1:
		return post("/v1/messages", token, `{"`+pick(random, "from", "audience", "body", "content_type")+`":`+wrong()+`}`)
	default:
		return post("/v1/messages", token, `{"from":"ann","to":`+pick(random, "1", `"bob"`, "{}", "true", `[{"$ne":""}]`, "[1]", "[[]]")+`,"body":"x"}`)
	}
}

func malformed(random *rand.Rand, token string, _ int) attempt {
	garbage := make([]byte, 1+random.IntN(2000))
	for n := range garbage {
		garbage[n] = byte(random.UintN(256))
	}
	garbage[0] = pick[byte](random, 0, '[', '"', '<', 0xff)
	const whole = `{"from":"ann","to":["bob"],"body":"x"}`
	return post(pick(random, "/v1/messages", "/v1/users/insider/inbox/read"), token, pick(random,
		string(garbage), whole[:1+random.IntN(len(whole)-1)], whole+whole, whole+"x", `{"from":"ann",}`, `{'from':'ann'}`, `{"from":"ann","to":["bob"],"body":"\ud800"}`,
		`{"from":"ann","body":"`+"\xc3\x28"+`"}`, `{"unknown":1}`, `{"$where":"sleep(1000)"}`, `<?xml version="1.0"?><!DOCTYPE x [<!ENTITY a "b">]>`, "", "null", "\ufeff\ufeff"+whole,
	))
}

func mediaTypes(random *rand.Rand, token string, _ int) attempt {
	header := pick(random,
		"Content-Type: text/plain", "Content-Type: application/x-www-form-urlencoded", "Content-Type: multipart/form-data; boundary=x", "Content-Type: application/xml",
		"Content-Type: application/json; charset=utf-16", "Content-Type: ;;;", "Content-Encoding: gzip", "Content-Encoding: deflate, gzip", "Content-Type: "+strings.Repeat("a/", 1000),
	)
	return attempt{text: raw("POST", pick(random, "/v1/messages", "/v1/messages:batch", "/v1/following:batch"), token, header+"\r\n", `{"from":"ann"}`)}
}

func floods(random *rand.Rand, token string, _ int) attempt {
	const most = 72 << 10 // more than the server takes, with what net/http allows beyond
	var headers strings.Builder
	size := pick(random, 10, 1000, 40_000)
	for n := 0; headers.Len() < most; n++ {
		fmt.Fprintf(&headers, "X-%d: %s\r\n", n, strings.Repeat("x", size))
	}
	return attempt{text: raw("GET", "/v1/users/insider", token, headers.String(), "")}
}

func framing(random *rand.Rand, token string, _ int) attempt {
	host, auth := "Host: x\r\nConnection: close\r\n", "Authorization: Bearer "+token+"\r\n"
	return attempt{text: pick(random,
		"POST /v1/messages HTTP/1.1\r\n"+host+auth+"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
		"POST /v1/messages HTTP/1.1\r\n"+host+auth+"Content-Length: -1\r\n\r\n",
		"POST /v1/messages HTTP/1.1\r\n"+host+auth+"Content-Length: 1e3\r\n\r\n",
		"POST /v1/messages HTTP/1.1\r\n"+host+auth+"Content-Length: 99999999999999999999\r\n\r\n",
		"POST /v1/messages HTTP/1.1\r\n"+host+auth+"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
		"POST /v1/messages HTTP/1.1\r\n"+host+auth+"Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n",
		"GET /healthz HTTP/1.1\r\nConnection: close\r\n\r\n",
		"GET /healthz HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
		"GET /healthz HTTP/1.1\r\nHost: a b\r\n\r\n",
		"GET /healthz HTTP/1.1\r\n"+host+"Bad Header: x\r\n\r\n",
		"GET /healthz HTTP/1.1\r\n folded: x\r\n"+host+"\r\n",
		"GET /healthz HTTP/1.1\r\n"+host+"X: a\x00b\r\n\r\n",
		"GET /heal thz HTTP/1.1\r\n"+host+"\r\n",
		"GET\r\n\r\n",
		"GE\x01T /healthz HTTP/1.1\r\n"+host+"\r\n",
		"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
	)}
}

func paths(random *rand.Rand, token string, n int) attempt {
	segment := pick(random, "..", ".", "%2e%2e", "%2e", "%2f", "%5c..", "%00", "%0d%0aX:%20y", "a%2fb", "%c0%ae%c0%ae", "%ff", "", "~root", "a;b", strings.Repeat("x", 129+n%2000), "%20")
	return attempt{text: raw("GET", pick(random,
		"/v1/users/"+segment+"/inbox/x/y", "/v1/users/"+segment+"/../admin/dlq", "//v1/users/insider", "/v1//users/insider", "/v1/users/insider/../bob/inbox",
		"/v1/messages/"+segment, "/v1/"+segment+"/users", "/"+segment+"/etc/passwd", "/v1/users/insider/inbox/", "/.git/config", "/debug/pprof/", "/v1/users/%zz", "/v1/users/"+segment+"%2finbox",
		"http://evil.example/v1/users/bob/inboxes", "/v1/admin/dlq",
	), token, "", "")}
}

func queries(random *rand.Rand, token string, _ int) attempt {
	return attempt{text: raw("GET", pick(random,
		"/v1/users/insider/inbox?limit="+pick(random, "0", "-1", "201", "1e9", "99999999999999999999", "x", "", "%00"),
		"/v1/users/insider/inbox?before="+pick(random, "", "x", url.QueryEscape(strings.Repeat("A", random.IntN(4000)+1)), "%ff", "1"),
		"/v1/users/insider/inbox?peek="+pick(random, "1", "TRUE", "yes", ""),
		"/v1/users/insider/inbox?limit=1&limit=2", "/v1/users/insider/inbox?%zz", "/v1/users/insider/inbox?a;b", "/v1/users/insider/inbox?access_token=x",
		"/v1/users/insider/following?after="+pick(random, "", "a%2fb", "%00", "..", strings.Repeat("x", 129)),
		"/v1/users/insider/following?limit[$gt]=1",
		"/v1/messages/01a1fdce-6ea3-7263-8757-d901a0f5ee19?estimate="+pick(random, "1", "x"),
	), token, "", "")}
}

func otherMethods(random *rand.Rand, token string, _ int) attempt {
	return attempt{text: raw(
		pick(random, "PATCH", "TRACE", "OPTIONS", "CONNECTX", "PROPFIND", "get", "X"+strings.Repeat("Y", random.IntN(500))),
		pick(random, "/v1/messages", "/v1/users/insider/inbox", "/v1/admin/dlq", "/healthz", "/metrics"), token, "", "",
	)}
}

func tokens(random *rand.Rand, token string, _ int) attempt {
	encode := func(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }
	parts := strings.Split(token, ".")
	at := random.IntN(len(parts[1]) - 1)
	changed := parts[1][:at] + pick(random, "A", "_", "z", "=", "!") + parts[1][at+1:]
	if changed == parts[1] {
		changed = "A" + changed
	}
	bad := pick(random,
		"x", strings.Repeat("x", 1+random.IntN(30_000)), parts[0]+"."+changed+"."+parts[2], parts[0]+"."+parts[1]+".", encode(`{"alg":"none"}`)+"."+parts[1]+".",
		encode(`{"alg":"HS256"}`)+"."+parts[1]+"."+parts[2], encode(`{"alg":"EdDSA","crit":["x"],"x":1}`)+"."+parts[1]+"."+parts[2],
		encode(`{"alg":"EdDSA","jku":"http://127.0.0.1:1/"}`)+"."+parts[1]+"."+parts[2], encode(strings.Repeat(`{"a":`, 1000))+"."+parts[1]+"."+parts[2],
		token+"."+parts[2], strings.Repeat(".", 5000), parts[1]+"."+parts[0]+"."+parts[2],
	)
	return attempt{text: raw("GET", "/v1/users/insider/inbox", bad, "", "")}
}

func slowHeaders(random *rand.Rand, token string, _ int) attempt {
	return attempt{text: "GET /v1/users/insider HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + token + "\r\n", slow: strings.Repeat(pick(random, "x", "X: y\r\n"), 100)}
}

func slowBodies(random *rand.Rand, token string, _ int) attempt {
	return attempt{
		text: "POST " + pick(random, "/v1/messages", "/v1/users/insider/inbox/read") + " HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer " + token + "\r\nContent-Length: 500\r\n\r\n{",
		slow: strings.Repeat(" ", 100),
	}
}

func left(random *rand.Rand, token string, _ int) attempt {
	whole := raw("POST", "/v1/messages", token, "", `{"from":"ann","to":["bob"],"body":"x"}`)
	return attempt{text: whole[:random.IntN(len(whole)-40)+1], leave: true}
}
