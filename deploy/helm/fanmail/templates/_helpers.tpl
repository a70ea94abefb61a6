{{- define "fanmail.name" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name }}{{ else }}{{ .Release.Name }}-{{ .Chart.Name }}{{ end }}
{{- end }}

{{/* The labels that select the pods of a role; they never change. Takes (dict "root" $ "role" name). */}}
{{- define "fanmail.selector" -}}
app.kubernetes.io/name: fanmail
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .role }}
{{- end }}

{{- define "fanmail.labels" -}}
{{ include "fanmail.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/part-of: fanmail
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version }}
{{- end }}

{{/* The image of a role. What the role's own image leaves empty is that of the image of all roles. Takes (dict "root" $ "role" name). */}}
{{- define "fanmail.image" -}}
{{- $image := .root.Values.image }}
{{- with index .root.Values.roles .role }}
{{- $own := .image }}
{{- $repository := $own.repository | default $image.repository }}
{{- if or $own.tag $own.digest (ne $repository $image.repository) }}
{{- $image = dict "repository" $repository "tag" ($own.tag | default $image.tag) "digest" $own.digest }}
{{- end }}
{{- end }}
{{- with $image -}}
{{ .repository }}{{ if .digest }}@{{ .digest }}{{ else }}:{{ .tag | default $.root.Chart.AppVersion }}{{ end }}
{{- end }}
{{- end }}

{{/* Variables that are not keys of Fanmail's configuration. Takes (dict "root" $ "extra" list). */}}
{{- define "fanmail.moreEnv" -}}
{{- range $name, $value := .root.Values.otel }}
- name: {{ $name }}
  value: {{ $value | quote }}
{{- end }}
{{- with concat .root.Values.extraEnv .extra }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* The paths of the public API by role, as regular expressions of which no path matches two. */}}
{{- define "fanmail.paths" -}}
publisher:
  - /v1/(messages|following|identities|topics|subscriptions)([/:].*)?$
  - /v1/users/[^/]+/(blocked|followers|following|identities|topics)(/.*)?$
rehydrator:
  - /v1/users/[^/]+(/(login|retention|inbox([/:].*)?))?$
  - /v1/(users|inboxes):[^/]+$
  - /v1/admin/.*$
  - /console(/.*)?$
  - /openapi\.json$
{{- end }}

{{/* Peers that are pods of this release. Takes (dict "root" $ "role" name). */}}
{{- define "fanmail.peer" -}}
podSelector:
  matchLabels: {{- include "fanmail.selector" . | nindent 4 }}
{{- end }}

{{/* The URL of a role in the cluster. The service of the fan-out workers is headless, so its name leads to the pods, with their port. Takes
(dict "root" $ "role" name). */}}
{{- define "fanmail.url" -}}
{{ .root.Values.secrets.tls.name | empty | ternary "http" "https" }}://{{ include "fanmail.name" .root }}-{{ .role }}:{{ eq .role "fanout-worker" | ternary 8080 (int .root.Values.service.port) }}
{{- end }}

{{/* The configuration of a role. The chart's own keys win over the role's keys, and these over the keys of all roles. */}}
{{- define "fanmail.config" -}}
{{- $role := dict }}
{{- with index .root.Values.roles .role }}{{ $role = .config }}{{ end }}
{{- $own := dict "addr" ":8080" "store" "mongodb" "drain_timeout" (printf "%ds" (int .root.Values.drainSeconds))
      "nats" (dict "url" (required "nats.url is empty: say where the NATS servers are" .root.Values.nats.url) "replicas" .root.Values.nats.replicas) }}
{{- toYaml (mustMergeOverwrite (deepCopy .root.Values.config) (deepCopy $role) $own) }}
{{- end }}

{{/* Where each key of the Secrets is mounted, as a list of {group, name, key, file, env}. */}}
{{- define "fanmail.secrets" -}}
{{- $values := .Values.secrets }}
{{- $files := list
      (list "mongodb" "uriKey" "FANMAIL_MONGODB_URI_FILE")
      (list "mongodb" "caKey" "FANMAIL_MONGODB_CA_FILE")
      (list "mongodb" "certKey" "FANMAIL_MONGODB_CERT_FILE")
      (list "nats" "credentialsKey" "FANMAIL_NATS_CREDENTIALS_FILE")
      (list "nats" "caKey" "FANMAIL_NATS_CA_FILE")
      (list "nats" "certKey" "FANMAIL_NATS_CERT_FILE")
      (list "nats" "keyKey" "FANMAIL_NATS_KEY_FILE")
      (list "auth" "tokensKey" "FANMAIL_AUTH_TOKENS_FILE")
      (list "auth" "jwtKeysKey" "FANMAIL_AUTH_JWT_KEYS_FILE")
      (list "tls" "certKey" "FANMAIL_TLS_CERT_FILE")
      (list "tls" "keyKey" "FANMAIL_TLS_KEY_FILE") }}
{{- $used := list }}
{{- range $files }}
{{- $group := index . 0 }}{{ $secret := index $values $group }}{{ $key := index $secret (index . 1) }}
{{- if and $secret.name $key }}
{{- $used = append $used (dict "group" $group "name" $secret.name "key" $key "env" (index . 2)) }}
{{- end }}
{{- end }}
{{- toYaml $used }}
{{- end }}

{{- define "fanmail.env" -}}
- name: FANMAIL_CONFIG
  value: /etc/fanmail/fanmail.yaml
{{- range include "fanmail.secrets" . | fromYamlArray }}
- name: {{ .env }}
  value: /run/secrets/fanmail/{{ .group }}/{{ .key }}
{{- end }}
{{- with .Values.secrets.auth }}
{{- if and .name .jwtKeysKey }}
- name: FANMAIL_AUTH_JWT_AUDIENCE
  value: {{ required "secrets.auth.jwtAudience is empty: say what JSON Web Tokens have to name in aud" .jwtAudience | quote }}
{{- end }}
{{- end }}
{{- end }}

{{- define "fanmail.mounts" -}}
- name: config
  mountPath: /etc/fanmail
  readOnly: true
{{- $groups := dict }}
{{- range include "fanmail.secrets" . | fromYamlArray }}{{ $_ := set $groups .group .name }}{{ end }}
{{- range $group, $_ := $groups }}
- name: {{ $group }}
  mountPath: /run/secrets/fanmail/{{ $group }}
  readOnly: true
{{- end }}
{{- end }}

{{/* Whole folders, so a changed Secret changes the files, too. Takes (dict "root" $ "configMap" name "mongodb" name). */}}
{{- define "fanmail.volumes" -}}
- name: config
  configMap: { name: {{ .configMap }} }
{{- $groups := dict }}
{{- range include "fanmail.secrets" .root | fromYamlArray }}{{ $_ := set $groups .group .name }}{{ end }}
{{- if .mongodb }}{{ $_ := set $groups "mongodb" .mongodb }}{{ end }}
{{- range $group, $name := $groups }}
- name: {{ $group }}
  secret: { secretName: {{ $name }}, defaultMode: 0440 }
{{- end }}
{{- end }}

{{- define "fanmail.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
# This group can read the Secrets.
fsGroup: 65532
seccompProfile: { type: RuntimeDefault }
{{- end }}

{{- define "fanmail.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: { drop: [ALL] }
{{- end }}

{{/* The number of fan-out workers that find work: see keda in values.yaml. */}}
{{- define "fanmail.maxReplicas" -}}
{{- $config := include "fanmail.config" (dict "root" . "role" "fanout-worker") | fromYaml }}
{{- $bulk := dig "fanout" "bulk_workers" 2 $config | int }}
{{- $partitions := dig "partitions" 16 $config | int }}
{{- .Values.keda.maxReplicas | int | default (div (add $partitions $bulk -1) $bulk) }}
{{- end }}

{{- define "fanmail.check" -}}
{{- $_ := required "secrets.mongodb.name is empty: name the Secret with MongoDB's connection string" .Values.secrets.mongodb.name }}
{{- if not (or .Values.secrets.auth.name (dig "insecure" false .Values.config)) }}
{{- fail "secrets.auth.name is empty: name the Secret with the tokens file, or set config.insecure; then every client that reaches a pod can read every inbox" }}
{{- end }}
{{- if dig "tls" "client_ca_file" "" .Values.config }}
{{- fail "config.tls.client_ca_file is set: a kubelet has no certificate, so that no pod would ever be ready; leave client certificates to a mesh" }}
{{- end }}
{{- end }}
