package identity_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/pkg/identity"
)

// No way to print or log an identity shows the value.
func TestNothingPrintsTheValue(t *testing.T) {
	t.Parallel()
	id := identity.Identity{Kind: identity.Email, Value: "secret"}
	type holder struct {
		ID  identity.Identity
		Ptr *identity.Identity
	}
	var log bytes.Buffer
	logger := zerolog.New(&log)
	logger.Info().Interface("id", id).Interface("in", holder{id, &id}).Stringer("text", id).Any("all", []identity.Identity{id}).Err(fmt.Errorf("of %v", id)).Send()
	encoded, err := json.Marshal(map[string]any{"a": id, "b": holder{id, &id}})
	require.NoError(t, err)
	texts := []string{log.String(), string(encoded), fmt.Sprint(id, &id, holder{id, &id}), errors.Join(fmt.Errorf("%w of %s", errors.ErrUnsupported, id)).Error()}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%T %v"} {
		texts = append(texts, fmt.Sprintf(verb, id, id), fmt.Sprintf(verb, &id, &id), fmt.Sprintf(verb, holder{ID: id}, holder{ID: id}))
	}
	for _, text := range texts {
		require.NotContains(t, text, "secret")
		require.NotContains(t, strings.ToLower(text), "736563726574")
	}
	require.Contains(t, log.String(), `"id":{"kind":"email"}`)
}

func TestFurtherKinds(t *testing.T) {
	t.Parallel()
	for _, kind := range []identity.Kind{"a", "badge", "a-1_z", "0", identity.Kind(strings.Repeat("x", identity.MaxKindBytes))} {
		require.NoError(t, kind.ValidateFurther(), kind)
	}
	for _, kind := range append(identity.Kinds(), "", "A", "a b", "a:b", "a/b", "ä", "a\n", identity.Kind(strings.Repeat("x", identity.MaxKindBytes+1))) {
		require.Error(t, kind.ValidateFurther(), kind)
	}
}
