{{- define "kafka-s3.name" -}}
{{- default .Release.Name .Values.nameOverride | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{- define "kafka-s3.labels" -}}
app.kubernetes.io/name: kafka-s3
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- define "kafka-s3.selector" -}}
app.kubernetes.io/name: kafka-s3
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "kafka-s3.image" -}}
{{- $tag := required "image.tag: name the version that you have tried" .Values.image.tag -}}
{{- $repository := required "image.repository: name the image that the Dockerfile made" .Values.image.repository -}}
{{- if hasPrefix "sha256:" $tag }}{{ $repository }}@{{ $tag }}{{ else }}{{ $repository }}:{{ $tag }}{{ end -}}
{{- end -}}

{{- define "kafka-s3.serviceAccount" -}}
{{- default (include "kafka-s3.name" .) .Values.serviceAccount.name -}}
{{- end -}}

{{/* The file of one sink: the defaults, its own keys over them, and what the chart itself knows. */}}
{{- define "kafka-s3.configuration" -}}
{{- $own := dict "name" .name "s3.bucket.name" .root.Values.bucket "s3.region" .root.Values.region "state.prefix" .root.Values.statePrefix -}}
{{- $_ := set $own "metrics.prometheus.port" .root.Values.metrics.port -}}
{{- with .root.Values.storeUrl }}{{ $_ := set $own "store.url" . }}{{ end -}}
{{- $texts := dict -}}
{{- range $key, $value := mergeOverwrite (dict) .root.Values.sinkDefaults .sink $own -}}
{{- /* Helm reads numbers as floating point, and would write 1000000 as 1e+06. */ -}}
{{- $whole := and (kindIs "float64" $value) (eq $value (floor $value)) -}}
{{- $_ := set $texts $key (ternary (printf "%.0f" $value) (toString $value) $whole) -}}
{{- end -}}
{{- $texts | toPrettyJson -}}
{{- end -}}

{{- define "kafka-s3.security" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{- define "kafka-s3.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end -}}
