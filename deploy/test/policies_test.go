package deploy_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	networkingv1 "k8s.io/api/networking/v1"
)

// The controllers scale what exists, in place of the chart.
func TestHelmAutoscalers(t *testing.T) {
	t.Parallel()
	all := template(t, "--values", whole)
	for name, scaler := range all.autoscalers {
		require.Equal(t, name, scaler.Spec.ScaleTargetRef.Name)
		require.Equal(t, "Deployment", scaler.Spec.ScaleTargetRef.Kind)
		require.Contains(t, all.deployments, name)
		require.Nil(t, all.deployments[name].Spec.Replicas, "the controller and the chart both say how many")
		require.NotEmpty(t, all.deployments[name].Spec.Template.Spec.Containers[0].Resources.Requests.Cpu(), "of what the use is a share")
		require.LessOrEqual(t, *scaler.Spec.MinReplicas, scaler.Spec.MaxReplicas)
	}
	require.EqualValues(t, 4, all.autoscalers["fanmail-publisher"].Spec.MaxReplicas)
	require.EqualValues(t, 2, *template(t, "--values", least).deployments["fanmail-publisher"].Spec.Replicas)
}

// A role may have an image of its own; the others have the common one.
func TestHelmImages(t *testing.T) {
	t.Parallel()
	const digest = "sha256:0000000000000000000000000000000000000000000000000000000000000000"
	for set, want := range map[string]string{
		"":                                       "registry.internal/fanmail-publisher:v1",
		"roles.publisher.image.digest=" + digest: "registry.internal/fanmail-publisher@" + digest,
		"roles.publisher.image.repository=,roles.publisher.image.tag=v2":               "registry.internal/fanmail:v2",
		"roles.publisher.image.repository=,roles.publisher.image.tag=":                 "registry.internal/fanmail@" + digest,
		"roles.publisher.image.tag=,image.tag=v3,image.digest=":                        "registry.internal/fanmail-publisher:v3",
		"roles.publisher.image.tag=":                                                   "registry.internal/fanmail-publisher:0.1.0",
		"roles.publisher.image.repository=,roles.publisher.image.tag=v2,image.digest=": "registry.internal/fanmail:v2",
		"roles.publisher.image.repository=,roles.publisher.image.tag=,image.digest=":   "registry.internal/fanmail:0.1.0",
	} {
		args := []string{"--values", whole}
		if set != "" {
			args = append(args, "--set", set)
		}
		all := template(t, args...)
		require.Equal(t, want, all.deployments["fanmail-publisher"].Spec.Template.Spec.Containers[0].Image, set)
		if !strings.Contains(set, ",image.") {
			require.Equal(t, "registry.internal/fanmail@"+digest, all.deployments["fanmail-rehydrator"].Spec.Template.Spec.Containers[0].Image)
			require.Equal(t, "registry.internal/fanmail@"+digest, all.jobs["fanmail-init"].Spec.Template.Spec.Containers[0].Image)
		}
	}
}

func TestHelmEnvironment(t *testing.T) {
	t.Parallel()
	all := template(t, "--values", whole)
	for name, deployment := range all.deployments {
		env := map[string]string{}
		for _, variable := range deployment.Spec.Template.Spec.Containers[0].Env {
			env[variable.Name] = variable.Value
		}
		require.Equal(t, "http://collector.monitoring:4318", env["OTEL_EXPORTER_OTLP_ENDPOINT"], name)
		require.Equal(t, "0.05", env["OTEL_TRACES_SAMPLER_ARG"], name)
		require.Equal(t, "madvdontneed=1", env["GODEBUG"], name)
		require.Contains(t, env, "NODE", name)
		require.Equal(t, name == "fanmail-publisher", env["GOGC"] == "200", name)
	}
}

// The audit asks the rehydrator's Service, with a token and no other secret.
func TestHelmAudit(t *testing.T) {
	t.Parallel()
	job := template(t, "--values", whole).cronJobs["fanmail-audit"].Spec.JobTemplate.Spec
	require.Zero(t, *job.BackoffLimit, "a repetition would hide a finding")
	require.NotZero(t, *job.ActiveDeadlineSeconds)
	pod := job.Template.Spec
	requireConfined(t, pod)
	container := pod.Containers[0]
	require.Equal(t, []string{"fanmail", "audit", "--sample", "1000"}, container.Command)
	env := map[string]string{}
	for _, variable := range container.Env {
		env[variable.Name] = variable.Value
	}
	require.Equal(t, map[string]string{
		"FANMAIL_REHYDRATOR": "https://fanmail-rehydrator:8080",
		"FANMAIL_TOKEN_FILE": "/run/secrets/fanmail/token/token",
		"FANMAIL_CA_FILE":    "/run/secrets/fanmail/ca/ca.crt",
	}, env)
	for _, volume := range pod.Volumes {
		if volume.Name == "ca" {
			require.Len(t, volume.Secret.Items, 1, "the private key stays where it is")
			require.Equal(t, "ca.crt", volume.Secret.Items[0].Key)
		}
	}
}

// helm test asks every role.
func TestHelmTestPod(t *testing.T) {
	t.Parallel()
	for values, scheme := range map[string]string{least: "http", whole: "https"} {
		pod := template(t, "--values", values).pods["fanmail-test"]
		requireConfined(t, pod.Spec)
		require.Equal(t, "test", pod.Annotations["helm.sh/hook"])
		require.NotZero(t, *pod.Spec.ActiveDeadlineSeconds)
		for _, role := range []string{"publisher", "fanout-worker", "rehydrator"} {
			require.Contains(t, pod.Spec.Containers[0].Command, scheme+"://fanmail-"+role+":8080/readyz")
		}
	}
	all := template(t, "--values", least, "--set", "service.port=80")
	require.Contains(t, all.pods["fanmail-test"].Spec.Containers[0].Command, "http://fanmail-publisher:80/readyz")
	require.Contains(t, all.pods["fanmail-test"].Spec.Containers[0].Command, "http://fanmail-fanout-worker:8080/readyz", "its Service is headless")
}

// Policies let in whom the pods serve, and out to what they need, and nothing else.
func TestHelmPolicies(t *testing.T) {
	t.Parallel()
	all := template(t, "--values", whole)
	for role, components := range map[string][]string{"publisher": {"test"}, "fanout-worker": {"test"}, "rehydrator": {"audit", "test"}} {
		policy := all.policies["fanmail-"+role]
		require.Equal(t, all.deployments["fanmail-"+role].Spec.Selector.MatchLabels, policy.Spec.PodSelector.MatchLabels)
		require.Equal(t, []networkingv1.PolicyType{networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress}, policy.Spec.PolicyTypes)
		require.Len(t, policy.Spec.Ingress, 1)
		var own []string
		for _, peer := range policy.Spec.Ingress[0].From {
			if peer.PodSelector != nil && peer.PodSelector.MatchLabels["app.kubernetes.io/component"] != "" {
				own = append(own, peer.PodSelector.MatchLabels["app.kubernetes.io/component"])
			}
		}
		require.Equal(t, components, own)
		var ports []int32
		for _, rule := range policy.Spec.Egress {
			for _, port := range rule.Ports {
				ports = append(ports, port.Port.IntVal)
			}
		}
		require.Equal(t, []int32{53, 53, 27017, 27018, 4222, 4318}, ports)
		require.Equal(t, "10.0.0.0/24", policy.Spec.Egress[1].To[0].IPBlock.CIDR)
		require.Empty(t, policy.Spec.Egress[2].To, "everywhere, on this port")
	}
	closed := template(t, "--values", whole, "--set", "networkPolicy.egress.enabled=false").policies["fanmail-publisher"]
	require.Equal(t, []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}, closed.Spec.PolicyTypes)
	require.Empty(t, closed.Spec.Egress)
}
