{{- /* A label has at most 63 characters, and that of the rotation has the suffix "-rotate". */}}
{{- define "auth-gateway.name" -}}
{{ default .Chart.Name .Values.nameOverride | trunc 56 | trimSuffix "-" }}
{{- end }}

{{- /* At most 45 characters: the name of a CronJob has at most 52, and its suffix is "-rotate". The names of other
objects have at most 63, and the longest suffix is "-management". */}}
{{- define "auth-gateway.fullname" -}}
{{- $name := default .Chart.Name .Values.nameOverride }}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 45 | trimSuffix "-" }}
{{- else if contains $name .Release.Name }}
{{- .Release.Name | trunc 45 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name $name | trunc 45 | trimSuffix "-" }}
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

{{- /* The host of the public URL, for a route of this kind to the gateway: a list of the context and the name of its values. */}}
{{- define "auth-gateway.host" -}}
{{- $kind := last . }}
{{- with first . }}
{{- $url := urlParse .Values.settings.http.public_url }}
{{- if trimPrefix "/" $url.path }}
{{- fail (printf "%s: settings.http.public_url has a path, so a route of your own must remove it from the requests" $kind) }}
{{- end }}
{{- if not .Values.settings.http.trusted_proxies }}
{{- fail (printf "%s needs settings.http.trusted_proxies, the network of its pods: otherwise all clients have the address of the proxy, and share its login limits" $kind) }}
{{- end }}
{{- $url.hostname }}
{{- end }}
{{- end }}

{{- /* Other labels than those of the gateway: the pods of the jobs are not its replicas. */}}
{{- define "auth-gateway.rotate.selector" -}}
app.kubernetes.io/name: {{ include "auth-gateway.name" . }}-rotate
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "auth-gateway.rotate.labels" -}}
{{ include "auth-gateway.rotate.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
{{- end }}

{{- /* A container that copies keys between the secrets and files. */}}
{{- define "auth-gateway.rotate.copy" -}}
{{- $step := .step }}
{{- with .context }}
- name: {{ $step }}
  image: {{ .Values.keys.rotation.kubectlImage }}
  imagePullPolicy: {{ .Values.image.pullPolicy }}
  command: [sh, -c]
  args:
    - |
      {{- .Files.Get "files/keys.sh" | nindent 6 }}
    - keys
    - {{ $step }}
  env:
    - { name: SIGNING_SECRET, value: {{ .Values.keys.signing }} }
    - { name: SEALING_SECRET, value: {{ .Values.keys.sealing }} }
  resources:
    {{- toYaml .Values.keys.rotation.resources | nindent 4 }}
  securityContext:
    {{- include "auth-gateway.container.security" . | nindent 4 }}
  volumeMounts:
    - { name: keys, mountPath: /keys }
{{- end }}
{{- end }}

{{- define "auth-gateway.pod.security" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
seccompProfile: { type: RuntimeDefault }
{{- end }}

{{- /* Where the pods of the gateway and of the rotation run. */}}
{{- define "auth-gateway.pod.scheduling" -}}
{{- with .Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "auth-gateway.container.security" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: { drop: [ALL] }
{{- end }}

{{- /* The files of the gateway, without the keys: mounts, and volumes. */}}
{{- define "auth-gateway.mounts" -}}
# One file: a folder here cannot contain the mounts below.
- name: settings
  mountPath: /etc/auth-gateway/auth-gateway.toml
  subPath: auth-gateway.toml
  readOnly: true
{{- if .Values.secrets }}
- { name: secrets, mountPath: /etc/auth-gateway/secrets, readOnly: true }
{{- end }}
{{- if .Values.certificates }}
- { name: certificates, mountPath: /etc/auth-gateway/tls, readOnly: true }
{{- end }}
{{- end }}

{{- define "auth-gateway.volumes" -}}
- name: settings
  configMap: { name: {{ include "auth-gateway.fullname" . }} }
{{- with .Values.secrets }}
- name: secrets
  projected:
    defaultMode: 0440
    sources:
      {{- toYaml . | nindent 6 }}
{{- end }}
{{- with .Values.certificates }}
- name: certificates
  projected:
    defaultMode: 0440
    sources:
      {{- toYaml . | nindent 6 }}
{{- end }}
{{- end }}

{{- /* A file of the alerts or the dashboard: a list of the context, the name of the values that need it, and its path.
`monitoring` is a symbolic link, which some tools leave out: without the file, the object would be empty. */}}
{{- define "auth-gateway.file" -}}
{{- $path := last . }}
{{- $missing := printf "%s needs %s, which this copy of the chart lacks: use what `helm package deploy/chart` makes" (index . 1) $path }}
{{- (first .).Files.Get $path | required $missing }}
{{- end }}

{{- /* A key that is not bare, such as a claim with dots, is a string. */}}
{{- define "auth-gateway.toml.key" -}}
{{- if regexMatch "^[A-Za-z0-9_-]+$" . }}{{ . }}{{ else }}{{ toRawJson . }}{{ end }}
{{- end }}

{{- /* JSON strings are TOML strings. Helm reads all numbers as floats; most numbers of the settings must be integers. */}}
{{- define "auth-gateway.toml.value" -}}
{{- if kindIs "string" . }}{{ toRawJson . }}
{{- else if kindIs "bool" . }}{{ . }}
{{- else if kindIs "slice" . }}[
{{- range $index, $item := . }}{{ if $index }}, {{ end }}{{ include "auth-gateway.toml.value" $item }}{{ end }}]
{{- else if kindIs "map" . }}{
{{- range $index, $key := keys . | sortAlpha }}{{ if $index }}, {{ end }}{{ include "auth-gateway.toml.key" $key }} = {{ include "auth-gateway.toml.value" (get $ $key) }}{{ end }}}
{{- else if eq (floor .) (float64 .) }}{{ int64 . }}
{{- else }}{{ . }}
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
{{ include "auth-gateway.toml.key" $key }} = {{ include "auth-gateway.toml.value" $value }}
{{- end }}
{{- end }}
{{- range $key, $value := .table }}
{{- if kindIs "map" $value }}
{{- $inner := include "auth-gateway.toml.key" $key | printf "%s.%s" $path | trimPrefix "." }}
{{- include "auth-gateway.toml.table" (dict "path" $inner "table" $value) }}
{{- end }}
{{- end }}
{{- end }}
