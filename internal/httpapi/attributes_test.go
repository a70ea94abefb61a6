package httpapi_test

import (
	"encoding/json"
	"net/http"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/audit"
	"github.com/fanmail/fanmail/internal/httpapi"
	recorded "github.com/fanmail/fanmail/internal/settings"
	"github.com/fanmail/fanmail/pkg/attribute"
	"github.com/fanmail/fanmail/pkg/client"
)

func TestAttributes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, settings{})
	services := w.services
	services.Audit = new(audit.Service) // never called
	var current *recorded.Current
	current, services.Settings = recordedIn(t, w.db.Settings(), w)
	w.handler = httpapi.New(services, w.options)
	const path = "/v1/admin/attributes/"
	problem := func(status int, method, target, body string) client.Problem {
		before := w.must(t, http.StatusOK, http.MethodGet, "/v1/admin/attributes", "")
		var p client.Problem
		require.NoError(t, json.Unmarshal([]byte(w.must(t, status, method, target, body)), &p))
		require.Equal(t, before, w.must(t, http.StatusOK, http.MethodGet, "/v1/admin/attributes", ""), "nothing has changed")
		return p
	}

	require.JSONEq(t, `{"attributes":[]}`, w.must(t, http.StatusOK, http.MethodGet, "/v1/admin/attributes", ""))
	w.must(t, http.StatusCreated, http.MethodPut, path+"total", `{"type":"number"}`)
	w.must(t, http.StatusNoContent, http.MethodPut, path+"total", `{"type":"number"}`)
	require.Equal(t, "the attribute total is declared as number: delete it first, or choose another name",
		problem(http.StatusConflict, http.MethodPut, path+"total", `{"type":"string"}`).Detail)
	require.Equal(t, "type", problem(http.StatusUnprocessableEntity, http.MethodPut, path+"due", `{"type":"date"}`).Field)
	require.Equal(t, "name", problem(http.StatusUnprocessableEntity, http.MethodPut, path+"due%20date", `{"type":"time"}`).Field)
	require.Equal(t, client.ProblemNotFound, problem(http.StatusNotFound, http.MethodGet, path+"due", "").Type)
	require.JSONEq(t, `{"name":"total","type":"number"}`, w.must(t, http.StatusOK, http.MethodGet, path+"total", ""))
	for i := range attribute.Max - 1 {
		w.must(t, http.StatusCreated, http.MethodPut, path+"a"+strconv.Itoa(i), `{"type":"bool"}`)
	}
	require.Contains(t, problem(http.StatusUnprocessableEntity, http.MethodPut, path+"due", `{"type":"time"}`).Detail, "32 attributes are declared")
	w.must(t, http.StatusNoContent, http.MethodDelete, path+"total", "")
	w.must(t, http.StatusNoContent, http.MethodDelete, path+"total", "")
	w.must(t, http.StatusCreated, http.MethodPut, path+"total", `{"type":"string"}`)
	d, found := current.Attributes().Find("total")
	require.True(t, found)
	require.Equal(t, attribute.Declaration{Name: "total", Type: attribute.String, Number: attribute.Max + 1}, d, "a number of its own")
}
