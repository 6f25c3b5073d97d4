{{- /* Refuses values that names.yaml does not have, and secrets among the settings. It is called with the context of a template. */}}
{{- define "auth-gateway.known" -}}
{{- $known := .Files.Get "names.yaml" | fromYaml }}
{{- $problems := include "auth-gateway.unknown" (dict "path" "" "values" .Values "known" $known "all" $known) | trim }}
{{- range $name, $settings := .Values.settings.iam }}
{{- $kind := default $name $settings.type }}
{{- $path := printf "settings.iam.%s" $name }}
{{- with get $known.settings.iam $kind }}
{{- $problems = include "auth-gateway.unknown" (dict "path" $path "values" $settings "known" . "all" $known) | trim | printf "%s\n%s" $problems }}
{{- else }}
{{- $problems = printf "%s\n%s: there is no adapter %s; there are: %s; a section with another name needs `type`" $problems $path $kind (keys $known.settings.iam | sortAlpha | join ", ") }}
{{- end }}
{{- end }}
{{- with trim $problems }}
{{- fail (printf "\n%s" .) }}
{{- end }}
{{- end }}

{{- /* A line for each name in `values` that is not in `known`, or that is a secret, which can also be read from a file; `path` is
that of both. A known name without names in it has a value, or a table that is not checked here. */}}
{{- define "auth-gateway.unknown" -}}
{{- range $name, $value := .values }}
{{- $path := printf "%s.%s" $.path $name | trimPrefix "." }}
{{- if not (hasKey $.known $name) }}
{{ $path }}: no such value; the nearest is {{ include "auth-gateway.nearest" (dict "path" $.path "name" $name "known" $.known "all" $.all) }}
{{- else if hasKey $.known (printf "%s_file" $name) }}
{{ $path }}: a secret does not belong in a ConfigMap; set {{ $path }}_file
{{- else if and (kindIs "map" $value) (get $.known $name) (ne $path "settings.iam") }}
{{- include "auth-gateway.unknown" (dict "path" $path "values" $value "known" (get $.known $name) "all" $.all) }}
{{- end }}
{{- end }}
{{- end }}

{{- /* The same name in at most three other places, or else the name in this place with the fewest edits. */}}
{{- define "auth-gateway.nearest" -}}
{{- $places := include "auth-gateway.places" (dict "path" "" "name" .name "known" .all) | trim | splitList "\n" }}
{{- if and (first $places) (le (len $places) 3) }}
{{- join " or " $places }}
{{- else }}
{{- $nearest := "" }}
{{- $least := 1000 }}
{{- range keys .known | sortAlpha }}
{{- $edits := include "auth-gateway.edits" (dict "from" $.name "to" .) | int }}
{{- if lt $edits $least }}
{{- $nearest = . }}
{{- $least = $edits }}
{{- end }}
{{- end }}
{{- printf "%s.%s" .path $nearest | trimPrefix "." }}
{{- end }}
{{- end }}

{{- /* The full names of a name, a line each. */}}
{{- define "auth-gateway.places" -}}
{{- range $name, $known := .known }}
{{- $path := printf "%s.%s" $.path $name | trimPrefix "." }}
{{- if eq $name $.name }}
{{ $path }}
{{- end }}
{{- include "auth-gateway.places" (dict "path" $path "name" $.name "known" $known) }}
{{- end }}
{{- end }}

{{- /* The Levenshtein distance of two names, by the rows of its matrix. */}}
{{- define "auth-gateway.edits" -}}
{{- $to := splitList "" .to }}
{{- $row := until (add1 (len $to) | int) }}
{{- range $i, $from := splitList "" .from }}
{{- $next := list (add1 $i) }}
{{- range $j, $letter := $to }}
{{- $replaced := add (index $row $j) (ternary 0 1 (eq $letter $from)) }}
{{- $next = append $next (min $replaced (add1 (last $next)) (add1 (index $row (add1 $j | int)))) }}
{{- end }}
{{- $row = $next }}
{{- end }}
{{- last $row }}
{{- end }}
