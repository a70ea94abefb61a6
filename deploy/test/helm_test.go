package deploy_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/fanmail/fanmail/config"
)

const chart = deploy + "/helm/fanmail"

// Sets of values: what has to be set, and everything that can be.
const (
	least = "testdata/least.yaml"
	whole = "testdata/whole.yaml"
)

var helmProgram struct {
	once sync.Once
	path string
}

// helm runs helm, of the version in go.mod, which go builds the first time, and returns what it prints.
func helm(t *testing.T, args ...string) (string, error) {
	t.Helper()
	helmProgram.once.Do(func() { helmProgram.path = strings.TrimSpace(output(t, ".", "go", "tool", "-n", "helm")) })
	home := t.TempDir()
	cmd := exec.CommandContext(t.Context(), helmProgram.path, args...)
	cmd.Env = append(os.Environ(), "HELM_CACHE_HOME="+home, "HELM_CONFIG_HOME="+home, "HELM_DATA_HOME="+home)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return stdout.String(), fmt.Errorf("helm %s: %w: %s", args[0], err, &stderr)
	}
	return stdout.String(), nil
}

func TestHelmLint(t *testing.T) {
	t.Parallel()
	for _, values := range []string{least, whole} {
		said, err := helm(t, "lint", "--strict", chart, "--values", values)
		require.NoError(t, err, said)
		t.Log(said)
	}
}

// Without what has to be set, and with what does not exist, the chart says what is wrong.
func TestHelmRefuses(t *testing.T) {
	t.Parallel()
	for _, values := range []struct{ set, says string }{
		{"nats.url=", "nats.url is empty"},
		{"secrets.mongodb.name=", "secrets.mongodb.name is empty"},
		{"secrets.auth.name=", "secrets.auth.name is empty"},
		{"secrets.auth.jwtKeysKey=jwks.json", "secrets.auth.jwtAudience is empty"},
		{"keda.enable=true", "'enable' not allowed"}, // a mistyped value
		{"otel.FANMAIL_ADDR=:1", "does not match pattern"},
		{"roles.fanout-worker.autoscaling.enabled=true", "'autoscaling' not allowed"}, // KEDA scales them
		{"httpRoute.enabled=true", "httpRoute.parentRefs is empty"},
		{"audit.enabled=true", "audit.tokenSecret.name is empty"},
		{"stopGraceSeconds=1", "minimum"},
		{"config.tls.client_ca_file=/ca.pem", "a kubelet has no certificate"},
	} {
		_, err := helm(t, "template", "fanmail", chart, "--values", least, "--set", values.set)
		require.ErrorContains(t, err, values.says)
	}
}

// objects are what a chart becomes, each decoded strictly: a field that Kubernetes does not know is an error.
type objects struct {
	deployments map[string]*appsv1.Deployment
	configMaps  map[string]*corev1.ConfigMap
	jobs        map[string]*batchv1.Job
	budgets     map[string]*policyv1.PodDisruptionBudget
	autoscalers map[string]*autoscalingv2.HorizontalPodAutoscaler
	policies    map[string]*networkingv1.NetworkPolicy
	ingresses   map[string]*networkingv1.Ingress
	cronJobs    map[string]*batchv1.CronJob
	pods        map[string]*corev1.Pod
	custom      map[string]*unstructured.Unstructured // by kind
	kinds       map[string]int
}

func template(t *testing.T, args ...string) objects {
	t.Helper()
	said, err := helm(t, append([]string{"template", "fanmail", chart, "--namespace", "mail"}, args...)...)
	require.NoError(t, err, said)
	all := objects{
		deployments: map[string]*appsv1.Deployment{}, configMaps: map[string]*corev1.ConfigMap{}, jobs: map[string]*batchv1.Job{},
		budgets: map[string]*policyv1.PodDisruptionBudget{}, autoscalers: map[string]*autoscalingv2.HorizontalPodAutoscaler{},
		policies: map[string]*networkingv1.NetworkPolicy{}, ingresses: map[string]*networkingv1.Ingress{},
		cronJobs: map[string]*batchv1.CronJob{}, pods: map[string]*corev1.Pod{}, custom: map[string]*unstructured.Unstructured{}, kinds: map[string]int{},
	}
	for _, document := range documents(t, said) {
		all.add(t, document)
	}
	return all
}

var strict = serializer.NewCodecFactory(scheme.Scheme, serializer.EnableStrict).UniversalDeserializer()

func (all objects) add(t *testing.T, document string) {
	t.Helper()
	object, kind, err := strict.Decode([]byte(document), nil, nil)
	if runtime.IsNotRegisteredError(err) {
		custom := decodeCustom(t, document)
		all.custom[custom.GetKind()] = custom
		all.kinds[custom.GetKind()]++
		return
	}
	require.NoError(t, err, document)
	all.kinds[kind.Kind]++
	switch o := object.(type) {
	case *appsv1.Deployment:
		all.deployments[o.Name] = o
	case *corev1.ConfigMap:
		all.configMaps[o.Name] = o
	case *batchv1.Job:
		all.jobs[o.Name] = o
	case *policyv1.PodDisruptionBudget:
		all.budgets[o.Name] = o
	case *autoscalingv2.HorizontalPodAutoscaler:
		all.autoscalers[o.Name] = o
	case *networkingv1.NetworkPolicy:
		all.policies[o.Name] = o
	case *networkingv1.Ingress:
		all.ingresses[o.Name] = o
	case *batchv1.CronJob:
		all.cronJobs[o.Name] = o
	case *corev1.Pod:
		all.pods[o.Name] = o
	}
}

func decodeCustom(t *testing.T, document string) *unstructured.Unstructured {
	t.Helper()
	var content map[string]any
	require.NoError(t, yaml.Unmarshal([]byte(document), &content))
	asJSON, err := json.Marshal(content) // which has the types that Kubernetes works on
	require.NoError(t, err)
	object := new(unstructured.Unstructured)
	require.NoError(t, object.UnmarshalJSON(asJSON))
	return object
}

func TestHelmTemplate(t *testing.T) {
	t.Parallel()
	require.Equal(t, map[string]int{
		"ConfigMap": 4, "Deployment": 3, "Job": 1, "Pod": 1, "PodDisruptionBudget": 3, "Service": 3,
	}, template(t, "--values", least).kinds)
	require.Equal(t, map[string]int{
		"ConfigMap": 5, "Deployment": 3, "Job": 1, "Pod": 1, "PodDisruptionBudget": 3, "Service": 3,
		"CronJob": 1, "HTTPRoute": 1, "HorizontalPodAutoscaler": 2, "Ingress": 1, "NetworkPolicy": 3, "PrometheusRule": 1, "ScaledObject": 1, "ServiceMonitor": 1,
	}, template(t, "--values", whole).kinds)
}

// Each pod runs a program of the image, with a configuration that is allowed, and is not killed before it has drained.
func TestHelmPods(t *testing.T) {
	t.Parallel()
	for _, values := range []string{least, whole} {
		all := template(t, "--values", values)
		for name, deployment := range all.deployments {
			pod := deployment.Spec.Template.Spec
			cfg := requirePod(t, all, pod)
			requireOutlasts(t, time.Duration(*pod.TerminationGracePeriodSeconds)*time.Second, cfg)
			requireProbes(t, pod.Containers[0])
			require.Equal(t, deployment.Spec.Selector, all.budgets[name].Spec.Selector)
			require.Equal(t, int32(1), all.budgets[name].Spec.MaxUnavailable.IntVal)
			require.Subset(t, deployment.Spec.Template.Labels, deployment.Spec.Selector.MatchLabels)
		}
		for _, job := range all.jobs {
			requirePod(t, all, job.Spec.Template.Spec)
			require.NotZero(t, *job.Spec.ActiveDeadlineSeconds, "a hook that never ends holds an upgrade up")
		}
	}
}

// requireConfined checks that a pod has no rights that it does not need.
func requireConfined(t *testing.T, pod corev1.PodSpec) {
	t.Helper()
	require.False(t, *pod.AutomountServiceAccountToken)
	require.True(t, *pod.SecurityContext.RunAsNonRoot)
	require.Equal(t, corev1.SeccompProfileTypeRuntimeDefault, pod.SecurityContext.SeccompProfile.Type)
	container := pod.Containers[0]
	require.True(t, *container.SecurityContext.ReadOnlyRootFilesystem)
	require.False(t, *container.SecurityContext.AllowPrivilegeEscalation)
	require.Equal(t, []corev1.Capability{"ALL"}, container.SecurityContext.Capabilities.Drop)
	require.NotEmpty(t, container.Resources.Requests)
	require.NotEmpty(t, container.Resources.Limits[corev1.ResourceMemory])
}

// requirePod checks what all pods with a configuration have in common, and returns it.
func requirePod(t *testing.T, all objects, pod corev1.PodSpec) config.Config {
	t.Helper()
	requireConfined(t, pod)
	container := pod.Containers[0]
	require.Contains(t, roles, container.Command[0])
	volumes := map[string]corev1.Volume{}
	for _, volume := range pod.Volumes {
		volumes[volume.Name] = volume
	}
	mounted := map[string]corev1.Volume{}
	for _, mount := range container.VolumeMounts {
		require.True(t, mount.ReadOnly)
		mounted[mount.MountPath] = volumes[mount.Name]
	}
	env := map[string]string{}
	for _, variable := range container.Env {
		switch {
		case !strings.HasPrefix(variable.Name, "FANMAIL_"):
			continue
		case strings.HasSuffix(variable.Name, "_FILE"):
			require.NotNil(t, mounted[filepath.Dir(variable.Value)].Secret, "%s is in no Secret", variable.Value)
		}
		env[variable.Name] = variable.Value
	}
	file := all.configMaps[mounted[filepath.Dir(env[config.FileEnv])].ConfigMap.Name].Data[filepath.Base(env[config.FileEnv])]
	return loads(t, file, env)
}

func requireProbes(t *testing.T, container corev1.Container) {
	t.Helper()
	require.Equal(t, "/healthz", container.StartupProbe.HTTPGet.Path)
	require.Equal(t, "/healthz", container.LivenessProbe.HTTPGet.Path)
	require.Equal(t, "/readyz", container.ReadinessProbe.HTTPGet.Path)
	// A database that is away for long is no reason to restart what waits for it; but a probe has to get its answer in time.
	require.GreaterOrEqual(t, container.ReadinessProbe.TimeoutSeconds, int32(5))
}

// The fan-out workers are as many as find something to do in the bulk lane, however it is configured.
func TestHelmScales(t *testing.T) {
	t.Parallel()
	for most, set := range map[int64][]string{
		8:  nil,
		16: {"config.partitions=32"},
		6:  {"config.fanout.bulk_workers=3"},
		5:  {"roles.fanout-worker.config.fanout.bulk_workers=4", "config.partitions=17"},
		3:  {"keda.maxReplicas=3"},
	} {
		args := []string{"--values", whole}
		for _, value := range set {
			args = append(args, "--set", value)
		}
		all := template(t, args...)
		scaled := all.custom["ScaledObject"]
		replicas, _, err := unstructured.NestedInt64(scaled.Object, "spec", "maxReplicaCount")
		require.NoError(t, err)
		require.Equal(t, most, replicas, set)
		triggers, _, err := unstructured.NestedSlice(scaled.Object, "spec", "triggers")
		require.NoError(t, err)
		require.Len(t, triggers, 3, "a trigger for each lane")
		target, _, err := unstructured.NestedString(scaled.Object, "spec", "scaleTargetRef", "name")
		require.NoError(t, err)
		require.Contains(t, slices.Collect(maps.Keys(all.deployments)), target)
		require.Nil(t, all.deployments[target].Spec.Replicas, "KEDA and the chart both say how many")
	}
}

// The chart has the very rules and the very dashboard of deploy/.
func TestHelmMonitoring(t *testing.T) {
	t.Parallel()
	all := template(t, "--values", whole)
	require.JSONEq(t, read(t, "grafana", "fanmail.json"), all.configMaps["fanmail-dashboard"].Data["fanmail.json"])
	var rules map[string]any
	require.NoError(t, yaml.Unmarshal([]byte(read(t, "prometheus", "fanmail.rules.yaml")), &rules))
	require.NotEmpty(t, rules["groups"])
	want, err := json.Marshal(rules)
	require.NoError(t, err)
	const public = "https://github.com/fanmail/fanmail/blob/main/docs/operations.md"
	require.Contains(t, string(want), public+"#fanmaildown")
	want = bytes.ReplaceAll(want, []byte(public), []byte("https://wiki.example.com/fanmail"))
	have, err := json.Marshal(all.custom["PrometheusRule"].Object["spec"])
	require.NoError(t, err)
	require.JSONEq(t, string(want), string(have))
}
