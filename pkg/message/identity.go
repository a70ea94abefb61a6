package message

import "fmt"

// Identity is another name of a user, such as a mail address, as a caller writes it. The server knows the kinds, and the canonical form of a
// value: see package identity.
type Identity struct {
	// Kind is email, phone, handle, url, or a kind that the server is configured with.
	Kind  string `json:"kind"`
	Value string `json:"value"`
}

// String returns the kind without the value, which is personal data, because texts end in logs.
func (i Identity) String() string { return "an identity of the kind " + i.Kind }

// Format writes String for every verb, so that no way to print an identity shows the value.
func (i Identity) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(i.String())) }
