package app_test

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/app"
	"github.com/fanmail/fanmail/internal/bus"
	"github.com/fanmail/fanmail/pkg/client"
	"github.com/fanmail/fanmail/pkg/event"
)

// TestNoLineOfTheLogHasABody sends a marked body through all requests and events, valid and invalid. The log at its most detailed
// level, and the spans, must not contain the marker.
func TestNoLineOfTheLogHasABody(t *testing.T) {
	t.Parallel()
	var events bus.Bus
	w := newWorld(t, traced, func(o *app.Options) {
		o.Wrap = func(p app.Parts) app.Parts {
			events = p.Bus
			return p
		}
	})
	w.see(t, "ann")
	says := `"body":"` + marker + `","attrs":{"` + marker + `":"` + marker + `"}`
	key := http.Header{"Idempotency-Key": {"k"}}

	var receipt client.Receipt
	w.ask(t, http.MethodPost, "/v1/messages", `{"from":"star","to":["ann","bob"],`+says+`}`, 202, &receipt, key)
	w.done(t, receipt.ID)
	w.ask(t, http.MethodPost, "/v1/messages", `{"from":"star","to":["bob"],`+says+`}`, 422, nil, key)
	for body, status := range map[string]int{
		`{"from":"star","to":["ann"],` + says + `,"` + marker + `":1}`:                               400, // an unknown field
		`{"from":"star","to":["ann"],"body":{"` + marker + `":1}}`:                                   400, // another type
		`{"from":"star","to":["ann"],"body":"` + marker:                                              400, // broken off
		`{"from":"star","to":[],` + says + `}`:                                                       422,
		`{"from":"star","to":["ann"],"body":"` + strings.Repeat(marker, 1+64<<10/len(marker)) + `"}`: 422,
	} {
		w.ask(t, http.MethodPost, "/v1/messages", body, status, nil)
	}
	ndjson := http.Header{"Content-Type": {client.ContentNDJSON}}
	w.ask(t, http.MethodPost, "/v1/messages:batch", `{"from":"star","to":["ann"],`+says+"}\n{"+marker+"\n", 200, nil, ndjson)
	w.ask(t, http.MethodPost, "/v1/users/bob/login", "", 200, nil)
	w.ask(t, http.MethodGet, "/v1/users/bob/inbox", "", 200, nil)
	w.ask(t, http.MethodGet, "/v1/admin/explain?user=bob&message="+receipt.ID.String(), "", 200, nil)
	w.ask(t, http.MethodPost, "/v1/admin/audit", `{"repair":true}`, 200, nil)
	w.ask(t, http.MethodDelete, "/v1/users/bob/inbox/"+receipt.ID.String(), "", 204, nil)

	// Another program publishes invalid data on the bus.
	subjects := []string{"fanmail.v1.login", "fanmail.v1.published", "fanmail.v1.fanout.bulk.3"}
	for _, subject := range subjects {
		for _, payload := range []string{marker, `{` + says + `}`, `{"v":1,"user":5,` + says + `}`} {
			require.NoError(t, events.Emit(t.Context(), event.DeadLetter{Subject: subject, Payload: []byte(payload)}))
		}
	}
	login, err := event.Login{User: "ann"}.Encode()
	require.NoError(t, err)
	require.NoError(t, events.DeadLetter(t.Context(), event.DeadLetter{
		Version: event.Version, Reason: event.ReasonPanic, Subject: subjects[0], Payload: login,
	}))
	var page client.DeadLetterPage
	require.Eventually(t, func() bool {
		w.ask(t, http.MethodGet, "/v1/admin/dlq", "", 200, &page, unrecorded)
		return len(page.Letters) == 3*len(subjects)+1
	}, time.Minute, 10*time.Millisecond)
	for i, letter := range page.Letters {
		id := "/v1/admin/dlq/" + strconv.FormatUint(letter.ID, 10)
		switch {
		case letter.Reason == event.ReasonPanic:
			w.ask(t, http.MethodPost, id+":redrive", "", 204, nil)
		case i%2 == 0:
			w.ask(t, http.MethodDelete, id, "", 204, nil)
		default:
			w.ask(t, http.MethodPost, id+":redrive", "", 409, nil)
		}
	}

	log := w.log.String()
	for _, line := range []string{
		"a dead letter", "dead letter is redriven", "dead letter is dropped", "message is done", "user is rehydrated", `"message":"request"`,
		`"roles":"publisher+fanout-worker+rehydrator"`,
	} {
		require.Contains(t, log, line)
	}
	for line := range strings.Lines(log) {
		require.NotContains(t, line, marker)
		var fields map[string]any
		require.NoError(t, json.Unmarshal([]byte(line), &fields), line)
	}
	require.NotContains(t, spans(w.spans.GetSpans()).String(), marker)
	for _, span := range w.spans.GetSpans() {
		require.NotContains(t, span.Status.Description, marker, span.Name)
	}
}
