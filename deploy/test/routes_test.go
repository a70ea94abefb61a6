package deploy_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestIngressRoutes(t *testing.T) {
	t.Parallel()
	ingress := template(t, "--values", whole).ingresses["fanmail"]
	require.Equal(t, "nginx", *ingress.Spec.IngressClassName)
	require.Equal(t, "true", ingress.Annotations["nginx.ingress.kubernetes.io/use-regex"])
	require.Equal(t, []networkingv1.IngressTLS{{Hosts: []string{"mail.example.com"}, SecretName: "mail-example-com"}}, ingress.Spec.TLS)
	require.Len(t, ingress.Spec.Rules, 1)
	require.Equal(t, "mail.example.com", ingress.Spec.Rules[0].Host)
	expressions := map[string][]string{}
	for _, path := range ingress.Spec.Rules[0].HTTP.Paths {
		require.Equal(t, networkingv1.PathTypeImplementationSpecific, *path.PathType)
		require.Equal(t, "http", path.Backend.Service.Port.Name)
		role := strings.TrimPrefix(path.Backend.Service.Name, "fanmail-")
		expressions[role] = append(expressions[role], path.Path)
	}
	requireRouted(t, expressions)
}

func TestHTTPRouteRoutes(t *testing.T) {
	t.Parallel()
	route := template(t, "--values", whole).custom["HTTPRoute"].Object
	rules, _, err := unstructured.NestedSlice(route, "spec", "rules")
	require.NoError(t, err)
	expressions := map[string][]string{}
	for _, rule := range rules {
		rule := rule.(map[string]any)
		timeouts, _, err := unstructured.NestedStringMap(rule, "timeouts")
		require.NoError(t, err)
		require.Equal(t, map[string]string{"request": "0s"}, timeouts, "a stream has no end")
		backends, _, err := unstructured.NestedSlice(rule, "backendRefs")
		require.NoError(t, err)
		require.Len(t, backends, 1)
		backend := backends[0].(map[string]any)
		require.EqualValues(t, 8080, backend["port"])
		role := strings.TrimPrefix(backend["name"].(string), "fanmail-")
		matches, _, err := unstructured.NestedSlice(rule, "matches")
		require.NoError(t, err)
		for _, match := range matches {
			path, _, err := unstructured.NestedStringMap(match.(map[string]any), "path")
			require.NoError(t, err)
			require.Equal(t, "RegularExpression", path["type"])
			expressions[role] = append(expressions[role], path["value"])
		}
	}
	requireRouted(t, expressions)
}
