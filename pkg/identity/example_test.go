package identity_test

import (
	"fmt"

	"github.com/fanmail/fanmail/pkg/identity"
)

// The value of an identity is personal data, so that no way to print it shows the value.
func ExampleIdentity() {
	joe := identity.Identity{Kind: identity.Email, Value: "joe@example.com"}
	fmt.Println(joe)
	fmt.Printf("%+v\n", []identity.Identity{joe})
	// Output:
	// an identity of the kind email
	// [an identity of the kind email]
}
