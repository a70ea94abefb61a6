package client

import (
	"context"
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

func atAttribute(name string) target {
	return target{"/v1/admin/attributes/" + url.PathEscape(name), attribute.ValidateName(name)}
}

// Attributes returns the declared attributes in the order of their names.
func (c *Client) Attributes(ctx context.Context) ([]Attribute, error) {
	list, err := get[AttributeList](ctx, c, at("/v1/admin/attributes"), nil)
	return list.Attributes, err
}

// Attribute returns a declared attribute. If the attribute is not declared, it returns a *Problem of the type ProblemNotFound.
func (c *Client) Attribute(ctx context.Context, name string) (Attribute, error) {
	return get[Attribute](ctx, c, atAttribute(name), nil)
}

// DeclareAttribute declares an attribute. The server refuses another type than that of an attribute which is declared already (ProblemConflict).
// The server that answers checks messages and takes filters by the declaration at once, all others within 5 s. It is idempotent.
func (c *Client) DeclareAttribute(ctx context.Context, a Attribute) error {
	return c.tell(ctx, http.MethodPut, atAttribute(a.Name), nil, struct {
		Type attribute.Type `json:"type"`
	}{a.Type})
}

// DeleteAttribute removes the declaration of an attribute, if there is one. Messages keep their attrs. It is idempotent.
func (c *Client) DeleteAttribute(ctx context.Context, name string) error {
	return c.tell(ctx, http.MethodDelete, atAttribute(name), nil, nil)
}
