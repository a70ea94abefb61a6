package httpapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/fanmail/fanmail/internal/jsonfields"
	"github.com/fanmail/fanmail/pkg/client"
	"github.com/fanmail/fanmail/pkg/message"
)

// jsonTypes are the accepted media types of bodies: JSON, and the usual names of NDJSON.
var jsonTypes = map[string]bool{
	client.ContentJSON: true, client.ContentNDJSON: true, "application/ndjson": true, "application/jsonl": true, "text/json": true,
}

// checkContent refuses a body with another declared type than JSON, or with a content coding. It accepts a body without a declared
// type.
func checkContent(h http.Header) error {
	if coding := h.Get("Content-Encoding"); coding != "" && coding != "identity" {
		return refuse(client.ProblemMediaType, "Content-Encoding", "the content coding %q is not understood: send the body as it is", shorten(coding))
	}
	content := h.Get("Content-Type")
	if content == "" || content == client.ContentJSON {
		return nil
	}
	media, parameters, err := mime.ParseMediaType(content)
	charset := parameters["charset"]
	if err != nil || !jsonTypes[media] || charset != "" && !strings.EqualFold(charset, "utf-8") {
		return refuse(client.ProblemMediaType, "Content-Type", "the body is declared to be %q: send JSON in UTF-8 as %s, or a batch as %s",
			shorten(content), client.ContentJSON, client.ContentNDJSON)
	}
	return nil
}

// readObject reads a request body of at most limit bytes into v. The body must be one JSON object, and all its fields must be
// fields of v.
func readObject(w *response, r *http.Request, limit int, v any) error {
	b := takeBuffer()
	defer returnBuffer(b)
	// MaxBytesReader needs the underlying writer. Only with it can the server close a connection that sends too much.
	if _, err := b.ReadFrom(http.MaxBytesReader(w.ResponseWriter, r.Body, int64(limit))); err != nil {
		if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
			return refuse(client.ProblemTooLarge, "", "the request body has more than %d bytes: send less", limit)
		}
		return w.brokenOff(err, newProblem(client.ProblemMalformed, "", "the request body broke off: send it again"))
	}
	w.unread = false
	return decodeObject(bytes.TrimPrefix(b.Bytes(), byteOrderMark), v, "the request body")
}

// byteOrderMark is what some editors write first.
var byteOrderMark = []byte("\ufeff")

// decodeObject decodes one JSON object into v. All fields of the object must be fields of v, with exactly their names, and each at most once.
// Errors call the object what.
func decodeObject(data []byte, v any, what string) error {
	start := bytes.TrimLeft(data, " \t\r\n")
	switch {
	case !utf8.Valid(data):
		return refuse(client.ProblemMalformed, "", "%s is not valid UTF-8: encode it in UTF-8", what)
	case len(start) == 0:
		return refuse(client.ProblemMalformed, "", "%s is empty: send a JSON object", what)
	case start[0] != '{':
		return refuse(client.ProblemMalformed, "", "%s is not a JSON object: begin it with '{'", what)
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(v); err != nil {
		return explain(err, v, what)
	}
	end := int(decoder.InputOffset())
	if err := jsonfields.Check(data[:end], v); err != nil {
		return explain(err, v, what)
	}
	if rest := bytes.TrimLeft(data[end:], " \t\r\n"); len(rest) > 0 {
		return refuse(client.ProblemMalformed, "", "%s continues after the JSON object, at byte %d: send one object", what, len(data)-len(rest)+1)
	}
	if halfSurrogate(data) {
		return refuse(client.ProblemMalformed, "", "%s has an escape such as \\ud800 that is half a character: "+
			"write characters beyond U+FFFF as two such escapes, or as they are", what)
	}
	return nil
}

// explain turns an error of the JSON decoder, which names Go types, into a problem in terms of JSON.
func explain(err error, v any, what string) error {
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return refuse(client.ProblemMalformed, wrong.Field, "%s has %s where %s is expected",
			wrong.Field, valueName(wrong.Value), typeName(wrong.Type))
	}
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		return refuse(client.ProblemMalformed, "", "%s is not JSON: %v, at byte %d", what, syntax, syntax.Offset)
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return refuse(client.ProblemMalformed, "", "%s is not JSON: it ends before the object does", what)
	}
	if invalid, ok := errors.AsType[*message.InvalidError](err); ok {
		return refuse(client.ProblemMalformed, invalid.Field, "%s", invalid.Error())
	}
	if named, ok := errors.AsType[*jsonfields.Error](err); ok {
		return refuse(client.ProblemMalformed, shorten(named.Field), "%s", (&jsonfields.Error{Field: shorten(named.Field), Want: named.Want}).Error())
	}
	if quoted, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
		if field, err := strconv.Unquote(quoted); err == nil {
			return refuse(client.ProblemMalformed, shorten(field), "the field %q is unknown: the fields are %s",
				shorten(field), strings.Join(jsonfields.Names(v), ", "))
		}
	}
	return err
}

// valueName returns a JSON value's name with its article. value is from json.UnmarshalTypeError, such as "number 1.5".
func valueName(value string) string {
	switch kind, _, _ := strings.Cut(value, " "); kind {
	case "array", "object":
		return "an " + kind
	case "bool":
		return "a boolean"
	default:
		return "a " + kind
	}
}

// typeName returns the name of the JSON value for a Go type.
func typeName(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "a string"
	case reflect.Int, reflect.Int64:
		return "a whole number"
	case reflect.Slice:
		return "an array"
	default:
		return "another value"
	}
}

// halfSurrogate reports whether valid JSON escapes one half of a surrogate pair without the other. The decoder would replace
// it, so different user ids would become the same.
func halfSurrogate(data []byte) bool {
	for {
		at := bytes.IndexByte(data, '\\')
		if at < 0 {
			return false
		}
		data = data[at+1:]
		if data[0] != 'u' {
			data = data[1:]
			continue
		}
		unit := codeUnit(data[1:])
		data = data[5:]
		switch {
		case unit < 0xd800 || unit > 0xdfff:
		case unit >= 0xdc00 || len(data) < 6 || data[0] != '\\' || data[1] != 'u':
			return true
		default:
			if low := codeUnit(data[2:]); low < 0xdc00 || low > 0xdfff {
				return true
			}
			data = data[6:]
		}
	}
}

// codeUnit returns the value of four hexadecimal digits.
func codeUnit(digits []byte) uint64 {
	unit, _ := strconv.ParseUint(string(digits[:4]), 16, 32) // the decoder has checked the digits
	return unit
}
