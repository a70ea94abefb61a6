package httpapi_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/api"
	"github.com/fanmail/fanmail/pkg/client"
)

// description is the OpenAPI document, changed so that answers may have only the described fields.
var description = sync.OnceValues(func() (*openapi3.T, error) {
	openapi3filter.RegisterBodyDecoder(client.ContentNDJSON, readLines)
	openapi3filter.RegisterBodyDecoder("text/event-stream", openapi3filter.RegisteredBodyDecoder("text/plain"))
	var root any
	if err := json.Unmarshal(api.OpenAPI(), &root); err != nil {
		return nil, err
	}
	closeObjects(root)
	text, err := json.Marshal(root)
	if err != nil {
		return nil, err
	}
	doc, err := openapi3.NewLoader().LoadFromData(text)
	if err != nil {
		return nil, err
	}
	return doc, doc.Validate(context.Background())
})

// closeObjects forbids further fields in every object with properties, unless the document allows them.
func closeObjects(node any) {
	switch node := node.(type) {
	case map[string]any:
		if _, said := node["additionalProperties"]; !said && node["type"] == "object" && node["properties"] != nil {
			node["additionalProperties"] = false
		}
		for _, child := range node {
			closeObjects(child)
		}
	case []any:
		for _, child := range node {
			closeObjects(child)
		}
	}
}

// readLines decodes NDJSON into an array of its lines.
func readLines(r io.Reader, _ http.Header, _ *openapi3.SchemaRef, _ openapi3filter.EncodingFn) (any, error) {
	lines := []any{}
	decoder := json.NewDecoder(r)
	for {
		var line any
		switch err := decoder.Decode(&line); {
		case errors.Is(err, io.EOF):
			return lines, nil
		case err != nil:
			return nil, err
		}
		lines = append(lines, line)
	}
}

// described returns the path and the operation of the document for a request that the server has answered. Both are empty if the
// document does not have the operation. Then the server must have refused the request.
func described(doc *openapi3.T, r *http.Request) (path string, operation *openapi3.Operation) {
	path = strings.ReplaceAll(r.Pattern, "...", "") // the document writes / in a topic as %2F
	if _, action, ok := strings.Cut(r.PathValue("id"), ":"); ok && r.Method == http.MethodPost {
		path += ":" + action
	}
	item := doc.Paths.Value(path)
	if item == nil {
		return "", nil
	}
	method := r.Method
	if method == http.MethodHead {
		method = http.MethodGet
	}
	return path, item.GetOperation(method)
}

// requireDescribed checks that the document describes the answer to a request. If the server accepted the request, the document
// must describe the request, too.
func requireDescribed(tb testing.TB, r *http.Request, body string, answer *httptest.ResponseRecorder) {
	tb.Helper()
	doc, err := description()
	require.NoError(tb, err)
	path, operation := described(doc, r)
	if operation == nil {
		require.GreaterOrEqual(tb, answer.Code, 400, "%s %s is not described and was done", r.Method, r.URL)
		return
	}
	input := &openapi3filter.RequestValidationInput{
		Request: r, PathParams: map[string]string{},
		Route: &routers.Route{Spec: doc, Path: path, PathItem: doc.Paths.Value(path), Method: r.Method, Operation: operation},
		Options: &openapi3filter.Options{
			SkipSettingDefaults: true, IncludeResponseStatus: true,
			AuthenticationFunc: openapi3filter.NoopAuthenticationFunc, // the document does not know which of the tests' servers require tokens
		},
	}
	for _, name := range []string{"user", "follower", "followee", "other", "topic", "id", "key", "kind", "value", "name"} {
		input.PathParams[name] = strings.TrimSuffix(r.PathValue(name), ":redrive")
	}
	refused := strings.Contains(answer.Body.String(), `"line":`) // the batch was accepted, but one of its lines was refused
	if answer.Code < 300 && !refused {
		input.Request = r.Clone(tb.Context())
		input.Request.Body = io.NopCloser(strings.NewReader(body))
		input.Request.ContentLength = int64(len(body))
		if operation.RequestBody != nil { // the server also accepts a missing type and other names of NDJSON
			for declared := range operation.RequestBody.Value.Content {
				input.Request.Header.Set("Content-Type", declared)
			}
		}
		require.NoError(tb, openapi3filter.ValidateRequest(tb.Context(), input), "%s %s was accepted", r.Method, r.URL)
	}
	require.NoError(tb, openapi3filter.ValidateResponse(tb.Context(), &openapi3filter.ResponseValidationInput{
		RequestValidationInput: input, Status: answer.Code, Header: answer.Header(),
		Body: io.NopCloser(bytes.NewReader(answer.Body.Bytes())), Options: input.Options,
	}), "%s %s was answered with %d: %s", r.Method, r.URL, answer.Code, answer.Body)
}
