{{/* The name of the objects. */}}
{{- define "node-partition.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}
{{- define "node-partition.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{ .Values.fullnameOverride | trunc 40 | trimSuffix "-" }}
{{- else -}}
{{ default .Chart.Name .Values.nameOverride | trunc 40 | trimSuffix "-" }}
{{- end -}}
{{- end -}}

{{/* The account of the controller. The policies match it in each namespace. */}}
{{- define "node-partition.account" -}}
{{ include "node-partition.fullname" . }}-rollout
{{- end -}}

{{/* What selects the controller's pods. */}}
{{- define "node-partition.selector" -}}
app.kubernetes.io/name: {{ include "node-partition.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: rollout
{{- end -}}

{{/* Labels of all objects. */}}
{{- define "node-partition.labels" -}}
app.kubernetes.io/name: {{ include "node-partition.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/part-of: node-partition
app.kubernetes.io/version: {{ regexReplaceAll "[-._]+$" (.Chart.AppVersion | replace "+" "_" | replace "~" "_" | trunc 63) "" | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name (.Chart.Version | replace "+" "_") }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* The image: by digest if there is one, since a tag can be moved. */}}
{{- define "node-partition.image" -}}
{{- $name := required "image.repository: set it to the name of the image in your registry" .Values.image.repository -}}
{{- if .Values.image.digest -}}
{{ $name }}@{{ .Values.image.digest }}
{{- else -}}
{{ $name }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end -}}
