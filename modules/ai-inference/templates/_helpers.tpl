{{/* The settings: those of plain Helm, covered by those of Deckhouse (key aiInference). */}}
{{- define "ai-inference.values" -}}
{{- $values := .Values | toYaml | fromYaml -}}
{{- mergeOverwrite (omit $values "global" "aiInference") ($values.aiInference | default dict) | toYaml -}}
{{- end -}}

{{- define "ai-inference.deckhouse" -}}
{{- if hasKey .Values "aiInference" -}}true{{- end -}}
{{- end -}}

{{- define "ai-inference.namespace" -}}
{{- if include "ai-inference.deckhouse" . -}}d8-ai-inference{{- else -}}{{ .Release.Namespace }}{{- end -}}
{{- end -}}

{{/* Labels of every object; argument: the component. */}}
{{- define "ai-inference.labels" -}}
heritage: deckhouse
module: ai-inference
app: {{ . }}
{{- end -}}

{{- define "ai-inference.image" -}}
{{- $values := include "ai-inference.values" . | fromYaml -}}
{{- $reference := dig "image" "reference" "" $values -}}
{{- $digest := dig "modulesImages" "digests" "aiInference" "aiInference" "" (.Values.global | default dict) -}}
{{- if $reference -}}
{{ $reference }}
{{- else if $digest -}}
{{- $base := .Values.global.modulesImages.registry.base -}}
{{- with dig "registry" "base" "" $values -}}
{{- $base = printf "%s/ai-inference" (trimSuffix "/" .) -}}
{{- end -}}
{{ $base }}@{{ $digest }}
{{- else -}}
{{ .Chart.Name }}:{{ .Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{/* What stands in every Pod, besides its containers and volumes; argument: list context values serviceAccount. */}}
{{- define "ai-inference.pod" -}}
{{- $values := index . 1 -}}
serviceAccountName: {{ index . 2 }}
automountServiceAccountToken: true
enableServiceLinks: false
securityContext:
  runAsNonRoot: true
  runAsUser: 64535
  runAsGroup: 64535
  fsGroup: 64535
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile:
    type: RuntimeDefault
{{- with $values.imagePullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
{{- with $values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* What stands in every container, besides its command, ports, probes and mounts; argument: list context values. */}}
{{- define "ai-inference.container" -}}
{{- $values := index . 1 -}}
image: {{ include "ai-inference.image" (index . 0) }}
imagePullPolicy: {{ dig "image" "pullPolicy" "IfNotPresent" $values }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities:
    drop: [ALL]
resources:
  requests:
    cpu: 50m
    memory: 128Mi
    ephemeral-storage: 50Mi
{{- end -}}
