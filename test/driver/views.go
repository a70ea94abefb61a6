package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"time"
)

// mailsBegin is when the recorded mails begin in a printed trace: their own date is not known.
var mailsBegin = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// happened is a line of a trace for "go run -C bench . dormancy".
type happened struct {
	View    string    `json:"view,omitempty"`
	Publish string    `json:"publish,omitempty"`
	To      []string  `json:"to,omitempty"`
	Time    time.Time `json:"time"`
}

func printViews(_ context.Context, args []string, p program) error {
	flags := newFlags(p, "views", "driver views prints recorded mails as a trace of views and messages, as \"go run -C bench . dormancy\" reads it.\n\n"+
		"Nobody recorded who looked when. So each mail also counts as a view by its author, a moment before.")
	mails := flags.String("mails", "", "`file` of messages with \"from\", \"to\", and a body that tells the second (required)")
	if err := parse(flags, args); err != nil {
		return err
	}
	if *mails == "" {
		return wrong(flags, "give --mails")
	}
	out := bufio.NewWriter(p.stdout)
	encoder := json.NewEncoder(out)
	err := eachLine(*mails, func(_ int, line []byte) error {
		var mail struct {
			From, Body string
			To         []string
		}
		if err := json.Unmarshal(line, &mail); err != nil {
			return err
		}
		var number, second int
		if _, err := fmt.Sscanf(mail.Body, "mail %d at second %d", &number, &second); err != nil {
			return fmt.Errorf("the body %q does not tell the second: %w", mail.Body, err)
		}
		at := mailsBegin.Add(time.Duration(second) * time.Second)
		if err := encoder.Encode(happened{View: mail.From, Time: at.Add(-time.Millisecond)}); err != nil {
			return err
		}
		return encoder.Encode(happened{Publish: mail.From, To: mail.To, Time: at})
	})
	if err != nil {
		return err
	}
	return out.Flush()
}
