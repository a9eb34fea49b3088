{{- define "kafscale.labels" -}}
app.kubernetes.io/name: kafscale-operator
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/part-of: kafscale
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
{{- end }}

{{- define "kafscale.selector" -}}
app.kubernetes.io/name: kafscale-operator
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "kafscale.name" -}}
{{ .Release.Name }}-operator
{{- end }}

{{- define "kafscale.operatorImage" -}}
{{ .Values.operator.image.repository }}:{{ .Values.operator.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- define "kafscale.brokerImage" -}}
{{ .Values.broker.image.repository }}:{{ .Values.broker.image.tag | default .Chart.AppVersion }}
{{- end }}
