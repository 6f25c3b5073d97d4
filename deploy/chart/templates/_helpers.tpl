{{- define "auth-gateway.name" -}}
{{ default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- /* At most 52 characters: the longest suffix is "-management". */}}
{{- define "auth-gateway.fullname" -}}
{{- $name := default .Chart.Name .Values.nameOverride }}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 52 | trimSuffix "-" }}
{{- else if contains $name .Release.Name }}
{{- .Release.Name | trunc 52 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name $name | trunc 52 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- define "auth-gateway.selector" -}}
app.kubernetes.io/name: {{ include "auth-gateway.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "auth-gateway.labels" -}}
{{ include "auth-gateway.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
{{- end }}

{{- define "auth-gateway.image" -}}
{{- with .Values.image }}
{{- if .digest }}{{ .repository }}@{{ .digest }}
{{- else }}{{ .repository }}:{{ default $.Chart.AppVersion .tag }}
{{- end }}
{{- end }}
{{- end }}

{{- /* The port of an address such as "0.0.0.0:8080". */}}
{{- define "auth-gateway.port" -}}
{{ regexFind "[0-9]+$" . }}
{{- end }}

{{- /* JSON strings are TOML strings. Helm reads all numbers as floats, and all numbers of the settings are whole. */}}
{{- define "auth-gateway.toml.value" -}}
{{- if kindIs "string" . }}{{ toRawJson . }}
{{- else if kindIs "bool" . }}{{ . }}
{{- else if kindIs "slice" . }}[
{{- range $index, $item := . }}{{ if $index }}, {{ end }}{{ include "auth-gateway.toml.value" $item }}{{ end }}]
{{- else if kindIs "map" . }}{
{{- range $index, $key := keys . | sortAlpha }}{{ if $index }}, {{ end }}{{ $key }} = {{ include "auth-gateway.toml.value" (get $ $key) }}{{ end }}}
{{- else }}{{ int64 . }}
{{- end }}
{{- end }}

{{- define "auth-gateway.toml.table" -}}
{{- $path := .path }}
{{- $header := $path }}
{{- range $key, $value := .table }}
{{- if not (kindIs "map" $value) }}
{{- with $header }}

[{{ . }}]
{{- end }}
{{- $header = "" }}
{{ $key }} = {{ include "auth-gateway.toml.value" $value }}
{{- end }}
{{- end }}
{{- range $key, $value := .table }}
{{- if kindIs "map" $value }}
{{- include "auth-gateway.toml.table" (dict "path" (ternary (printf "%s.%s" $path $key) $key (ne $path "")) "table" $value) }}
{{- end }}
{{- end }}
{{- end }}
