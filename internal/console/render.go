package console

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"html/template"
	"io/fs"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/fanmail/fanmail/pkg/client"
	"github.com/fanmail/fanmail/pkg/message"
)

//go:embed templates
var files embed.FS

var templates = template.Must(template.New("").Funcs(template.FuncMap{
	"num": num, "when": when, "secs": secs, "rate": rate, "done": done, "slots": slots,
	"html": func(trusted string) template.HTML { return template.HTML(trusted) }, //nolint:gosec // render has made it
	"tab": func(path, url, name string) tab {
		return tab{URL: url, Name: name, Here: path == url || url != Prefix && strings.HasPrefix(path, url+"/")}
	},
	"millis": func(ahead, within float64) float64 { return 1000 * (max(ahead, -ahead) + within) },
	"stage":  stageOf,
	"states": func() []message.State {
		return []message.State{message.StatePending, message.StateRunning, message.StateDone, message.StateDead}
	},
}).ParseFS(files, "templates/*.html"))

// tab is a link to a page. Here says that it is the one that is shown, or one below.
type tab struct {
	URL, Name string
	Here      bool
}

// render executes a template. Its data is always complete, so an error is a mistake in the template.
func render(name string, data any) string {
	var b strings.Builder
	if err := templates.ExecuteTemplate(&b, name, data); err != nil {
		panic(err)
	}
	return b.String()
}

// digest identifies the embedded assets.
var digest = sync.OnceValue(func() string {
	hash := sha256.New()
	_ = fs.WalkDir(assets, ".", func(path string, _ fs.DirEntry, _ error) error {
		content, err := assets.ReadFile(path)
		if err == nil {
			_, _ = hash.Write(content)
		}
		return nil // what is no file has no content
	})
	return hex.EncodeToString(hash.Sum(nil)[:8])
})

// num writes a number with separators.
func num(n any) string {
	var value int64
	switch n := n.(type) {
	case int:
		value = int64(n)
	case int64:
		value = n
	}
	text := strconv.FormatInt(value, 10)
	for i := len(text) - 3; i > 0 && text[i-1] != '-'; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// when writes a time to the second. The zero time is a dash.
func when(at any) string {
	var t client.Time
	switch at := at.(type) {
	case client.Time:
		t = at
	case *client.Time:
		t = *at
	}
	if t.IsZero() {
		return "–"
	}
	return t.UTC().Format("2006-01-02 15:04:05")
}

// secs writes seconds as a duration of two units at most.
func secs(of any) string {
	var seconds float64
	switch of := of.(type) {
	case float64:
		seconds = of
	case *float64:
		seconds = *of
	}
	d := time.Duration(seconds * float64(time.Second))
	switch {
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Hour:
		return d.Round(time.Second).String()
	default:
		return strings.TrimSuffix(d.Round(time.Minute).String(), "0s")
	}
}

// rate writes how many there are in a second; a dash if nobody knows.
func rate(perSecond *float64) string {
	switch {
	case perSecond == nil:
		return "–"
	case *perSecond < 10:
		return strconv.FormatFloat(*perSecond, 'f', 1, 64) + "/s"
	default:
		return num(int64(*perSecond)) + "/s"
	}
}

// done returns how many hundredths of the partitions need no more work.
func done(partitions []client.PartitionProgress) int {
	ended := 0
	for _, p := range partitions {
		if p.State == client.PartitionDone || p.State == client.PartitionGivenUp {
			ended++
		}
	}
	return 100 * ended / max(len(partitions), 1)
}

// slots returns the width of a bucket in the drawing of an inbox: three units for each slot.
func slots(n int) int { return 3 * n }
