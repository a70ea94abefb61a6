package deploy_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
)

// Where the custom resources of the chart are defined: in modules, of which only these files are read.
var definitions = map[string]struct{ module, file string }{
	"ScaledObject": {"github.com/kedacore/keda/v2@v2.21.0", "config/crd/bases/keda.sh_scaledobjects.yaml"},
	"HTTPRoute":    {"sigs.k8s.io/gateway-api@v1.4.1", "config/crd/standard/gateway.networking.k8s.io_httproutes.yaml"},
	"ServiceMonitor": {
		"github.com/prometheus-operator/prometheus-operator@v0.85.0",
		"example/prometheus-operator-crd/monitoring.coreos.com_servicemonitors.yaml",
	},
	"PrometheusRule": {
		"github.com/prometheus-operator/prometheus-operator@v0.85.0",
		"example/prometheus-operator-crd/monitoring.coreos.com_prometheusrules.yaml",
	},
}

// Custom resources are what their definitions allow, and have no field that these do not know.
func TestHelmCustomResources(t *testing.T) {
	t.Parallel()
	custom := template(t, "--values", whole).custom
	require.Len(t, custom, len(definitions))
	for kind, object := range custom {
		schema := definition(t, kind, object.GetAPIVersion())
		validator, _, err := validation.NewSchemaValidator(schema)
		require.NoError(t, err)
		require.Empty(t, validation.ValidateCustomResource(nil, object.Object, validator))
		structural, err := structuralschema.NewStructural(schema)
		require.NoError(t, err)
		unknown := pruning.PruneWithOptions(object.DeepCopy().Object, structural, true,
			structuralschema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true})
		require.Empty(t, unknown)
	}
}

// definition returns the schema of a custom resource.
func definition(t *testing.T, kind, version string) *apiextensions.JSONSchemaProps {
	t.Helper()
	var crd apiextensionsv1.CustomResourceDefinition
	var content map[string]any
	text, err := os.ReadFile(filepath.Join(moduleDir(t, definitions[kind].module), definitions[kind].file))
	require.NoError(t, err)
	require.NoError(t, yaml.Unmarshal(text, &content))
	asJSON, err := json.Marshal(content)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(asJSON, &crd))
	require.Equal(t, kind, crd.Spec.Names.Kind)
	for _, v := range crd.Spec.Versions {
		if crd.Spec.Group+"/"+v.Name == version {
			schema := new(apiextensions.JSONSchemaProps)
			require.NoError(t, apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(v.Schema.OpenAPIV3Schema, schema, nil))
			return schema
		}
	}
	require.Fail(t, "there is no such version", version)
	return nil
}

// moduleDir downloads a module, unless it is there, and returns its folder.
func moduleDir(t *testing.T, module string) string {
	t.Helper()
	var downloaded struct{ Dir string }
	require.NoError(t, json.Unmarshal([]byte(output(t, t.TempDir(), "go", "mod", "download", "-json", module)), &downloaded))
	return downloaded.Dir
}
