"""Manifests of the shapes that people have: those of the training operator's and KubeRay's examples, in our words."""

from __future__ import annotations

from typing import Any

import yaml

_TEXT = """
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: bert, labels: {team: nlp}}
spec:
  runPolicy: {cleanPodPolicy: Running, backoffLimit: 0}
  pytorchReplicaSpecs:
    Master: &role
      replicas: 1
      restartPolicy: Never
      template:
        metadata:
          labels: {team: nlp}
          annotations:
            sidecar.istio.io/inject: "false"
            prometheus.io/scrape: "true"
            prometheus.io/port: "9090"
        spec:
          serviceAccountName: trainer
          imagePullSecrets: [{name: registry}]
          nodeSelector: {disk: ssd}
          tolerations: [{key: nvidia.com/gpu, operator: Exists}]
          affinity:
            nodeAffinity:
              requiredDuringSchedulingIgnoredDuringExecution:
                nodeSelectorTerms:
                - matchExpressions:
                  - {key: kubernetes.io/hostname, operator: In, values: [node-1]}
                  - {key: kubernetes.io/hostname, operator: NotIn, values: [node-2]}
          containers:
          - name: pytorch
            image: registry.example/bert:1
            command: [torchrun, train.py]
            args: [--epochs, "3"]
            env: [{name: NCCL_DEBUG, value: INFO}]
            ports: [{name: pytorchjob-port, containerPort: 23456}, {name: metrics, containerPort: 9090}]
            resources:
              requests: {cpu: 8, memory: 64Gi, nvidia.com/gpu: 4}
              limits: {cpu: 8, memory: 64Gi, nvidia.com/gpu: 4}
            volumeMounts:
            - {name: shm, mountPath: /dev/shm}
            - {name: data, mountPath: /mnt/data, readOnly: true}
            - {name: data, mountPath: /mnt/out, subPath: out}
          volumes:
          - {name: shm, emptyDir: {medium: Memory, sizeLimit: 8Gi}}
          - {name: data, persistentVolumeClaim: {claimName: data}}
    Worker: {<<: *role, replicas: 3}
---
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: resnet, namespace: vision, labels: {kueue.x-k8s.io/queue-name: user-queue}}
spec:
  nprocPerNode: "2"
  elasticPolicy: {rdzvBackend: c10d, minReplicas: 1, maxReplicas: 4, maxRestarts: 10}
  runPolicy: {backoffLimit: 3, ttlSecondsAfterFinished: 60, activeDeadlineSeconds: 100}
  pytorchReplicaSpecs:
    Worker:
      replicas: 3
      restartPolicy: OnFailure
      template:
        spec:
          hostNetwork: true
          priorityClassName: high
          initContainers: [{name: wait, image: "registry.example/wait:1"}]
          containers:
          - {name: proxy, image: "registry.example/proxy:1"}
          - name: pytorch
            image: registry.example/resnet:1
            imagePullPolicy: Always
            command: [python, -m, torch.distributed.run, train.py]
            env:
            - {name: LEVEL, valueFrom: {configMapKeyRef: {name: settings, key: level}}}
            - {name: POD, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
            - {name: COPY, value: $(LEVEL)!}
            - {name: OF_POD, value: $(POD)!}
            resources: {requests: {cpu: 4}, limits: {nvidia.com/gpu: 1, rdma/hca: 1}}
            volumeMounts:
            - {name: shm, mountPath: /dev/shm}
            - {name: settings, mountPath: /settings}
            - {name: gone, mountPath: /gone}
          volumes:
          - {name: shm, emptyDir: {medium: Memory, sizeLimit: 2Gi}}
          - {name: data, persistentVolumeClaim: {claimName: data}}
          - {name: settings, configMap: {name: settings}}
          - {name: files, nfs: {server: files.example, path: /}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {level: debug}
---
apiVersion: ray.io/v1
kind: RayJob
metadata: {name: counter}
spec:
  entrypoint: python /code/main.py
  runtimeEnvYAML: |
    pip:
    - requests==2.32.3
    env_vars: {counter_name: test}
  rayClusterSpec:
    rayVersion: 2.52.0
    headGroupSpec:
      rayStartParams: {dashboard-host: 0.0.0.0}
      template:
        spec:
          containers:
          - name: ray-head
            image: registry.example/ray:2.52
            ports: [{containerPort: 6379, name: gcs}, {containerPort: 8265}, {containerPort: 10001}]
            resources: {limits: {cpu: 1}, requests: {cpu: 200m}}
            volumeMounts: [{name: code, mountPath: /code}]
          volumes: [{name: code, configMap: {name: code, items: [{key: main.py, path: main.py}]}}]
    workerGroupSpecs:
    - groupName: small
      replicas: 1
      minReplicas: 1
      maxReplicas: 5
      rayStartParams: {}
      template:
        spec:
          containers:
          - name: ray-worker
            image: registry.example/ray:2.52
            lifecycle: {preStop: {exec: {command: [ray, stop]}}}
            resources: {limits: {cpu: 2, memory: 4Gi}, requests: {cpu: 2, memory: 4Gi}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: code}
data: {main.py: "import ray"}
---
apiVersion: ray.io/v1
kind: RayJob
metadata: {generateName: tune-}
spec:
  entrypoint: python tune.py
  submissionMode: HTTPMode
  entrypointNumCpus: 1
  shutdownAfterJobFinishes: true
  ttlSecondsAfterFinished: 60
  activeDeadlineSeconds: 600
  runtimeEnv: eyJlbnZfdmFycyI6IHsiQSI6ICIxIn19
  submitterPodTemplate: {spec: {containers: [{name: submit, image: "registry.example/ray:2.52"}]}}
  rayClusterSpec:
    enableInTreeAutoscaling: true
    autoscalerOptions: {upscalingMode: Conservative, idleTimeoutSeconds: 30}
    headGroupSpec:
      serviceType: ClusterIP
      rayStartParams: {num-cpus: "0"}
      template: &pod
        spec:
          containers:
          - name: ray
            image: registry.example/ray:2.52
            resources: {limits: {cpu: 1, memory: 4Gi}, requests: {cpu: 1, memory: 4Gi}}
    workerGroupSpecs:
    - {groupName: small, replicas: 2, minReplicas: 1, maxReplicas: 5, rayStartParams: {num-cpus: "1"}, template: *pod}
    - {groupName: large, replicas: 1, template: *pod}
"""
PYTORCH, *_REST = list(yaml.safe_load_all(_TEXT))
ELASTIC, RAY, RAY_SCALED = _REST[0:2], _REST[2:4], _REST[4]
SIZE = {"cpu": "1", "memory": "1Gi"}


def container(**fields: Any) -> dict[str, Any]:
    """Return the container of a PyTorchJob; a field that is None is left out."""
    base = {"name": "pytorch", "image": "registry.example/a:1", "command": ["true"], "resources": {"limits": SIZE}}
    return {key: value for key, value in {**base, **fields}.items() if value is not None}


def pod(*, volumes: Any = None, **fields: Any) -> dict[str, Any]:
    """Return a pod template with one such container."""
    spec = {"containers": [container(**fields)], **({"volumes": volumes} if volumes else {})}
    return {"spec": spec}
