{{/* The beginning of all names: the release, short enough for a service's name made of it. */}}
{{- define "namely.fullname" -}}
{{ .Release.Name | trunc 46 | trimSuffix "-" }}
{{- end }}

{{/* The labels that select the pods of a component. Takes the root and the component. */}}
{{- define "namely.selector" -}}
app.kubernetes.io/name: namely
app.kubernetes.io/instance: {{ .root.Release.Name | quote }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{/* All labels of a component. */}}
{{- define "namely.labels" -}}
{{ include "namely.selector" . }}
app.kubernetes.io/part-of: namely
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
{{- end }}

{{/* Annotations of pods with a router. */}}
{{- define "namely.scrape" -}}
{{- if .Values.metrics.annotations -}}
prometheus.io/scrape: "true"
prometheus.io/port: {{ .Values.metrics.port | int | quote }}
{{- end -}}
{{- end }}

{{/* The image of the router and the tools. */}}
{{- define "namely.image" -}}
image: "{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}"
imagePullPolicy: {{ .Values.image.pullPolicy }}
{{- end }}

{{/* The fields that all pods have. */}}
{{- define "namely.pod" -}}
automountServiceAccountToken: false
enableServiceLinks: false
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* No root and no capabilities. */}}
{{- define "namely.podSecurity" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{- define "namely.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}

{{/* The router of a pod: its ports. */}}
{{- define "namely.routerPorts" -}}
- {name: tcp, containerPort: 6363, protocol: TCP}
- {name: udp, containerPort: 6363, protocol: UDP}
- {name: metrics, containerPort: {{ .Values.metrics.port | int }}, protocol: TCP}
{{- end }}

{{/* The parts of a router's configuration that all routers share. */}}
{{- define "namely.toml" -}}
[discovery]
enabled = false

[metrics]
listen = "0.0.0.0:{{ .Values.metrics.port | int }}"
{{- end }}

{{/* A claim of the size and class in `volume`, which outlives the release. */}}
{{- define "namely.claim" -}}
accessModes: [ReadWriteOnce]
{{- with .storageClass }}
storageClassName: {{ . }}
{{- end }}
resources:
  requests:
    storage: {{ .sizeGi | int }}Gi
{{- end }}
