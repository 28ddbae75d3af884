{{/* Written by go test ./manifest -update, from the template of package nodepod. */}}
{{- define "node-partition.pod-validations" -}}
- expression: >-
    request.operation == 'CREATE' && request.?subResource.orValue('') == ''
  message: the controller makes pods, and does not change them
- expression: >-
    request.namespace == '{{ .Release.Namespace }}'
  message: the controller makes pods in the namespace {{ .Release.Namespace }} alone
- expression: >-
    !has(object.metadata.ownerReferences) && !has(object.metadata.finalizers)
  message: the pod of a node has neither owners nor finalizers
- expression: >-
    dyn(object.spec).all(k, k in ['activeDeadlineSeconds', 'affinity', 'automountServiceAccountToken', 'containers', 'dnsPolicy', 'enableServiceLinks', 'imagePullSecrets', 'preemptionPolicy', 'priority', 'priorityClassName', 'restartPolicy', 'schedulerName', 'securityContext', 'serviceAccount', 'serviceAccountName', 'terminationGracePeriodSeconds', 'tolerations', 'volumes'])
  message: the pod of a node has a field that the template does not have
- expression: >-
    size(object.spec.containers) == 1
  message: the pod of a node has one container
- expression: >-
    dyn(object.spec.containers[0]).all(k, k in ['args', 'command', 'image', 'imagePullPolicy', 'name', 'resources', 'securityContext', 'terminationMessagePath', 'terminationMessagePolicy', 'volumeMounts'])
  message: the container has a field that the template does not have
- expression: >-
    variables.node.matches('^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$') && variables.args[2] == '--version={{ .Chart.AppVersion }}' && (variables.args[0] == 'remove' && size(variables.args) == 3 || variables.args[0] == 'apply' && size(variables.args) == 8 && variables.args[3] == '--section=/section/section.yaml' && variables.args[4].matches('^--section-sha256=[0-9a-f]{64}$') && variables.args[5].matches('^--trial=[0-9hms]{1,16}$') && variables.args[6].matches(r'^--monitor-args=(--[a-z][a-z0-9.-]*(=[A-Za-z0-9./:_,=@+\[\]-]*)?( --[a-z][a-z0-9.-]*(=[A-Za-z0-9./:_,=@+\[\]-]*)?)*)?$') && variables.args[7] in ['--survey=false', '--survey=true'])
  message: the arguments are not those of the template
- expression: >-
    dyn(object.spec).?priorityClassName.orValue('') == '{{ .Values.nodePods.priorityClassName }}'
  message: priorityClassName is not that of the template
- expression: >-
    dyn(object.spec).affinity == {"nodeAffinity": dyn({"requiredDuringSchedulingIgnoredDuringExecution": dyn({"nodeSelectorTerms": dyn([dyn({"matchFields": dyn([dyn({"key": dyn("metadata.name"), "operator": dyn("In"), "values": dyn([dyn(variables.node)])})])})])})})}
  message: affinity is not that of the template
- expression: >-
    dyn(object.spec).automountServiceAccountToken == false
  message: automountServiceAccountToken is not that of the template
- expression: >-
    dyn(object.spec).dnsPolicy == "Default"
  message: dnsPolicy is not that of the template
- expression: >-
    dyn(object.spec).enableServiceLinks == false
  message: enableServiceLinks is not that of the template
- expression: >-
    dyn(object.spec).restartPolicy == "Never"
  message: restartPolicy is not that of the template
- expression: >-
    dyn(object.spec).schedulerName == "default-scheduler"
  message: schedulerName is not that of the template
- expression: >-
    dyn(object.spec).securityContext == {"appArmorProfile": dyn({"type": dyn("{{ .Values.nodePods.appArmorProfile }}")}), "runAsGroup": dyn(0), "runAsUser": dyn(0), {{ with .Values.nodePods.seLinuxType }}"seLinuxOptions": dyn({"type": dyn("{{ . }}")}), {{ end }}"seccompProfile": dyn({"type": dyn("RuntimeDefault")})}
  message: securityContext is not that of the template
- expression: >-
    dyn(object.spec).serviceAccount == "node-partition-node"
  message: serviceAccount is not that of the template
- expression: >-
    dyn(object.spec).serviceAccountName == "node-partition-node"
  message: serviceAccountName is not that of the template
- expression: >-
    dyn(object.spec).volumes == [dyn({"hostPath": dyn({"path": dyn("/run/dbus"), "type": dyn("Directory")}), "name": dyn("bus")}), dyn({"hostPath": dyn({"path": dyn("/var/lib/node-partition/installer"), "type": dyn("DirectoryOrCreate")}), "name": dyn("state")}), dyn({"downwardAPI": dyn({"defaultMode": dyn(292), "items": dyn([dyn({"fieldRef": dyn({"apiVersion": dyn("v1"), "fieldPath": dyn("metadata.annotations['node-partition.io/section']")}), "path": dyn("section.yaml")})])}), "name": dyn("section")})]
  message: volumes is not that of the template
- expression: >-
    dyn(object.spec.containers[0]).command == [dyn("/partition-installer")]
  message: command is not that of the template
- expression: >-
    dyn(object.spec.containers[0]).image == "{{ include "node-partition.image" . }}"
  message: image is not that of the template
- expression: >-
    dyn(object.spec.containers[0]).imagePullPolicy == "{{ .Values.image.pullPolicy }}"
  message: imagePullPolicy is not that of the template
- expression: >-
    dyn(object.spec.containers[0]).name == "node"
  message: name is not that of the template
- expression: >-
    dyn(object.spec.containers[0]).resources == {"limits": dyn({"memory": dyn("256Mi")}), "requests": dyn({"cpu": dyn("10m"), "memory": dyn("32Mi")})}
  message: resources is not that of the template
- expression: >-
    dyn(object.spec.containers[0]).securityContext == {"allowPrivilegeEscalation": dyn(false), "capabilities": dyn({"drop": dyn([dyn("ALL")])}), "privileged": dyn(false), "readOnlyRootFilesystem": dyn(true)}
  message: securityContext is not that of the template
- expression: >-
    dyn(object.spec.containers[0]).terminationMessagePath == "/dev/termination-log"
  message: terminationMessagePath is not that of the template
- expression: >-
    dyn(object.spec.containers[0]).terminationMessagePolicy == "FallbackToLogsOnError"
  message: terminationMessagePolicy is not that of the template
- expression: >-
    dyn(object.spec.containers[0]).volumeMounts == [dyn({"mountPath": dyn("/run/dbus"), "name": dyn("bus"), "readOnly": dyn(true)}), dyn({"mountPath": dyn("/host/state"), "name": dyn("state")}), dyn({"mountPath": dyn("/section"), "name": dyn("section"), "readOnly": dyn(true)})]
  message: volumeMounts is not that of the template
{{- end }}
