{{/* Labels of all objects. */}}
{{- define "node-partition.labels" -}}
app.kubernetes.io/name: node-partition
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ regexReplaceAll "[-._]+$" (.Chart.AppVersion | replace "+" "_" | replace "~" "_" | trunc 63) "" | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name (.Chart.Version | replace "+" "_") }}
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

{{/* The text of node-partition.yaml. What Helm's schema cannot see in a file is looked at here. */}}
{{- define "node-partition.section" -}}
{{- if and .Values.section .Values.sectionFile -}}
{{- fail "section and sectionFile are both set: set one of them" -}}
{{- else if .Values.sectionFile -}}
{{- $parsed := fromYaml .Values.sectionFile -}}
{{- if hasKey $parsed "Error" -}}
{{- fail (printf "sectionFile: this is not YAML: %s" $parsed.Error) -}}
{{- end -}}
{{- range $field, $value := $parsed -}}
{{- if not (has $field (list "apiVersion" "kind" "systemPartition" "workloadPartitions")) -}}
{{- fail (printf "sectionFile: unknown field %q; want apiVersion, kind, systemPartition, workloadPartitions" $field) -}}
{{- end -}}
{{- end -}}
{{- if not (or $parsed.systemPartition $parsed.workloadPartitions) -}}
{{- fail "sectionFile: there is neither systemPartition nor workloadPartitions: add one, or uninstall the release" -}}
{{- end -}}
{{- if and $parsed.systemPartition (not $parsed.systemPartition.namespaces) -}}
{{- fail "sectionFile: systemPartition has no namespaces: name the namespaces whose pods it holds" -}}
{{- end -}}
{{- .Values.sectionFile -}}
{{- else if .Values.section -}}
{{- merge (dict "apiVersion" "kubelet.config.k8s.io/v1beta1" "kind" "KubeletConfiguration") .Values.section | toYaml }}
{{ else -}}
{{- fail "section and sectionFile are both empty: set one of them, such as --set-file sectionFile=node-partition.yaml" -}}
{{- end -}}
{{- end -}}

{{/* What identifies the text: the first 12 hexadecimal digits of its SHA-256. */}}
{{- define "node-partition.hash" -}}
{{- include "node-partition.section" . | sha256sum | trunc 12 -}}
{{- end -}}

{{/* A duration such as 90s, 10m or 1h in seconds. */}}
{{- define "node-partition.seconds" -}}
{{- $unit := . | trunc -1 -}}
{{- mul (trimSuffix $unit . | int64) (get (dict "s" 1 "m" 60 "h" 3600) $unit) -}}
{{- end -}}

{{/* The Job of one node, without what depends on the node: names, labels of the roll, the node. */}}
{{- define "node-partition.job" -}}
{{- $stages := .stages -}}
{{- $root := .root -}}
{{- $deadline := include "node-partition.seconds" $root.Values.roll.deadline | int64 -}}
{{- $trial := include "node-partition.seconds" $root.Values.roll.trial | int64 -}}
{{- if or (lt $trial 60) (gt $trial 86400) -}}
{{- fail (printf "roll.trial: %s: want 1m to 24h" $root.Values.roll.trial) -}}
{{- else if le $deadline $trial -}}
{{- fail (printf "roll.deadline: %s is not longer than roll.trial, %s: a node must have the time to go back" $root.Values.roll.deadline $root.Values.roll.trial) -}}
{{- end -}}
apiVersion: batch/v1
kind: Job
metadata:
  labels:
    {{- include "node-partition.labels" $root | nindent 4 }}
    app.kubernetes.io/component: node
spec:
  # A node that failed is as before, or needs somebody to look at it. It is not tried again.
  backoffLimit: 0
  podReplacementPolicy: Failed
  activeDeadlineSeconds: {{ $deadline }}
  template:
    metadata:
      labels:
        app.kubernetes.io/name: node-partition
        app.kubernetes.io/instance: {{ $root.Release.Name }}
        app.kubernetes.io/component: node
        {{- if .section }}
        node-partition.io/section: {{ include "node-partition.hash" $root | quote }}
        {{- end }}
    spec:
      restartPolicy: Never
      serviceAccountName: node-partition-node
      automountServiceAccountToken: false
      enableServiceLinks: false
      {{- with $root.Values.nodePods.priorityClassName }}
      priorityClassName: {{ . | quote }}
      {{- end }}
      {{- with $root.Values.imagePullSecrets }}
      imagePullSecrets:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $root.Values.nodePods.tolerations }}
      tolerations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      securityContext:
        # systemd asks for user 0 on its bus. The capabilities of root are dropped below.
        runAsUser: 0
        runAsGroup: 0
        seccompProfile: {type: RuntimeDefault}
        appArmorProfile: {type: {{ $root.Values.nodePods.appArmorProfile }}}
        {{- with $root.Values.nodePods.seLinuxType }}
        seLinuxOptions: {type: {{ . | quote }}}
        {{- end }}
      {{- range $i, $stage := $stages }}
      {{- if eq $i (sub (len $stages) 1 | int) }}
      containers:
      {{- else if eq $i 0 }}
      initContainers:
      {{- end }}
        - name: {{ $stage }}
          image: {{ include "node-partition.image" $root | quote }}
          imagePullPolicy: {{ $root.Values.image.pullPolicy }}
          command: [/partition-installer]
          args:
            - {{ $stage }}
            # The dispatcher sets these variables.
            - --node=$(NODE_PARTITION_NODE)
            - --roll=$(NODE_PARTITION_ROLL)
            - {{ printf "--version=%s" $root.Chart.AppVersion | quote }}
            - --state=/host/state
            {{- if $.section }}
            - --section=/section/section.yaml
            - {{ printf "--trial=%s" $root.Values.roll.trial }}
            {{- if ne $root.Values.roll.nri "none" }}
            - {{ printf "--nri=%s" $root.Values.roll.nri }}
            {{- end }}
            {{- with $root.Values.monitorArgs }}
            - {{ printf "--monitor-args=%s" (join " " .) | quote }}
            {{- end }}
            {{- end }}
          terminationMessagePolicy: FallbackToLogsOnError
          securityContext:
            privileged: false
            allowPrivilegeEscalation: false
            readOnlyRootFilesystem: true
            capabilities: {drop: [ALL]}
          resources:
            {{- toYaml $root.Values.nodePods.resources | nindent 12 }}
          volumeMounts:
            # systemd runs the stages on the host: its socket is here.
            - {name: bus, mountPath: /run/dbus, readOnly: true}
            # The programs that systemd runs, and what they found before they changed anything.
            - {name: state, mountPath: /host/state}
            {{- if $.section }}
            - {name: section, mountPath: /section, readOnly: true}
            {{- end }}
      {{- end }}
      volumes:
        # The folder and not the socket: a pod with a socket that is missing never starts, and so
        # never says that it is missing.
        - name: bus
          hostPath: {path: /run/dbus, type: DirectoryOrCreate}
        - name: state
          hostPath: {path: /var/lib/node-partition/installer, type: DirectoryOrCreate}
        {{- if .section }}
        - name: section
          configMap: {name: node-partition-section-{{ include "node-partition.hash" $root }}}
        {{- end }}
{{- end -}}

{{/* The pod of the dispatcher, for one action. */}}
{{- define "node-partition.dispatcher" -}}
{{- $root := .root -}}
metadata:
  labels:
    app.kubernetes.io/name: node-partition
    app.kubernetes.io/instance: {{ $root.Release.Name }}
    app.kubernetes.io/component: dispatcher
spec:
  restartPolicy: Never
  serviceAccountName: node-partition-dispatcher
  enableServiceLinks: false
  {{- with $root.Values.dispatcher.priorityClassName }}
  priorityClassName: {{ . | quote }}
  {{- end }}
  {{- with $root.Values.imagePullSecrets }}
  imagePullSecrets:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $root.Values.dispatcher.nodeSelector }}
  nodeSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $root.Values.dispatcher.tolerations }}
  tolerations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  securityContext:
    runAsNonRoot: true
    runAsUser: 65532
    runAsGroup: 65532
    seccompProfile: {type: RuntimeDefault}
  containers:
    - name: dispatcher
      image: {{ include "node-partition.image" $root | quote }}
      imagePullPolicy: {{ $root.Values.image.pullPolicy }}
      command: [/partition-fleet]
      args:
        - {{ .action }}
        - --namespace=$(NAMESPACE)
        - --config=/config/roll.yaml
        - {{ printf "--image=%s" (include "node-partition.image" $root) | quote }}
        - {{ printf "--release=%s/%s" $root.Release.Namespace $root.Release.Name | quote }}
        - {{ printf "--revision=%d" $root.Release.Revision | quote }}
        - --lock-namespace=kube-system
      env:
        - name: NAMESPACE
          valueFrom: {fieldRef: {fieldPath: metadata.namespace}}
      terminationMessagePolicy: FallbackToLogsOnError
      securityContext:
        privileged: false
        allowPrivilegeEscalation: false
        readOnlyRootFilesystem: true
        capabilities: {drop: [ALL]}
      resources:
        {{- toYaml $root.Values.dispatcher.resources | nindent 8 }}
      volumeMounts:
        - {name: config, mountPath: /config, readOnly: true}
  volumes:
    - name: config
      configMap: {name: node-partition}
{{- end -}}

{{/* How a Job of the dispatcher ends. Its exit status says whether another try can help: 1, 2 and 3
     are answers. A pod that was killed is replaced, and takes up the roll. Without podFailurePolicy a
     removal that failed would be tried again at once, which tries its failed nodes again. With it
     podReplacementPolicy has to be Failed. So the pod of a node that has lost its power is replaced
     when the Node is deleted or marked as out of service: docs/fleet-dispatcher.md. */}}
{{- define "node-partition.dispatcher.job" -}}
backoffLimit: 6
podReplacementPolicy: Failed
ttlSecondsAfterFinished: 259200
podFailurePolicy:
  rules:
    - action: FailJob
      onExitCodes: {containerName: dispatcher, operator: In, values: [1, 2, 3]}
    - action: Ignore
      onPodConditions: [{type: DisruptionTarget}]
template:
  {{- include "node-partition.dispatcher" . | nindent 2 }}
{{- end -}}
