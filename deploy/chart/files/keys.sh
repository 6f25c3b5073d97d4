# Copies the key secrets to folders (`read`), and changed folders back to the secrets (`write`). `auth-gateway keys rotate` runs
# between. A secret that has changed in the meantime is not written: the API server refuses its old resource version.
set -eu
umask 077
cd /keys
for use in signing sealing; do
    case $use in
        signing) secret=$SIGNING_SECRET ;;
        sealing) secret=$SEALING_SECRET ;;
    esac
    case $1 in
        read)
            mkdir "$use"
            kubectl get secret "$secret" --output go-template='{{ .metadata.resourceVersion }}{{ "\n" }}{{ range $name, $key := .data }}{{ $name }} {{ $key }}{{ "\n" }}{{ end }}' > "$use.secret"
            tail -n +2 "$use.secret" | while read -r name key; do
                printf %s "$key" | base64 -d > "$use/$name"
            done
            ;;
        write)
            {
                printf '{"metadata": {"resourceVersion": "%s"}, "data": {' "$(head -n 1 "$use.secret")"
                separator=
                # A key that was removed.
                for name in $(tail -n +2 "$use.secret" | cut -d ' ' -f 1); do
                    [ -e "$use/$name" ] || { printf '%s"%s": null' "$separator" "$name"; separator=', '; }
                done
                for key in "$use"/*; do
                    printf '%s"%s": "%s"' "$separator" "${key##*/}" "$(base64 < "$key" | tr -d '\n')"
                    separator=', '
                done
                printf '}}'
            } > "$use.patch"
            kubectl patch secret "$secret" --type merge --patch-file "$use.patch"
            ;;
    esac
done
