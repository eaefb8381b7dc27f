{{- define "rackspan.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{/* With the longest suffix, -metrics or -release, it is the name of a Service or the label of a Job: 63 characters, no dots. */}}
{{- define "rackspan.fullname" -}}
{{- $name := include "rackspan.name" . }}
{{- $default := contains $name .Release.Name | ternary .Release.Name (printf "%s-%s" .Release.Name $name) }}
{{- default $default .Values.fullnameOverride | replace "." "-" | trunc 55 | trimSuffix "-" }}
{{- end }}

{{/* Name of what has no namespace: two releases in two namespaces may share their name. */}}
{{- define "rackspan.clusterName" -}}
{{- printf "%s:%s" .Release.Namespace (include "rackspan.fullname" .) }}
{{- end }}

{{- define "rackspan.selectorLabels" -}}
app.kubernetes.io/name: {{ include "rackspan.name" . | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end }}

{{- define "rackspan.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{ include "rackspan.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/component: operator
app.kubernetes.io/part-of: rackspan
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- define "rackspan.serviceAccountName" -}}
{{- .Values.serviceAccount.name | default (include "rackspan.fullname" .) }}
{{- end }}

{{- define "rackspan.scanServiceAccountName" -}}
{{- .Values.scan.serviceAccount.name | default (printf "%s-scan" (include "rackspan.fullname" .)) }}
{{- end }}

{{- define "rackspan.scanImage" -}}
{{- with .Values.scan.image }}
{{- if .digest }}
{{- printf "%s@%s" .repository .digest }}
{{- else }}
{{- printf "%s:%s" .repository (.tag | default $.Chart.AppVersion) }}
{{- end }}
{{- end }}
{{- end }}

{{/* Labels of what belongs to scans. They are not the operator's: its Service and monitors must not find them. */}}
{{- define "rackspan.scanLabels" -}}
{{- merge (dict "app.kubernetes.io/name" "rackspan-scan" "app.kubernetes.io/component" "scan") (include "rackspan.labels" . | fromYaml) | toYaml }}
{{- end }}

{{/* Labels of the Pod of helm test. */}}
{{- define "rackspan.testLabels" -}}
app.kubernetes.io/name: rackspan-test
app.kubernetes.io/instance: {{ .Release.Name | quote }}
app.kubernetes.io/component: test
{{- end }}

{{- define "rackspan.image" -}}
{{- with .Values.image }}
{{- if .digest }}
{{- printf "%s@%s" .repository .digest }}
{{- else }}
{{- printf "%s:%s" .repository (.tag | default $.Chart.AppVersion) }}
{{- end }}
{{- end }}
{{- end }}

{{/* What the operator does in the namespaces that it watches; docs/reference/rights.md says why it needs each. */}}
{{- define "rackspan.namespacedRules" -}}
- apiGroups: [rackspan.dev]
  resources: [kafkatopics, racktopologies]
  verbs: [list, watch, patch]
- apiGroups: [rackspan.dev]
  resources: [compliancereports]
  verbs: [list, watch]
- apiGroups: [rackspan.dev]
  resources: [reassignments]
  verbs: [list, watch, create, patch, delete]
- apiGroups: [rackspan.dev]
  resources: [kafkatopics/status, racktopologies/status, reassignments/status]
  verbs: [patch]
- apiGroups: [""]
  resources: [pods]
  verbs: [list, watch]
- apiGroups: [""]
  resources: [secrets]
  {{- with .Values.secretNames }}
  resourceNames: {{ toJson . }}
  {{- end }}
  verbs: [get]
- apiGroups: [""]
  resources: [events]
  verbs: [create, patch]
{{- end }}

{{/* What the operator does where it publishes racks. Rights to create cannot be narrowed to names, nor others to labels. */}}
{{- define "rackspan.rackRules" -}}
- apiGroups: [""]
  resources: [configmaps]
  verbs: [list, create, patch, delete]
{{- end }}

{{/* What the operator does where it restarts brokers. RBAC cannot narrow it to brokers' pods. */}}
{{- define "rackspan.restartRules" -}}
- apiGroups: [""]
  resources: [pods]
  verbs: [get]
- apiGroups: [""]
  resources: [pods/eviction]
  verbs: [create]
{{- end }}

{{/* What the operator does where it writes racks on pods, as annotations. Rights over pods would let it change images. */}}
{{- define "rackspan.annotateRules" -}}
- apiGroups: [""]
  resources: [pods/status]
  verbs: [patch]
{{- end }}

{{/* What a scan does where RackTopologies are. */}}
{{- define "rackspan.scanRules" -}}
- apiGroups: [rackspan.dev]
  resources: [racktopologies]
  verbs: [get]
- apiGroups: [rackspan.dev]
  resources: [compliancereports]
  verbs: [create, patch]
- apiGroups: [rackspan.dev]
  resources: [compliancereports/status]
  verbs: [patch]
- apiGroups: [openreports.io]
  resources: [reports]
  verbs: [create, patch]
- apiGroups: [""]
  resources: [secrets]
  {{- with .Values.secretNames }}
  resourceNames: {{ toJson . }}
  {{- end }}
  verbs: [get]
{{- end }}

{{- define "rackspan.scanSubject" -}}
- kind: ServiceAccount
  name: {{ include "rackspan.scanServiceAccountName" . | quote }}
  namespace: {{ .Release.Namespace | quote }}
{{- end }}

{{- define "rackspan.subject" -}}
- kind: ServiceAccount
  name: {{ include "rackspan.serviceAccountName" . | quote }}
  namespace: {{ .Release.Namespace | quote }}
{{- end }}

{{/* Contradictions that a schema cannot see. */}}
{{- define "rackspan.validate" -}}
{{- if and (not .Values.serviceAccount.create) (not .Values.serviceAccount.name) }}
{{- fail "serviceAccount.create is false: name the ServiceAccount to use in serviceAccount.name" }}
{{- end }}
{{- if and .Values.scan.enabled (not .Values.scan.serviceAccount.create) (not .Values.scan.serviceAccount.name) }}
{{- fail "scan.serviceAccount.create is false: name the ServiceAccount to use in scan.serviceAccount.name" }}
{{- end }}
{{- range $key := list "containers" "volumes" "serviceAccountName" "restartPolicy" }}
{{- if hasKey ($.Values.scan.pod | default dict) $key }}
{{- fail (printf "scan.pod: %s is the operator's to set" $key) }}
{{- end }}
{{- end }}
{{- if and .Values.racks.clients.enabled (semverCompare "<1.36.0-0" .Capabilities.KubeVersion.Version) }}
{{- fail (printf "racks.clients.enabled needs Kubernetes 1.36 or newer: this is %s" .Capabilities.KubeVersion.Version) }}
{{- end }}
{{- with .Values.metrics }}
{{- if and .podMonitor.enabled .serviceMonitor.enabled }}
{{- fail "metrics.podMonitor and metrics.serviceMonitor would scrape every metric twice: enable one of them" }}
{{- end }}
{{- if and .serviceMonitor.enabled (not .service.enabled) }}
{{- fail "metrics.serviceMonitor needs metrics.service.enabled: true (or use metrics.podMonitor)" }}
{{- end }}
{{- end }}
{{- $owned := dict "RACKSPAN_NAMESPACES" "watchNamespaces" "RACKSPAN_RESYNC_SECONDS" "resyncSeconds" "RACKSPAN_TOPOLOGIES_PER_NAMESPACE" "topologiesPerNamespace" "RACKSPAN_KAFKA_TRUSTED_NAMESPACES" "kafka.trustedNamespaces" "RACKSPAN_KAFKA_TRUSTED_MEMORY_MIB" "kafka.trusted.memory" "RACKSPAN_KAFKA_UNTRUSTED_MAX" "kafka.untrusted.max" "RACKSPAN_KAFKA_UNTRUSTED_MEMORY_MIB" "kafka.untrusted.memory" "RACKSPAN_PUBLISH_RACKS_TO" "racks.namespaces" "RACKSPAN_RESTART_PODS_IN" "racks.restart" "RACKSPAN_ANNOTATE_PODS_IN" "racks.annotate" "RACKSPAN_LISTEN_PORT" "listenPort" "RACKSPAN_LOG_FORMAT" "log.format" "RACKSPAN_LOG_LEVEL" "log.level" "RACKSPAN_LEASE_NAME" "fullnameOverride" "RACKSPAN_SCAN_IMAGE" "scan.image" "RACKSPAN_SCAN_NAMESPACE" "scan.enabled" "RACKSPAN_SCAN_SERVICE_ACCOUNT" "scan.serviceAccount.name" "RACKSPAN_SCAN_PULL_POLICY" "scan.image.pullPolicy" "RACKSPAN_SCAN_TRUSTED_NAMESPACES" "scan.trustedNamespaces" "RACKSPAN_SCAN_ALLOWED_LOCATIONS" "scan.allowedLocations" "RACKSPAN_SCAN_ALLOWED_CLAIMS" "scan.allowedClaims" "RACKSPAN_SCAN_LIMITS" "scan.limits" "RACKSPAN_SCAN_MAX_RUNNING" "scan.maxRunning" "RACKSPAN_SCAN_TMP_SIZE" "scan.tmpSize" "RACKSPAN_SCAN_STORE_SECRET" "scan.storeSecret" "RACKSPAN_SCAN_POD" "scan.pod" }}
{{- range .Values.extraEnv }}
{{- if has .name (list "RACKSPAN_LEASE_IDENTITY" "RACKSPAN_LEASE_NAMESPACE") }}
{{- fail (printf "extraEnv: the chart sets %s from the Pod" .name) }}
{{- end }}
{{- with get $owned .name }}
{{- fail (printf "extraEnv: set %s instead" .) }}
{{- end }}
{{- end }}
{{- end }}
