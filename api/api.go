// Package api holds the description of the HTTP API as an OpenAPI document. Every role serves it, and the tests of package httpapi hold
// it and the handlers together.
package api

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"sync"

	"go.yaml.in/yaml/v3"
)

//go:embed openapi.yaml
var document []byte

// OpenAPI returns the document as JSON. The caller must not change it.
var OpenAPI = sync.OnceValue(func() []byte {
	var root any
	err := yaml.Unmarshal(document, &root)
	var text []byte
	if err == nil {
		text, err = json.Marshal(root)
	}
	if err != nil {
		panic(fmt.Sprintf("api: the embedded openapi.yaml: %v", err)) // a test reads it, so no build that passed gets here
	}
	return text
})
