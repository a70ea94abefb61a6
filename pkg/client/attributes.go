package client

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"

	"github.com/fanmail/fanmail/pkg/attribute"
)

// Attribute is a declared attribute: a top-level key of attrs that inboxes can be filtered by.
type Attribute struct {
	Name string         `json:"name"`
	Type attribute.Type `json:"type"`
}

// AttributeList is a list of declared attributes.
type AttributeList struct {
	Attributes []Attribute `json:"attributes"`
}

func attributePath(name string) (string, error) {
	if err := attribute.ValidateName(name); err != nil {
		return "", err
	}
	return "/v1/admin/attributes/" + url.PathEscape(name), nil
}

// Attributes returns the declared attributes in the order of their names.
func (c *Client) Attributes(ctx context.Context) ([]Attribute, error) {
	var list AttributeList
	err := c.do(ctx, call{method: http.MethodGet, path: "/v1/admin/attributes", idempotent: true, read: jsonInto(&list)})
	return list.Attributes, err
}

// Attribute returns a declared attribute. If the attribute is not declared, it returns a *Problem of the type ProblemNotFound.
func (c *Client) Attribute(ctx context.Context, name string) (Attribute, error) {
	var found Attribute
	path, err := attributePath(name)
	if err != nil {
		return found, err
	}
	err = c.do(ctx, call{method: http.MethodGet, path: path, idempotent: true, read: jsonInto(&found)})
	return found, err
}

// DeclareAttribute declares an attribute. The server refuses another type than that of an attribute which is declared already (ProblemConflict).
// The server that answers checks messages and takes filters by the declaration at once, all others within 5 s. It is idempotent.
func (c *Client) DeclareAttribute(ctx context.Context, a Attribute) error {
	path, err := attributePath(a.Name)
	if err != nil {
		return err
	}
	body, err := json.Marshal(struct {
		Type attribute.Type `json:"type"`
	}{a.Type})
	if err != nil {
		return fmt.Errorf("encode the declaration: %w", err)
	}
	return c.do(ctx, call{method: http.MethodPut, path: path, content: ContentJSON, body: body, idempotent: true})
}

// DeleteAttribute removes the declaration of an attribute, if there is one. Messages keep their attrs. It is idempotent.
func (c *Client) DeleteAttribute(ctx context.Context, name string) error {
	path, err := attributePath(name)
	if err != nil {
		return err
	}
	return c.do(ctx, call{method: http.MethodDelete, path: path, idempotent: true})
}
