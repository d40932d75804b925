{{/* Whom the policies are about; argument: the module's namespace, where the controller keeps Secrets of its own. */}}
{{- define "ai-inference.theController" -}}
- name: the-controller
  expression: >-
    request.userInfo.username == 'system:serviceaccount:{{ . }}:ai-inference-controller' &&
    !(request.resource.resource == 'secrets' && request.namespace == '{{ . }}')
{{- end -}}

{{/* The forms of kinds; argument: dict of label, with the name of the order, and hosts, which a host of one fulfils. */}}
{{- define "ai-inference.formOf.secrets" -}}
variables:
  - name: certificate
    expression: "(object != null ? object : oldObject).metadata.name.endsWith('-tls')"
validations:
  - expression: >-
      object == null || (variables.certificate ? object.type == 'kubernetes.io/tls' &&
      object.?data.orValue({}).all(key, key in ['tls.crt', 'tls.key']) : object.?type.orValue('Opaque') == 'Opaque')
    message: the controller of ai-inference writes Opaque Secrets for keys and kubernetes.io/tls for certificates only
  - expression: "request.operation != 'DELETE' || variables.certificate"
    message: the controller of ai-inference deletes certificates of orders, and no other Secrets
{{- end -}}

{{- define "ai-inference.formOf.roles" -}}
validations:
  - expression: >-
      object.rules.size() == 1 && object.rules[0].?apiGroups.orValue([]) == [''] &&
      object.rules[0].?resources.orValue([]) == ['secrets'] && object.rules[0].verbs == ['get'] &&
      object.rules[0].?resourceNames.orValue([]) == [object.metadata.name.substring(0, object.metadata.name.size() - 7)]
    message: the controller of ai-inference writes Roles that read the Secret <order>-auth, and no others
{{- end -}}

{{/* What may be annotated; argument: list of keys. DNS, ingress controllers and service meshes do as annotations say. */}}
{{- define "ai-inference.annotated" -}}
- expression: >-
    object.metadata.?annotations.orValue({}).all(key, {{ with . }}(key in ['{{ join "', '" . }}'] &&
    object.metadata.annotations[key].matches('^[-.a-z0-9]+$')) || {{ end }}(oldObject != null &&
    oldObject.metadata.?annotations[?key].orValue('') == object.metadata.annotations[key]))
  message: the controller of ai-inference annotates what leads to an order as orders need it, and no further
{{- end -}}

{{- define "ai-inference.formOf.services" -}}
validations:
  - expression: >-
      object.spec.type == 'ClusterIP' && object.spec.?externalIPs.orValue([]).size() == 0 &&
      object.spec.?selector.orValue({}) == {'{{ .label }}': object.metadata.name}
    message: the controller of ai-inference writes Services inside the cluster that lead to Pods of the order only
  {{- include "ai-inference.annotated" list | nindent 2 }}
{{- end -}}

{{- define "ai-inference.formOf.ingresses" -}}
{{- $keys := list "cert-manager.io/cluster-issuer" -}}
{{- range list "proxy-body-size" "proxy-buffering" "proxy-request-buffering" "proxy-http-version" "proxy-read-timeout" "proxy-send-timeout" "ssl-redirect" -}}
{{- $keys = append $keys (printf "nginx.ingress.kubernetes.io/%s" .) -}}
{{- end -}}
variables:
  - name: hosts
    expression: "object.spec.?rules.orValue([]).map(rule, rule.?host.orValue(''))"
  - name: kept
    expression: "oldObject != null ? oldObject.spec.?rules.orValue([]).map(rule, rule.?host.orValue('')) : []"
validations:
  - expression: >-
      !has(object.spec.defaultBackend) && object.spec.?rules.orValue([]).all(rule, has(rule.http) &&
      rule.http.paths.all(path, path.backend.?service.name.orValue('') == object.metadata.name)) &&
      object.spec.?tls.orValue([]).all(one, one.?secretName.orValue('') == object.metadata.name + '-tls')
    message: the controller of ai-inference writes Ingresses that lead to the Service of the order with its certificate only
  - expression: >-
      variables.hosts.all(host, host in variables.kept || {{ .hosts }}) &&
      object.spec.?tls.orValue([]).all(one, one.?hosts.orValue([]).all(host, host in variables.hosts))
    message: the controller of ai-inference takes hosts of the domain for orders, and no others
  {{- include "ai-inference.annotated" $keys | nindent 2 }}
{{- end -}}

{{- define "ai-inference.formOf.statefulsets" -}}
variables:
  - name: pod
    expression: object.spec.template.spec
  - name: containers
    expression: "variables.pod.containers + variables.pod.?initContainers.orValue([])"
  - name: selected
    expression: "{'{{ .label }}': object.metadata.name}"
validations:
  - expression: >-
      object.spec.selector.?matchLabels.orValue({}) == variables.selected &&
      object.spec.template.metadata.?labels[?'{{ .label }}'].orValue('') == object.metadata.name
    message: the controller of ai-inference runs Pods under the label of their order only
  - expression: >-
      !variables.pod.?hostNetwork.orValue(false) && !variables.pod.?hostPID.orValue(false) &&
      !variables.pod.?hostIPC.orValue(false) && !variables.pod.?shareProcessNamespace.orValue(false) &&
      !has(variables.pod.nodeName) &&
      variables.containers.all(one, one.?ports.orValue([]).all(port, port.?hostPort.orValue(0) == 0))
    message: the controller of ai-inference runs no Pods that reach into their node
  - expression: >-
      object.spec.?volumeClaimTemplates.orValue([]).size() == 0 &&
      variables.pod.?volumes.orValue([]).all(one, has(one.emptyDir) ||
      one.?secret.secretName.orValue('') == object.metadata.name + '-auth' || (has(one.persistentVolumeClaim) &&
      one.persistentVolumeClaim.?readOnly.orValue(false) &&
      one.persistentVolumeClaim.claimName.matches('^ai-(cluster)?model-')))
    message: the controller of ai-inference mounts models, the key of the order and empty folders, and nothing else
  - expression: >-
      variables.pod.?serviceAccountName.orValue('') in ['', 'default'] &&
      !variables.pod.?automountServiceAccountToken.orValue(true)
    message: the controller of ai-inference runs Pods without a ServiceAccount only
  - expression: >-
      variables.containers.all(one, one.?envFrom.orValue([]).size() == 0 && one.?env.orValue([]).all(variable,
      !has(variable.valueFrom) || has(variable.valueFrom.fieldRef) || has(variable.valueFrom.resourceFieldRef)))
    message: the controller of ai-inference gives no Secrets or ConfigMaps to Pods as variables
  - expression: >-
      variables.pod.?securityContext.runAsNonRoot.orValue(false) &&
      variables.pod.?securityContext.seccompProfile.type.orValue('') == 'RuntimeDefault' &&
      variables.containers.all(one, has(one.securityContext) &&
      !one.securityContext.?privileged.orValue(false) &&
      !one.securityContext.?allowPrivilegeEscalation.orValue(true) &&
      one.securityContext.?readOnlyRootFilesystem.orValue(false) &&
      one.securityContext.?capabilities.drop.orValue([]).exists(name, name == 'ALL') &&
      one.securityContext.?capabilities.add.orValue([]).size() == 0 &&
      one.securityContext.?runAsNonRoot.orValue(true) && one.securityContext.?runAsUser.orValue(1) != 0 &&
      one.securityContext.?procMount.orValue('Default') == 'Default' && !has(one.securityContext.seccompProfile))
    message: the controller of ai-inference runs Pods as restricted as can be only
  - expression: >-
      variables.pod.?securityContext.runAsUser.orValue(1) != 0 &&
      variables.pod.?securityContext.sysctls.orValue([]).size() == 0 &&
      !has(variables.pod.securityContext.seLinuxOptions) && !has(variables.pod.securityContext.windowsOptions) &&
      !has(variables.pod.securityContext.appArmorProfile) &&
      variables.containers.all(one, !has(one.securityContext.seLinuxOptions) &&
      !has(one.securityContext.windowsOptions) && !has(one.securityContext.appArmorProfile)) &&
      object.spec.template.metadata.?annotations.orValue({}).all(key, !key.contains('apparmor'))
    message: the controller of ai-inference leaves to the node what confines Pods there
  - expression: >-
      variables.containers.all(one, [?one.?livenessProbe, ?one.?readinessProbe, ?one.?startupProbe].all(asked,
      asked.?httpGet.host.orValue('') == '' && asked.?tcpSocket.host.orValue('') == '') &&
      [?one.?lifecycle.preStop, ?one.?lifecycle.postStart].all(asked,
      asked.?httpGet.host.orValue('') == '' && asked.?tcpSocket.host.orValue('') == ''))
    message: the controller of ai-inference has nodes ask the Pods of the order, and nobody else
{{- end -}}
